//! Real Apache ZooKeeper, from Debian's `libzookeeper-java`: one server alone, or an ensemble.
//!
//! - [`Setup`]: the tick, and other settings of a test.
//! - [`Server`]: kill, stop, restart, pause.
//! - [`ServerWords`]: what a server says about itself; works with any server that answers four-letter words.
//! - [`Ensemble`]: several of them, who leads, and the connection string.
//! - [`words`]: asks four-letter words, and parses the answers.
//!
//! Servers listen on loopback (or inside a [network](crate::namespaces)), keep their data in a temporary folder, and
//! die with the test. `proxy` and `namespaces` cut their links.

pub mod words;

pub use words::{Role, ServerWords};

use std::fmt::Write as _;
use std::fs;
use std::ops::Deref;
use std::process::Command;
use std::time::Duration;

use tokio::time;

use crate::daemon::{Daemon, Ground, SERVING_WITHIN};
use crate::namespaces::Network;
use crate::server::{self, Elects, Group, Kind, LOOK_WITHIN};
use crate::{Availability, Error, Result, process};

/// One Apache ZooKeeper; dropping it kills it and removes its data. Its [`ServerWords`] ask it about itself.
pub type Server = server::Server<Setup>;

/// The archives on a server's class path; their manifests name the rest. `slf4j-simple` writes warnings to the log.
const JARS: &[&str] = &["/usr/share/java/zookeeper.jar", "/usr/share/java/slf4j-simple.jar"];

/// What keeps a Java process small and quick to start: it runs for seconds, beside many others.
pub(crate) const JAVA_OPTIONS: &[&str] = &[
    "-Xms16m",
    "-Xmx128m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xshare:auto",
    "-XX:-UsePerfData",
    "-Djava.net.preferIPv4Stack=true",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
];

/// Whether real servers can be started here.
pub fn availability() -> Availability {
    process::availability()
        .and(|| Availability::of_programs(&["java"], "default-jdk-headless"))
        .and(|| Availability::of_files(JARS, "libzookeeper-java"))
}

/// `a:b:c`, as Java wants its class path.
pub(crate) fn class_path(jars: &[&str]) -> String {
    jars.join(":")
}

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
        availability()
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

impl Server {
    /// Starts a server that stands alone on a free port, and waits until it serves.
    pub async fn standalone(setup: Setup) -> Result<Self> {
        Self::started(setup).await
    }

    /// Starts such a server whose data is on the disk, for measuring.
    pub async fn standalone_on_disk(setup: Setup) -> Result<Self> {
        Self::started(Setup { on_disk: true, ..setup }).await
    }
}

impl Deref for Server {
    type Target = ServerWords;

    fn deref(&self) -> &ServerWords {
        &self.operator
    }
}

/// An ensemble of real servers, numbered from 0; dropping it kills them all.
pub type Ensemble = Group<Setup>;

impl Ensemble {
    /// Starts `count` servers on loopback and waits until all serve.
    pub async fn start(count: usize, setup: Setup) -> Result<Self> {
        let grounds = vec![setup.member_ground(); count];
        Self::run(grounds, setup).await
    }

    /// Starts such servers whose data are on the disk, for measuring.
    pub async fn start_on_disk(count: usize, setup: Setup) -> Result<Self> {
        Self::start(count, Setup { on_disk: true, ..setup }).await
    }

    /// Starts one server in each namespace of `network` and waits until all serve. The clients' addresses are those of
    /// the links from this process's own namespace.
    pub async fn start_in(network: &Network, setup: Setup) -> Result<Self> {
        let ground = setup.member_ground();
        Self::run(server::in_network(network, &ground), setup).await
    }

    async fn run(grounds: impl IntoIterator<Item = Ground>, setup: Setup) -> Result<Self> {
        let setup = |index, all: &[Daemon]| {
            let members = (1..).zip(all).map(|(number, daemon)| Setup::member(number, daemon)).collect();
            Setup { number: index + 1, members, ..setup.clone() }
        };
        Self::prepare(grounds, setup)?.started().await
    }

    /// All addresses, as clients want them: `host:port,host:port`.
    pub fn connect_string(&self) -> String {
        let addresses: Vec<String> = self.addresses().iter().map(ToString::to_string).collect();
        addresses.join(",")
    }

    /// The index of a follower.
    pub async fn follower(&self) -> Result<usize> {
        self.find("a follower", false, None, SERVING_WITHIN).await
    }
}
