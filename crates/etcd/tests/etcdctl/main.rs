//! One queue with the real `etcdctl`, in both directions. It is a separate binary, since it has long rounds.

#[path = "../support/service.rs"]
mod service;
mod turns;

use std::fs;
use std::fs::File;
use std::net::SocketAddr;
use std::process::Stdio;

use lockkeeper_conformance::SOON;
use lockkeeper_faults::process::Process;
use lockkeeper_faults::{process, wait};
use lockkeeper_recipes::Keeper;
use tempfile::NamedTempFile;

/// A keeper whose locks are shared with `etcdctl`.
fn keeper(address: SocketAddr) -> Keeper {
    service::ETCD.keeper(&[address], "layout=etcdctl&session_timeout=30s")
}

/// Waits until so many contenders stand in a queue, theirs and ours.
async fn until_contenders(keeper: &Keeper, lock: &str, count: usize) {
    let look = async || (keeper.contenders(lock).await.expect("a look").len() == count).then_some(());
    wait::until(&format!("{count} contenders of {lock}"), SOON, look).await.expect("they come");
}

async fn until_there(path: &std::path::Path) {
    let look = async || path.exists().then_some(());
    wait::until(&path.display().to_string(), SOON, look).await.expect("it comes");
}

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
