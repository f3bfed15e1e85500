//! Holders of the library: in this process, or in another one that can be killed and stopped.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_conformance::soon;
use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{FencingToken, LossReason};
use lockkeeper_faults::process::{self, Process};
use lockkeeper_faults::proxy::Proxy;
use lockkeeper_recipes::{Keeper, MutexGuard};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::program;
use crate::stage::{keeper, now, url};

/// How long a holder's client may take to end: its servers may be away.
const CLOSED_WITHIN: Duration = Duration::from_secs(2);

/// A holder in this process.
pub(crate) struct Holder {
    keeper: Keeper,
    guard: Option<MutexGuard>,
    pub(crate) token: FencingToken,
    proxies: Vec<Proxy>,
    watching: JoinHandle<(BootInstant, LossReason)>,
}

impl Holder {
    /// Takes a lock that is free, through proxies, so that it can be cut off.
    pub(crate) async fn start(servers: &[SocketAddr], timeout: Duration, lock: &str) -> Self {
        let mut proxies = Vec::new();
        for &server in servers {
            proxies.push(Proxy::of_bytes(server).await.expect("a proxy"));
        }
        let through: Vec<_> = proxies.iter().map(Proxy::address).collect();
        let keeper = keeper(&url(&through, timeout));
        let mutex = keeper.mutex(lock).expect("a name");
        let guard = soon("the first grant", mutex.lock()).await.expect("no other client is there");
        let (hold, token) = (guard.hold().clone(), guard.fencing_token());
        let watching = tokio::spawn(async move {
            let last_held = program::last_held(&hold).await;
            (last_held, hold.lost().await)
        });
        Self { keeper, guard: Some(guard), token, proxies, watching }
    }

    /// What to call when the rival is granted the lock: it sees whether the hold stands then.
    pub(crate) fn look(&self, seen: &Arc<std::sync::Mutex<Option<BootInstant>>>) -> impl FnOnce() + Send + 'static {
        let (hold, seen) = (self.guard.as_ref().expect("it holds").hold().clone(), seen.clone());
        move || {
            let asked_at = now();
            if hold.is_held() {
                *seen.lock().expect("no panic") = Some(asked_at);
            }
        }
    }

    pub(crate) fn cut_off(&self) {
        self.proxies.iter().for_each(Proxy::blackhole);
    }

    /// Whether the hold stands.
    pub(crate) fn is_held(&self) -> bool {
        self.guard.as_ref().is_some_and(|guard| guard.hold().is_held())
    }

    /// Gives the lock back; returns when that was begun, or nothing if the hold was lost before.
    pub(crate) async fn release(&mut self) -> Option<BootInstant> {
        let releasing_at = now();
        let releasing = self.guard.take().expect("it holds").release();
        soon("the release", releasing).await.is_ok().then_some(releasing_at)
    }

    /// Waits until the hold is lost: when it last stood, and why it ended.
    pub(crate) async fn lost(&mut self) -> (BootInstant, LossReason) {
        soon("the end of the hold", &mut self.watching).await.expect("no panic")
    }

    /// Ends the client.
    pub(crate) async fn end(self) {
        for proxy in &self.proxies {
            proxy.heal();
            proxy.reset();
        }
        drop(self.guard);
        let _ = tokio::time::timeout(CLOSED_WITHIN, self.keeper.close()).await;
    }
}

/// A holder in another process.
pub(crate) struct Other {
    pub(crate) process: Process,
    pub(crate) token: FencingToken,
    lines: mpsc::UnboundedReceiver<String>,
}

impl Other {
    /// Takes a lock that is free.
    pub(crate) async fn start(servers: &[SocketAddr], timeout: Duration, lock: &str) -> Self {
        let mut command = process::command(std::env::current_exe().expect("a path"));
        program::tell(&mut command, &url(servers, timeout), lock);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = Process::start(command).expect("another process");
        let output = BufReader::new(process.take_stdout().expect("it is piped"));
        let (said, mut lines) = mpsc::unbounded_channel();
        // It says two lines at most, and ends with the process.
        std::thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| said.send(line)));
        let held = soon("the other's grant", lines.recv()).await.expect("it takes the lock");
        let token = held.strip_prefix("held ").expect("it holds").parse().expect("a token");
        Self { process, token, lines }
    }

    /// Waits until it says that it has lost the lock: when it last found that it held it, and why no longer.
    pub(crate) async fn lost(&mut self) -> (BootInstant, LossReason) {
        let line = soon("the other's word", self.lines.recv()).await.expect("it speaks");
        let words: Vec<_> = line.split(' ').collect();
        let [_, nanos, reason] = words[..] else { panic!("`{line}` instead of its end") };
        let reasons = [LossReason::Lapsed, LossReason::Expired, LossReason::Removed];
        let reason = reasons.into_iter().find(|known| format!("{known:?}") == reason);
        (BootInstant::from_nanos(nanos.parse().expect("a number")), reason.unwrap_or_else(|| panic!("{line}")))
    }
}
