//! A server's settings: its tick, and any other entry of `zoo.cfg` or Java property that a test needs.
//!
//! `server` and `ensemble` choose its addresses and its peers.

use std::fmt::Write as _;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use super::{JARS, class_path};

/// ZooKeeper's tick in its sample configuration and in Debian's.
const TICK_DEFAULT: Duration = Duration::from_secs(2);

/// The transaction log grows in steps of this many KiB, not of ZooKeeper's 64 MiB: these servers live for seconds.
const LOG_STEP_KIB: u32 = 512;

/// Settings of a server or of all servers of an ensemble.
#[derive(Clone, Debug)]
pub struct Setup {
    tick: Duration,
    entries: Vec<(String, String)>,
    properties: Vec<(String, String)>,
    jars: Vec<String>,
}

/// One line `server.N=host:quorum:election` of an ensemble's configuration.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) number: usize,
    pub(super) host: IpAddr,
    pub(super) quorum_port: u16,
    pub(super) election_port: u16,
}

impl Setup {
    /// ZooKeeper's usual settings: tick of 2 s, so sessions of 4 s to 40 s; every four-letter word answered.
    pub fn new() -> Self {
        Self { tick: TICK_DEFAULT, entries: Vec::new(), properties: Vec::new(), jars: Vec::new() }
    }

    /// Sets the tick: sessions last from 2 to 20 of them, and followers are given up after 5.
    pub fn tick(mut self, tick: Duration) -> Self {
        self.tick = tick;
        self
    }

    /// Adds an entry of `zoo.cfg`, such as `maxSessionTimeout`.
    pub fn entry(mut self, name: &str, value: &str) -> Self {
        self.entries.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Adds a Java property, such as `znode.container.checkIntervalMs`.
    pub fn property(mut self, name: &str, value: &str) -> Self {
        self.properties.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Adds an archive to the class path, for what Debian's `zookeeper.jar` can use and does not name.
    pub fn jar(mut self, path: &str) -> Self {
        self.jars.push(path.to_owned());
        self
    }

    /// The class path: the usual archives, and those added.
    pub(super) fn class_path(&self) -> String {
        let added = self.jars.iter().map(String::as_str);
        class_path(&JARS.iter().copied().chain(added).collect::<Vec<_>>())
    }

    /// The text of `zoo.cfg`; without members, of a server that stands alone.
    pub(super) fn configuration(&self, data: &Path, host: IpAddr, port: u16, members: &[Member]) -> String {
        let mut text = format!(
            "tickTime={}\ndataDir={}\nclientPortAddress={host}\nclientPort={port}\n\
             admin.enableServer=false\n4lw.commands.whitelist=*\n",
            self.tick.as_millis(),
            data.display()
        );
        if !members.is_empty() {
            text.push_str("initLimit=10\nsyncLimit=5\n");
        }
        for Member { number, host, quorum_port, election_port } in members {
            // Writing to a String does not fail.
            let _ = writeln!(text, "server.{number}={host}:{quorum_port}:{election_port}");
        }
        for (name, value) in &self.entries {
            let _ = writeln!(text, "{name}={value}");
        }
        text
    }

    /// The Java properties, as options of the command line.
    pub(super) fn java_properties(&self) -> Vec<String> {
        let mut options = vec![format!("-Dzookeeper.preAllocSize={LOG_STEP_KIB}")];
        options.extend(self.properties.iter().map(|(name, value)| format!("-D{name}={value}")));
        options
    }
}

impl Default for Setup {
    fn default() -> Self {
        Self::new()
    }
}
