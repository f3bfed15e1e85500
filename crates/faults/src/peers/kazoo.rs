//! Starting kazoo's driver, with the kazoo in the target directory.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use super::Peer;
use crate::Packages;
use crate::hosts::Hosts;
use crate::target::{self, Files};
use crate::{Availability, Result, process};

const SOURCES: Files = &[
    ("ground.py", include_str!("../../peers/kazoo/ground.py")),
    ("kazoo_peer.py", include_str!("../../peers/kazoo/kazoo_peer.py")),
    ("locks.py", include_str!("../../peers/kazoo/locks.py")),
];
/// The package `kazoo`.
const PACKAGES: Packages = Packages::new("kazoo", include_str!("../../peers/kazoo/requirements.txt"));

/// Whether kazoo can be driven here.
pub fn availability() -> Availability {
    process::availability().and(|| PACKAGES.availability())
}

/// Where kazoo lies, for `PYTHONPATH`.
pub fn packages() -> Result<PathBuf> {
    PACKAGES.folder()
}

/// Starts kazoo with a session at `connect` and waits until it stands.
pub async fn start(connect: &str, session_timeout: Duration) -> Result<Peer> {
    start_with(process::command("python3"), connect, session_timeout).await
}

/// Starts kazoo as [`start`] does, on the machine of this name, with contenders that name themselves so.
pub async fn start_on(
    hosts: &Hosts,
    name: &str,
    identifier: &str,
    connect: &str,
    session_timeout: Duration,
) -> Result<Peer> {
    let mut command = hosts.command(name, "python3");
    command.env("KAZOO_IDENTIFIER", identifier);
    start_with(command, connect, session_timeout).await
}

async fn start_with(mut command: Command, connect: &str, session_timeout: Duration) -> Result<Peer> {
    let driver = target::made(target::path("kazoo-peer", SOURCES), |folder| target::write(folder, SOURCES))?;
    command.env("PYTHONPATH", PACKAGES.folder()?).arg(driver.join("kazoo_peer.py"));
    Peer::start("kazoo", command, connect, session_timeout).await
}
