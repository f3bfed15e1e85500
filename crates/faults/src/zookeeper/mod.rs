//! Real Apache ZooKeeper, from Debian's `libzookeeper-java`: one server alone, or an ensemble.
//!
//! - [`Setup`]: the tick, and other settings of a test.
//! - [`Server`]: kill, stop, restart, pause.
//! - [`ServerWords`]: what a server says about itself; works with any server that answers four-letter words.
//! - [`Ensemble`]: several of them, who leads, and the connection string.
//! - [`words`]: parses the answers to four-letter words.
//!
//! Servers listen on loopback (or inside a [network](crate::namespaces)), keep their data in a temporary folder, and
//! die with the test. `proxy` and `namespaces` cut their links.

mod asking;
mod ensemble;
mod setup;
pub mod words;

pub use asking::{Role, ServerWords};
pub use ensemble::Ensemble;
pub use setup::Setup;

use crate::{Availability, process, server};

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
