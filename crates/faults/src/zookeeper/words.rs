//! Four-letter words: what Apache's server, or any other that answers them, says about itself.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time;

use crate::wait::ANSWERED_WITHIN;
use crate::{Error, Result};

/// The most that an answer may hold: `cons` and `wchp` grow with the sessions.
const ANSWER_BYTES_MAX: u64 = 16 << 20;

/// The role of a server.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Role {
    /// It has no peers.
    Standalone,
    /// It leads an ensemble.
    Leader,
    /// It follows a leader.
    Follower,
    /// It follows without a vote.
    Observer,
}

/// What a server says about itself: its role, its clients, and its own counts. Each question is an error where the
/// server does not answer, or does not serve: it is starting, or has lost its leader.
#[derive(Clone, Copy, Debug)]
pub struct ServerWords {
    address: SocketAddr,
}

impl ServerWords {
    /// For the server at `address`, which need not be there yet.
    pub fn new(address: SocketAddr) -> Self {
        Self { address }
    }

    /// Where clients reach it.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its role now.
    pub async fn role(&self) -> Result<Role> {
        role(&self.four_letter_word("srvr").await?)
    }

    /// Packets it has received from and sent to clients since it started. Each four-letter word adds to both.
    pub async fn packets(&self) -> Result<Packets> {
        packets(&self.four_letter_word("srvr").await?)
    }

    /// One of the numbers of `mntr`, such as `zk_watch_count`; the names are ZooKeeper's.
    pub async fn metric(&self, name: &str) -> Result<f64> {
        metric(&self.four_letter_word("mntr").await?, name)
    }

    /// The connections of its clients (`cons`), with packets for each; that of the question itself is among them.
    pub async fn connections(&self) -> Result<Vec<Connection>> {
        connections(&self.four_letter_word("cons").await?)
    }

    /// How many watches its clients have on it (`mntr`): on data and on children, where `wchs` counts those on data
    /// alone.
    pub async fn watches(&self) -> Result<u64> {
        self.counts().await.map(|counts| counts.watches)
    }

    /// The ephemeral nodes and the session of each (`dump`), as pairs of session and path.
    pub async fn ephemerals(&self) -> Result<Vec<(u64, String)>> {
        ephemerals(&self.four_letter_word("dump").await?)
    }

    /// Its own counts (`mntr`), all of one moment. The question adds a packet received, and one sent after the
    /// counting.
    pub async fn counts(&self) -> Result<Counts> {
        counts(&self.four_letter_word("mntr").await?)
    }

    /// The watches of its clients on data (`wchp`), as pairs of path and session. Curator's own on `/zookeeper/config`
    /// are among them; those on children are not.
    pub async fn watched(&self) -> Result<Vec<(String, u64)>> {
        watched(&self.four_letter_word("wchp").await?)
    }

    /// The paths of the ephemeral nodes that lie below `path` (`dump`), sorted.
    pub async fn ephemerals_under(&self, path: &str) -> Result<Vec<String>> {
        let start = format!("{}/", path.trim_end_matches('/'));
        let found = self.ephemerals().await?.into_iter().map(|(_, path)| path);
        let mut found: Vec<String> = found.filter(|path| path.starts_with(&start)).collect();
        found.sort();
        Ok(found)
    }

    /// Asks it one of ZooKeeper's four-letter words.
    ///
    /// # Cancellation
    ///
    /// Dropping the future closes the connection.
    pub async fn four_letter_word(&self, word: &str) -> Result<String> {
        let asking = async {
            let mut stream = TcpStream::connect(self.address).await?;
            stream.write_all(word.as_bytes()).await?;
            let mut answer = String::new();
            stream.take(ANSWER_BYTES_MAX).read_to_string(&mut answer).await?;
            Ok(answer)
        };
        let asked = format!("{word} of {}", self.address);
        time::timeout(ANSWERED_WITHIN, asking)
            .await
            .map_err(|_| Error::new(format!("{asked}: no answer within {ANSWERED_WITHIN:?}")))?
            .map_err(Error::io(asked))
    }
}

/// Packets between a server and its clients.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Packets {
    /// From clients: requests, pings, four-letter words.
    pub received: u64,
    /// To clients: replies and notifications.
    pub sent: u64,
}

/// What a server counts (`mntr`).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Counts {
    /// Packets since it started; a client's pings and four-letter words are among them.
    pub packets: Packets,
    /// Its nodes, ZooKeeper's own four or five among them.
    pub nodes: u64,
    /// Those of its nodes that end with a session.
    pub ephemerals: u64,
    /// Watches of its clients, of all kinds.
    pub watches: u64,
    /// Connections of its clients, that of the question among them.
    pub connections: u64,
}

/// One line of `cons`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Connection {
    /// The client's address, as the server sees it.
    pub client: String,
    /// The session; none for a four-letter word or a session not yet made.
    pub session: Option<u64>,
    /// Its packets so far.
    pub packets: Packets,
    /// The last operation, in ZooKeeper's four letters (`CREA`, `PING`).
    pub last_operation: Option<String>,
}

/// The role in an answer to `srvr`.
fn role(answer: &str) -> Result<Role> {
    match after(answer, "Mode: ") {
        Some("standalone") => Ok(Role::Standalone),
        Some("leader") => Ok(Role::Leader),
        Some("follower") => Ok(Role::Follower),
        Some("observer") => Ok(Role::Observer),
        _ => Err(unexpected("srvr", answer)),
    }
}

/// The packets in an answer to `srvr`.
fn packets(answer: &str) -> Result<Packets> {
    let number = |name| after(answer, name).and_then(|text| text.parse().ok());
    match (number("Received: "), number("Sent: ")) {
        (Some(received), Some(sent)) => Ok(Packets { received, sent }),
        _ => Err(unexpected("srvr", answer)),
    }
}

/// One number in an answer to `mntr`: lines of name, tab, number.
fn metric(answer: &str, name: &str) -> Result<f64> {
    answer
        .lines()
        .filter_map(|line| line.split_once('\t'))
        .find(|(found, _)| *found == name)
        .and_then(|(_, number)| number.parse().ok())
        .ok_or_else(|| unexpected(&format!("mntr for {name}"), answer))
}

/// The counts in an answer to `mntr`.
fn counts(answer: &str) -> Result<Counts> {
    // Counts are whole and far below 2^53.
    let number = |name| metric(answer, name).map(|number| number as u64);
    Ok(Counts {
        packets: Packets { received: number("zk_packets_received")?, sent: number("zk_packets_sent")? },
        nodes: number("zk_znode_count")?,
        ephemerals: number("zk_ephemerals_count")?,
        watches: number("zk_watch_count")?,
        connections: number("zk_num_alive_connections")?,
    })
}

/// The watches in an answer to `wchp`: a path a line, below it a session a line, indented by a tab.
fn watched(answer: &str) -> Result<Vec<(String, u64)>> {
    let mut found = Vec::new();
    let mut watched = None;
    for line in answer.lines().filter(|line| !line.is_empty()) {
        match line.strip_prefix('\t') {
            None if line.starts_with('/') => watched = Some(line),
            Some(name) => {
                let pair = watched.zip(session(name)).ok_or_else(|| unexpected("wchp", answer))?;
                found.push((pair.0.to_owned(), pair.1));
            }
            None => return Err(unexpected("wchp", answer)),
        }
    }
    Ok(found)
}

/// The connections in an answer to `cons`: `/127.0.0.1:4242[1](queued=0,recved=3,sent=3,sid=0x1…,lop=PING,…)`.
fn connections(answer: &str) -> Result<Vec<Connection>> {
    let lines = answer.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.map(|line| connection(line).ok_or_else(|| unexpected("cons", line))).collect()
}

fn connection(line: &str) -> Option<Connection> {
    let (client, rest) = line.strip_prefix('/')?.split_once('[')?;
    let (_, fields) = rest.split_once('(')?;
    let fields = fields.strip_suffix(')')?;
    let field = |name: &str| {
        fields
            .split(',')
            .filter_map(|pair| pair.split_once('='))
            .find_map(|(found, value)| (found == name).then_some(value))
    };
    Some(Connection {
        client: client.to_owned(),
        session: field("sid").and_then(session),
        packets: Packets { received: field("recved")?.parse().ok()?, sent: field("sent")?.parse().ok()? },
        last_operation: field("lop").map(str::to_owned),
    })
}

/// The ephemeral nodes in an answer to `dump`: after a heading, `0x…:` for a session, then its paths, indented by a
/// tab.
pub fn ephemerals(answer: &str) -> Result<Vec<(u64, String)>> {
    let (_, list) = answer.split_once("Sessions with Ephemerals").ok_or_else(|| unexpected("dump", answer))?;
    let mut found = Vec::new();
    let mut owner = None;
    for line in list.lines().skip(1) {
        if let Some(path) = line.strip_prefix('\t').filter(|path| path.starts_with('/')) {
            let owner = owner.ok_or_else(|| unexpected("dump", answer))?;
            found.push((owner, path.to_owned()));
        } else if let Some(name) = line.strip_suffix(':') {
            match session(name) {
                Some(session) => owner = Some(session),
                // The next heading: the list is over.
                None => break,
            }
        }
    }
    Ok(found)
}

fn session(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

/// The rest of the line that starts with `start`.
fn after<'a>(answer: &'a str, start: &str) -> Option<&'a str> {
    answer.lines().find_map(|line| line.strip_prefix(start)).map(str::trim_end)
}

fn unexpected(word: &str, answer: &str) -> Error {
    Error::new(format!("no answer to {word}, but: {}", answer.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_have_sessions_unless_they_ask_four_letter_words() {
        let answer = " /127.0.0.1:39694[0](queued=0,recved=1,sent=0)\n \
            /127.0.0.1:39000[1](queued=0,recved=9,sent=8,sid=0x1000,lop=PING,est=1,to=4000)\n\n";
        let found = connections(answer).expect("two lines");
        assert_eq!(found[0].session, None);
        assert_eq!(found[1].session, Some(0x1000));
        assert_eq!(found[1].packets, Packets { received: 9, sent: 8 });
        assert_eq!(found[1].last_operation.as_deref(), Some("PING"));
        assert!(connections("nonsense").is_err());
    }

    #[test]
    fn ephemerals_are_listed_with_their_session() {
        let answer = "SessionTracker dump:\nSession Sets (1)/(1):\n1 expire at some day:\n\t0x10\n\
            ephemeral nodes dump:\nSessions with Ephemerals (2):\n0x10:\n\t/a/b\n\t/a/c\n0x11:\n\t/d\n\
            Connections dump:\nConnections Sets (1)/(1):\n1 expire at some day:\n\tip: /127.0.0.1:1 sessionId: 0x0\n";
        let expected = [(0x10, "/a/b"), (0x10, "/a/c"), (0x11, "/d")];
        let expected: Vec<_> = expected.map(|(session, path)| (session, path.to_owned())).into();
        assert_eq!(ephemerals(answer), Ok(expected));
    }
}
