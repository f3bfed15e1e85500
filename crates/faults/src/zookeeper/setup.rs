//! A server's settings: its tick, and any other entry of `zoo.cfg` or Java property that a test needs.
//!
//! `ensemble` chooses its peers.

use std::fmt::Write as _;
use std::fs;
use std::process::Command;
use std::time::Duration;

use tokio::time;

use super::{JARS, JAVA_OPTIONS, Role, ServerWords, class_path};
use crate::daemon::{Daemon, Ground};
use crate::group::{Elects, LOOK_WITHIN};
use crate::server::Kind;
use crate::{Availability, Error, Result};

/// ZooKeeper's tick in its sample configuration and in Debian's.
const TICK_DEFAULT: Duration = Duration::from_secs(2);

/// The transaction log grows in steps of this many KiB, not of ZooKeeper's 64 MiB: these servers live for seconds.
const LOG_STEP_KIB: u32 = 512;

/// Ports beside that of clients, of a member of an ensemble.
const QUORUM: usize = 1;
const ELECTION: usize = 2;

/// Settings of a server or of all servers of an ensemble.
///
/// Data stay in memory, unless they are measured: ZooKeeper makes each write wait until the disk has it, and a disk
/// that is busy with other things for some seconds ends sessions.
#[derive(Clone, Debug)]
pub struct Setup {
    pub(super) tick: Duration,
    pub(super) entries: Vec<(String, String)>,
    pub(super) properties: Vec<(String, String)>,
    pub(super) jars: Vec<String>,
    pub(super) on_disk: bool,
    /// Its own number.
    pub(super) number: usize,
    /// The lines for all members of its ensemble; none for one that stands alone.
    pub(super) members: String,
}

impl Setup {
    /// ZooKeeper's usual settings: tick of 2 s, so sessions of 4 s to 40 s; every four-letter word answered.
    pub fn new() -> Self {
        let (entries, properties, jars) = (Vec::new(), Vec::new(), Vec::new());
        Self { tick: TICK_DEFAULT, entries, properties, jars, on_disk: false, number: 1, members: String::new() }
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

    /// The line of an ensemble's configuration for the member of this number.
    pub(super) fn member(number: usize, daemon: &Daemon) -> String {
        let [quorum, election] = [QUORUM, ELECTION].map(|port| daemon.peer_address(port));
        format!("server.{number}={quorum}:{}\n", election.port())
    }

    /// What a member runs on.
    pub(super) fn member_ground(&self) -> Ground {
        Ground { more_ports: ELECTION, ..self.ground() }
    }

    /// The text of `zoo.cfg`.
    fn configuration(&self, daemon: &Daemon) -> String {
        let mut text = format!(
            "tickTime={}\ndataDir={}\nclientPortAddress={}\nclientPort={}\n\
             admin.enableServer=false\n4lw.commands.whitelist=*\n{}",
            self.tick.as_millis(),
            daemon.data_folder().display(),
            daemon.address().ip(),
            daemon.address().port(),
            self.members,
        );
        if !self.members.is_empty() {
            text.push_str("initLimit=10\nsyncLimit=5\n");
        }
        for (name, value) in &self.entries {
            // Writing to a String does not fail.
            let _ = writeln!(text, "{name}={value}");
        }
        text
    }
}

impl Kind for Setup {
    type Operator = ServerWords;

    fn availability(&self) -> Availability {
        super::availability()
    }

    fn ground(&self) -> Ground {
        Ground { on_disk: self.on_disk, ..Ground::default() }
    }

    fn operator(&self, daemon: &Daemon) -> ServerWords {
        ServerWords::new(daemon.address())
    }

    fn fill(&self, daemon: &Daemon) -> Result<()> {
        let data = daemon.data_folder();
        let made = fs::create_dir(&data).and_then(|()| fs::write(data.join("myid"), self.number.to_string()));
        made.map_err(Error::io(data.display()))
    }

    fn command(&self, daemon: &Daemon) -> Result<Command> {
        let mut command = daemon.command("java");
        let added = self.jars.iter().map(String::as_str);
        let jars: Vec<_> = JARS.iter().copied().chain(added).collect();
        command
            .args(JAVA_OPTIONS)
            .arg(format!("-Dzookeeper.preAllocSize={LOG_STEP_KIB}"))
            .args(self.properties.iter().map(|(name, value)| format!("-D{name}={value}")))
            .args(["-cp", &class_path(&jars)])
            .arg("org.apache.zookeeper.server.quorum.QuorumPeerMain")
            .arg(daemon.write("zoo.cfg", &self.configuration(daemon))?);
        Ok(command)
    }

    async fn serves(words: &ServerWords) -> bool {
        // One that is starting can accept a connection and forget it.
        time::timeout(LOOK_WITHIN, words.role()).await.is_ok_and(|role| role.is_ok())
    }
}

impl Elects for Setup {
    async fn leads(words: &ServerWords) -> Option<bool> {
        match words.role().await {
            Ok(Role::Leader) => Some(true),
            Ok(Role::Follower) => Some(false),
            _ => None,
        }
    }
}

impl Default for Setup {
    fn default() -> Self {
        Self::new()
    }
}
