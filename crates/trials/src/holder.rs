//! Holders of the library, each in another process, which can be killed, stopped and cut off.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::process::{ChildStdin, Stdio};

use lockkeeper_conformance::soon;
use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{FencingToken, LossReason};
use lockkeeper_faults::process::{self, Process};
use lockkeeper_faults::proxy::Proxy;
use tokio::sync::mpsc;

use crate::{Outcome, Service, program};

/// A holder in another process, which knows its servers through proxies.
#[derive(Debug)]
pub struct Holder {
    process: Process,
    /// The token of its grant.
    pub token: FencingToken,
    proxies: Vec<Proxy>,
    input: ChildStdin,
    lines: mpsc::UnboundedReceiver<String>,
}

/// How a hold ended.
#[derive(Clone, Copy, Debug)]
pub struct End {
    /// When it last stood.
    pub last_held: BootInstant,
    /// Why it was lost; `None` if it was given back.
    pub reason: Option<LossReason>,
}

impl Holder {
    /// Has another process take a lock that is free.
    pub async fn start(service: &Service, servers: &[SocketAddr], settings: &str, lock: &str) -> Self {
        let mut proxies = Vec::new();
        for &server in servers {
            proxies.push(Proxy::of_bytes(server).await.expect("a proxy"));
        }
        let through: Vec<_> = proxies.iter().map(Proxy::address).collect();
        let mut command = process::command(std::env::current_exe().expect("a path"));
        program::tell(&mut command, &(service.url)(&through, settings), lock);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = Process::start(command).expect("another process");
        let input = process.take_stdin().expect("it is piped");
        let output = BufReader::new(process.take_stdout().expect("it is piped"));
        let (said, mut lines) = mpsc::unbounded_channel();
        // It says two lines at most, and ends with the process.
        std::thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| said.send(line)));
        let held = soon("the first grant", lines.recv()).await.expect("it takes the lock");
        let token = held.strip_prefix("held ").expect("it holds").parse().expect("a token");
        Self { process, token, proxies, input, lines }
    }

    /// Kills it.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Stops its process.
    pub fn pause(&mut self) {
        self.process.pause().expect("it runs");
    }

    /// Lets its process go on.
    pub fn resume(&mut self) {
        self.process.resume().expect("it runs");
    }

    /// Cuts it off from its servers: nothing arrives any more, and no connection ends.
    pub fn cut_off(&self) {
        self.proxies.iter().for_each(Proxy::blackhole);
    }

    /// Asks it to give the lock back. It may have lost it before.
    pub fn ask_back(&mut self) {
        self.input.write_all(b"release\n").and_then(|()| self.input.flush()).expect("it hears");
    }

    /// Waits for its end, and says how that lies to the next grant.
    pub async fn outcome(
        &mut self,
        what: String,
        struck_at: BootInstant,
        next_token: FencingToken,
        granted_at: BootInstant,
    ) -> Outcome {
        let End { last_held, reason: ended_by } = self.ended().await;
        Outcome { what, struck_at, token: self.token, last_held: Some(last_held), ended_by, next_token, granted_at }
    }

    /// Waits until it says that it has given the lock back, or lost it.
    pub async fn ended(&mut self) -> End {
        let line = soon("the holder's word", self.lines.recv()).await.expect("it speaks");
        let words: Vec<_> = line.split(' ').collect();
        let (nanos, reason) = match words[..] {
            ["released", nanos] => (nanos, None),
            ["lost", nanos, reason] => {
                let reasons = [LossReason::Lapsed, LossReason::Expired, LossReason::Removed];
                let known = reasons.into_iter().find(|known| format!("{known:?}") == reason);
                (nanos, Some(known.unwrap_or_else(|| panic!("{line}"))))
            }
            _ => panic!("`{line}` instead of its end"),
        };
        End { last_held: BootInstant::from_nanos(nanos.parse().expect("a number")), reason }
    }
}
