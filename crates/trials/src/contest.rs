//! A holder in another process, which can be killed, stopped and cut off; the rival behind it; and what is between the
//! first grant and the second.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::process::{ChildStdin, Stdio};
use std::time::Duration;

use lockkeeper_conformance::{Party, Waiting, soon};
use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{FencingToken, LossReason};
use lockkeeper_faults::process::{self, Process};
use lockkeeper_faults::proxy::Proxy;
use lockkeeper_recipes::retry::RetryPolicy;
use tokio::sync::mpsc;

use crate::rounds::Outcome;
use crate::service::{self, Prize, Service, now};

/// How often a contest is started at most: on a busy machine a short session may end before both stand in the queue.
const STARTS_MAX: u32 = 20;

/// How a hold is to end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Ends {
    /// With its process.
    Killed,
    /// The holder finds out.
    ByItself,
    /// The holder is asked to give the lock back, if it still has it.
    WhenGivenBack,
}

/// A holder, and the rival behind it.
#[derive(Debug)]
pub struct Contest {
    lock: String,
    /// The first one.
    pub holder: Holder,
    rival: Rival,
}

impl Contest {
    /// Has a holder take a lock, and a rival queue up behind it, with the same servers.
    pub async fn start(service: &Service, servers: &[SocketAddr], settings: &str, lock: &str) -> Self {
        Self::between(service, (servers, settings), (servers, settings), lock).await
    }

    /// The same where the rival knows other servers, or has other settings: first those of the holder.
    pub async fn between(
        service: &Service,
        (servers, settings): (&[SocketAddr], &str),
        (rivals_servers, rivals_settings): (&[SocketAddr], &str),
        lock: &str,
    ) -> Self {
        for _ in 0..STARTS_MAX {
            let holder = Holder::start(service, servers, settings, lock).await;
            let rival = Rival::queue_up(service, rivals_servers, rivals_settings, lock).await;
            if rival.contenders(lock).await == 2 {
                return Self { lock: lock.to_owned(), holder, rival };
            }
            drop(holder);
            rival.give_up().await;
        }
        panic!("{lock}: in none of {STARTS_MAX} starts a holder, and a rival behind it, stood in the queue")
    }

    /// Waits for the rival's grant, and compares.
    pub async fn end(mut self, what: &str, struck_at: BootInstant, ends: Ends) -> Outcome {
        if ends == Ends::WhenGivenBack {
            self.holder.ask_back();
        }
        let granted = self.rival.granted().await;
        let end = match ends {
            Ends::Killed => None,
            Ends::ByItself | Ends::WhenGivenBack => {
                // It may have been stopped.
                self.holder.resume();
                Some(self.holder.ended().await)
            }
        };
        let outcome = Outcome {
            what: format!("{}: {what}", self.lock),
            struck_at,
            token: self.holder.token,
            last_held: end.map(|end| end.last_held),
            ended_by: end.and_then(|end| end.reason),
            next_token: granted.token(),
            granted_at: granted.at,
        };
        self.rival.end(granted).await;
        outcome
    }
}

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
        service::tell(&mut command, &(service.url)(&through, settings), lock);
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
                let known = LossReason::ALL.into_iter().find(|known| format!("{known:?}") == reason);
                (nanos, Some(known.unwrap_or_else(|| panic!("{line}"))))
            }
            _ => panic!("`{line}` instead of its end"),
        };
        End { last_held: BootInstant::from_nanos(nanos.parse().expect("a number")), reason }
    }
}

/// A client that waits for a lock that another one holds.
#[derive(Debug)]
pub struct Rival {
    party: Party,
    waiting: Waiting<Granted>,
}

/// A grant to a rival.
#[derive(Debug)]
pub struct Granted {
    prize: Prize,
    /// When it came.
    pub at: BootInstant,
}

impl Granted {
    /// Its token.
    pub fn token(&self) -> FencingToken {
        self.prize.token()
    }
}

impl Rival {
    /// Asks for the lock; comes back once the rival has joined the queue.
    pub async fn queue_up(service: &Service, servers: &[SocketAddr], settings: &str, lock: &str) -> Self {
        let retry = RetryPolicy::forever(Duration::from_millis(50), Duration::from_millis(500));
        let party = Party::over(service.backend(servers, settings), retry);
        let winning = Prize::win(party.keeper.clone(), lock.to_owned());
        let asking = async move { winning.await.map(|prize| Granted { prize, at: now() }) };
        let waiting = party.queue_up_for(asking).await;
        Self { party, waiting }
    }

    /// How many contenders it sees.
    pub async fn contenders(&self, lock: &str) -> usize {
        self.party.contenders(lock).await
    }

    /// Waits for the grant.
    pub async fn granted(&mut self) -> Granted {
        let granted = soon("the rival's grant", &mut self.waiting).await;
        granted.expect("no panic").expect("the server serves")
    }

    /// Stops waiting, and ends.
    pub(crate) async fn give_up(self) {
        self.waiting.abort();
        // It may have been granted the lock, or have failed.
        let _ = self.waiting.await;
        let _ = soon("closing", self.party.keeper.close()).await;
    }

    /// Gives the lock back, and ends.
    pub async fn end(self, granted: Granted) {
        soon("the release", granted.prize.give_back()).await.expect("the server serves");
        soon("closing", self.party.keeper.close()).await.expect("the server serves");
    }
}
