//! The real `etcdctl`, as a client of the same locks and as an operator's hand.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::process::Stdio;

use lockkeeper_conformance::SOON;
use lockkeeper_faults::process::{self, Process};
use tempfile::NamedTempFile;

/// One command under way; dropping it kills it.
pub(crate) struct Etcdctl {
    process: Process,
    printed: NamedTempFile,
}

impl Etcdctl {
    /// Starts `etcdctl --endpoints=ADDRESS ARGUMENTS…`.
    pub(crate) fn start(address: SocketAddr, arguments: &[&str]) -> Self {
        let printed = NamedTempFile::new().expect("a file");
        let output = || Stdio::from(File::options().append(true).open(printed.path()).expect("the file"));
        let mut command = process::command("etcdctl");
        command.arg(format!("--endpoints={address}")).args(arguments).env("ETCDCTL_API", "3");
        command.stdin(Stdio::null()).stdout(output()).stderr(output());
        Self { process: Process::start(command).expect("etcdctl"), printed }
    }

    /// What it has printed so far.
    pub(crate) fn printed(&self) -> String {
        fs::read_to_string(self.printed.path()).expect("the file")
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.process.is_running()
    }

    /// Waits for its end, which must be a good one.
    pub(crate) async fn end(mut self) {
        let status = self.process.exited(SOON).await.expect("it ends");
        assert!(status.success(), "{status}: {}", self.printed());
    }

    /// Asks it to end, as a user does by Ctrl-C, and waits for that.
    pub(crate) async fn interrupt(mut self) {
        self.process.terminate().expect("it runs");
        self.process.exited(SOON).await.expect("it ends");
    }
}

/// Runs a command to its end, which must be a good one.
pub(crate) async fn etcdctl(address: SocketAddr, arguments: &[&str]) {
    Etcdctl::start(address, arguments).end().await;
}
