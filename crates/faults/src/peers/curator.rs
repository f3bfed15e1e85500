//! Starting Curator's driver: real Curator from Debian's `libcurator-recipes-java`, compiled once into the target
//! directory.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use super::Peer;
use crate::hosts::Hosts;
use crate::target::{self, Files, run};
use crate::zookeeper::{JAVA_OPTIONS, class_path};
use crate::{Availability, Result, process};

const SOURCES: Files = &[
    ("Barriers.java", include_str!("../../peers/curator/Barriers.java")),
    ("Children.java", include_str!("../../peers/curator/Children.java")),
    ("CuratorPeer.java", include_str!("../../peers/curator/CuratorPeer.java")),
    ("Ground.java", include_str!("../../peers/curator/Ground.java")),
    ("LatchLock.java", include_str!("../../peers/curator/LatchLock.java")),
    ("Locks.java", include_str!("../../peers/curator/Locks.java")),
    ("MutexLock.java", include_str!("../../peers/curator/MutexLock.java")),
    ("Nodes.java", include_str!("../../peers/curator/Nodes.java")),
    ("OwnedMutex.java", OWNED_MUTEX),
    ("PeerLock.java", include_str!("../../peers/curator/PeerLock.java")),
    ("ReadWriteLocks.java", include_str!("../../peers/curator/ReadWriteLocks.java")),
    ("SelectorLock.java", include_str!("../../peers/curator/SelectorLock.java")),
    ("SemaphoreLock.java", include_str!("../../peers/curator/SemaphoreLock.java")),
    ("SemaphoreMutexLock.java", include_str!("../../peers/curator/SemaphoreMutexLock.java")),
    ("SharedCounts.java", include_str!("../../peers/curator/SharedCounts.java")),
    ("Timed.java", include_str!("../../peers/curator/Timed.java")),
    ("Turns.java", include_str!("../../peers/curator/Turns.java")),
];

/// The example of a mutex that says its owner, as the documentation shows it.
pub const OWNED_MUTEX: &str = include_str!("../../peers/curator/OwnedMutex.java");

/// The archives on the class path; their manifests name the rest.
const JARS: &[&str] = &[
    "/usr/share/java/curator-recipes.jar",
    "/usr/share/java/curator-framework.jar",
    "/usr/share/java/curator-client.jar",
    "/usr/share/java/zookeeper.jar",
    "/usr/share/java/slf4j-nop.jar",
];

/// Both compilers, and a heap that is seldom full; eight of them fit into a small machine.
const MEASURED_JAVA_OPTIONS: &[&str] = &["-Xms64m", "-Xmx256m", "-XX:+UseSerialGC", "-Xshare:auto"];

/// Whether Curator can be driven here.
pub fn availability() -> Availability {
    process::availability()
        .and(|| Availability::of_programs(&["java", "javac"], "default-jdk-headless"))
        .and(|| Availability::of_files(JARS, "libcurator-recipes-java"))
}

/// Starts Curator with a session at `connect` and waits until it stands.
pub async fn start(connect: &str, session_timeout: Duration) -> Result<Peer> {
    start_with(process::command("java"), JAVA_OPTIONS, connect, session_timeout).await
}

/// Starts Curator as [`start`] does, on the machine of this name.
pub async fn start_on(hosts: &Hosts, name: &str, connect: &str, session_timeout: Duration) -> Result<Peer> {
    start_with(hosts.command(name, "java"), JAVA_OPTIONS, connect, session_timeout).await
}

/// Starts Curator as [`start`] does, in a virtual machine that makes it as fast as it gets: for measuring.
pub async fn start_to_measure(connect: &str, session_timeout: Duration) -> Result<Peer> {
    start_with(process::command("java"), MEASURED_JAVA_OPTIONS, connect, session_timeout).await
}

async fn start_with(
    mut command: Command,
    java_options: &[&str],
    connect: &str,
    session_timeout: Duration,
) -> Result<Peer> {
    add_program(&mut command, java_options, "curator", SOURCES, "CuratorPeer")?;
    Peer::start("Curator", command, connect, session_timeout).await
}

/// A command that runs another program over Curator: the class `main` of these sources, which are compiled once.
pub fn program(name: &str, sources: Files, main: &str) -> Result<Command> {
    let mut command = process::command("java");
    add_program(&mut command, JAVA_OPTIONS, name, sources, main)?;
    Ok(command)
}

fn add_program(command: &mut Command, options: &[&str], name: &str, sources: Files, main: &str) -> Result<()> {
    let classes = classes(name, sources)?;
    let classes = classes.to_string_lossy();
    let path = [JARS, &[&classes]].concat();
    command.args(options).args(["-cp", &class_path(&path), main]);
    Ok(())
}

/// The folder of compiled sources.
fn classes(name: &str, sources: Files) -> Result<PathBuf> {
    target::made(target::path(name, sources), |folder| {
        target::write(folder, sources)?;
        let mut compiler = Command::new("javac");
        compiler.args(["-J-Xmx256m", "-J-XX:TieredStopAtLevel=1", "-encoding", "UTF-8"]);
        compiler.args(["-cp", &class_path(JARS), "-d"]).arg(folder);
        run(compiler.args(sources.iter().map(|(name, _)| folder.join(name))))
    })
}
