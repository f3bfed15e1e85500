//! Starting go-zookeeper's driver: the library from Debian's `golang-github-samuel-go-zookeeper-dev`, compiled once
//! into the target directory.
//!
//! The library has a mutex without a time limit and nothing else. This one of 2018 reads what follows the last dash of
//! every name as a number: it knows Curator's names, and fails on kazoo's.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use super::Peer;
use crate::target::{self, Files, run};
use crate::{Availability, Result, process};

const SOURCES: Files = &[
    ("ground.go", include_str!("../../peers/go/ground.go")),
    ("main.go", include_str!("../../peers/go/main.go")),
    ("peer.go", include_str!("../../peers/go/peer.go")),
];

/// Where Debian's packages put sources of Go.
const GO_PATH: &str = "/usr/share/gocode";

const LIBRARY: &[&str] = &["/usr/share/gocode/src/github.com/samuel/go-zookeeper/zk/lock.go"];

/// The compiled driver, inside its folder.
const PROGRAM: &str = "go-peer";

/// Whether go-zookeeper can be driven here.
pub fn availability() -> Availability {
    process::availability()
        .and(|| Availability::of_programs(&["go"], "golang-go"))
        .and(|| Availability::of_files(LIBRARY, "golang-github-samuel-go-zookeeper-dev"))
}

/// Starts go-zookeeper with a session at `connect` and waits until it stands.
pub async fn start(connect: &str, session_timeout: Duration) -> Result<Peer> {
    Peer::start("go-zookeeper", process::command(program()?), connect, session_timeout).await
}

/// The compiled driver.
fn program() -> Result<PathBuf> {
    let folder = target::made(target::path("go", SOURCES), |folder| {
        target::write(folder, SOURCES)?;
        let mut compiler = Command::new("go");
        compiler.args(["build", "-o", PROGRAM, "."]).current_dir(folder);
        // No modules, no network, no C compiler: only what the packages bring.
        compiler.envs([("GO111MODULE", "off"), ("GOPATH", GO_PATH), ("GOPROXY", "off"), ("CGO_ENABLED", "0")]);
        run(compiler.env("GOCACHE", target::folder().join("go-build")).env_remove("GOFLAGS"))
    })?;
    Ok(folder.join(PROGRAM))
}
