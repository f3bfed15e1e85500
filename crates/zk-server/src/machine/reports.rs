//! Four-letter words: what an operator, or a load balancer, asks over a plain connection.
//!
//! Lines and their order are those of Apache's standalone server, for tools that read them.

use std::fmt::Write;

use bytes::Bytes;

use crate::machine::connection::Connection;
use crate::machine::io::{ClockReading, CloseReason, SendKind};
use crate::machine::server::ServerMachine;
use crate::machine::settings::{FirstBytes, Word};
use crate::measures::{Load, ServerMeasures};
use crate::session::ConnectionId;

/// The version whose protocol is spoken, in the form in which clients look for it, and our own.
const VERSION: &str = concat!("3.8.0-lockkeeper-", env!("CARGO_PKG_VERSION"), ", built on 2022-02-25 08:49 UTC");

impl ServerMachine {
    /// Answers the first four bytes of a connection if they are a word, and closes it; `false` if they are not one.
    pub(super) fn report(&mut self, moment: ClockReading, id: ConnectionId, head: &[u8]) -> bool {
        let text = match self.settings.words.parse(head) {
            FirstBytes::Word(word) => self.text(word, moment),
            FirstBytes::Refused(word) => format!("{word} is not executed because it is not in the whitelist.\n"),
            FirstBytes::Nothing => return false,
        };
        self.count_received(id);
        self.send(id, Bytes::from(text), SendKind::Report);
        self.close(id, CloseReason::Reported);
        true
    }

    fn count_received(&mut self, id: ConnectionId) {
        self.counters.received += 1;
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.received_count += 1;
        }
    }

    fn text(&self, word: Word, moment: ClockReading) -> String {
        let mut text = String::new();
        let written = match word {
            Word::Ruok if self.refuses_writes => {
                text.write_str("writes are refused: the data cannot be stored; see what the server printed\n")
            }
            Word::Ruok => text.write_str("imok"),
            Word::Isro => text.write_str("rw"),
            Word::Srvr => self.write_server(&mut text),
            Word::Stat => self.write_stat(&mut text),
            Word::Mntr => self.write_monitor(&mut text),
            Word::Cons => self.write_connections(&mut text),
            Word::Dump => self.write_dump(&mut text, moment),
            Word::Wchs => self.write_watch_summary(&mut text),
            Word::Wchp => self.write_watches(&mut text),
            Word::Envi => write_environment(&mut text),
        };
        written.expect("writing into a string cannot fail");
        text
    }

    fn write_server(&self, text: &mut String) -> std::fmt::Result {
        writeln!(text, "Zookeeper version: {VERSION}")?;
        self.write_statistics(text)
    }

    fn write_stat(&self, text: &mut String) -> std::fmt::Result {
        writeln!(text, "Zookeeper version: {VERSION}\nClients:")?;
        for connection in self.connections.values() {
            writeln!(text, "{})", brief(connection))?;
        }
        writeln!(text)?;
        self.write_statistics(text)
    }

    fn write_statistics(&self, text: &mut String) -> std::fmt::Result {
        let load = self.load();
        if let Some(Load { latency_min_ms, latency_average_ms, latency_max_ms, .. }) = load {
            writeln!(text, "Latency min/avg/max: {latency_min_ms}/{latency_average_ms:.4}/{latency_max_ms}")?;
        }
        writeln!(text, "Received: {}", self.counters.received)?;
        writeln!(text, "Sent: {}", self.counters.sent)?;
        writeln!(text, "Connections: {}", self.connections.len())?;
        if let Some(load) = load {
            writeln!(text, "Outstanding: {}", load.outstanding)?;
        }
        writeln!(text, "Zxid: {:#x}", self.state.zxid)?;
        writeln!(text, "Mode: standalone")?;
        writeln!(text, "Node count: {}", self.apache_nodes_count())
    }

    fn write_monitor(&self, text: &mut String) -> std::fmt::Result {
        let ephemerals = self.state.tree.ephemerals().values().map(|paths| paths.len()).sum::<usize>();
        let numbers = [
            ("packets_received", self.counters.received.to_string()),
            ("packets_sent", self.counters.sent.to_string()),
            ("num_alive_connections", self.connections.len().to_string()),
            ("znode_count", self.apache_nodes_count().to_string()),
            ("watch_count", self.watches.len().to_string()),
            ("ephemerals_count", ephemerals.to_string()),
            ("approximate_data_size", self.state.tree.data_bytes().to_string()),
            ("global_sessions", self.state.sessions.len().to_string()),
            ("writes_refused", u8::from(self.refuses_writes).to_string()),
        ];
        writeln!(text, "zk_version\t{VERSION}\nzk_server_state\tstandalone")?;
        for (name, value) in numbers.into_iter().chain(self.load().into_iter().flat_map(load_rows)) {
            writeln!(text, "zk_{name}\t{value}")?;
        }
        Ok(())
    }

    fn load(&self) -> Option<Load> {
        self.measures.as_deref().map(ServerMeasures::load)
    }

    fn write_connections(&self, text: &mut String) -> std::fmt::Result {
        for connection in self.connections.values() {
            text.write_str(&brief(connection))?;
            if connection.session_id != 0 {
                let last = connection.last;
                write!(
                    text,
                    ",sid={:#x},lop={},est={},to={}",
                    connection.session_id, last.operation, connection.established_ms, connection.timeout_ms
                )?;
                if last.xid > 0 {
                    write!(text, ",lcxid={:#x}", last.xid)?;
                }
                write!(text, ",lzxid={:#x},lresp={}", last.zxid, last.at_ms)?;
            }
            writeln!(text, ")")?;
        }
        writeln!(text)
    }

    fn write_dump(&self, text: &mut String, moment: ClockReading) -> std::fmt::Result {
        let buckets = self.state.sessions.expiry().buckets();
        writeln!(text, "SessionTracker dump:")?;
        writeln!(text, "Session Sets ({})/({}):", buckets.len(), self.state.sessions.len())?;
        let now_ms = moment.now.as_nanos() / 1_000_000;
        for (end_ms, sessions) in buckets {
            writeln!(text, "{} expire in {} ms:", sessions.len(), end_ms.saturating_sub(now_ms))?;
            for session_id in sessions {
                writeln!(text, "\t{session_id:#x}")?;
            }
        }
        let ephemerals = self.state.tree.ephemerals();
        writeln!(text, "ephemeral nodes dump:\nSessions with Ephemerals ({}):", ephemerals.len())?;
        for (session_id, paths) in ephemerals {
            writeln!(text, "{session_id:#x}:")?;
            for path in paths {
                writeln!(text, "\t{path}")?;
            }
        }
        writeln!(text, "Connections dump:\nConnections ({}):", self.connections.len())?;
        for connection in self.connections.values() {
            writeln!(text, "\tip: /{} sessionId: {:#x}", connection.peer, connection.session_id)?;
        }
        Ok(())
    }

    fn write_watch_summary(&self, text: &mut String) -> std::fmt::Result {
        let watches = self.watches.data();
        let (connections, paths) = (watches.connections_count(), watches.paths().len());
        let total = watches.paths().map(|(_, watchers)| watchers.count()).sum::<usize>();
        writeln!(text, "{connections} connections watching {paths} paths\nTotal watches:{total}")
    }

    fn write_watches(&self, text: &mut String) -> std::fmt::Result {
        for (path, watchers) in self.watches.data().paths() {
            writeln!(text, "{path}")?;
            for connection in watchers {
                let session_id = self.connections.get(&connection).map_or(0, |one| one.session_id);
                writeln!(text, "\t{session_id:#x}")?;
            }
        }
        writeln!(text)
    }

    /// Apache counts the root twice, once under its other name.
    fn apache_nodes_count(&self) -> usize {
        self.state.tree.len() + 1
    }
}

/// What was measured, under Apache's names.
fn load_rows(load: Load) -> impl Iterator<Item = (&'static str, String)> {
    let rows = [
        ("outstanding_requests", Some(load.outstanding)),
        ("min_latency", Some(load.latency_min_ms)),
        ("max_latency", Some(load.latency_max_ms)),
        ("open_file_descriptor_count", load.open_descriptors),
        ("max_file_descriptor_count", load.descriptors_max),
        ("uptime", Some(load.uptime_ms)),
        ("cnt_fsynctime", Some(load.flushes)),
        ("sum_fsynctime", Some(load.flushes_ms)),
    ];
    let measured = rows.into_iter().filter_map(|(name, value)| value.map(|value| (name, value.to_string())));
    measured.chain([("avg_latency", format!("{:.4}", load.latency_average_ms))])
}

fn brief(connection: &Connection) -> String {
    format!(" /{}[1](queued=0,recved={},sent={}", connection.peer, connection.received_count, connection.sent_count)
}

fn write_environment(text: &mut String) -> std::fmt::Result {
    writeln!(text, "Environment:\nzookeeper.version={VERSION}")?;
    writeln!(text, "os.name={}\nos.arch={}", std::env::consts::OS, std::env::consts::ARCH)
}
