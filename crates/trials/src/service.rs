//! The clients of one service, and the other process: a program that holds a lock until it is told to give it back, and
//! tells how long it believed in it.

use std::io::{BufRead as _, Write as _};
use std::net::SocketAddr;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::clock::{BootInstant, Clock, SystemClock};
use lockkeeper_core::{Backend, FencingToken, LossReason, Result, ServiceUrl};
use lockkeeper_recipes::{Hold, Keeper, Leadership, MutexGuard};
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;

/// Reads the clock by which everything is measured here; all processes of a machine share it.
pub fn now() -> BootInstant {
    SystemClock.now()
}

/// A kind of service: how its URLs are written, and its clients made.
#[derive(Clone, Copy, Debug)]
pub struct Service {
    /// Writes the URL of these servers, with these settings behind the `?`.
    pub url: fn(&[SocketAddr], &str) -> String,
    /// Takes the service that a URL names.
    pub open: fn(&ServiceUrl) -> Result<Arc<dyn Backend>>,
}

impl Service {
    /// Takes the service at these servers.
    pub fn backend(&self, servers: &[SocketAddr], settings: &str) -> Arc<dyn Backend> {
        self.backend_at(&(self.url)(servers, settings))
    }

    pub(crate) fn backend_at(&self, url: &str) -> Arc<dyn Backend> {
        (self.open)(&url.parse().expect("a URL")).expect("a good URL")
    }

    /// Makes a client.
    pub fn keeper(&self, servers: &[SocketAddr], settings: &str) -> Keeper {
        Keeper::new(self.backend(servers, settings))
    }

    /// Plays the other process, if this is one: a test binary's `main` begins with it.
    pub fn play(&self) -> Option<ExitCode> {
        play(self)
    }
}

/// What the name of an election ends with here: the other process knows a lock by its name alone.
pub(crate) const ELECTION: &str = "-lead";

/// What was won.
#[derive(Debug)]
pub(crate) enum Prize {
    /// A mutex.
    Mutex(MutexGuard),
    /// The lead of an election.
    Lead(Leadership),
}

impl Prize {
    /// Waits for it.
    pub(crate) async fn win(keeper: Keeper, lock: String) -> Result<Self> {
        match lock.ends_with(ELECTION) {
            true => keeper.election(&lock)?.campaign().await.map(Self::Lead),
            false => keeper.mutex(&lock)?.lock().await.map(Self::Mutex),
        }
    }

    pub(crate) fn hold(&self) -> &Hold {
        match self {
            Self::Mutex(guard) => guard.hold(),
            Self::Lead(lead) => lead.hold(),
        }
    }

    pub(crate) fn token(&self) -> FencingToken {
        self.hold().fencing_token()
    }

    pub(crate) async fn give_back(self) -> Result<()> {
        match self {
            Self::Mutex(guard) => guard.release().await,
            Self::Lead(lead) => lead.resign().await,
        }
    }
}

const VARIABLES: [&str; 2] = ["LOCKKEEPER_TEST_URL", "LOCKKEEPER_TEST_LOCK"];

/// How often it asks whether it holds the lock.
const LOOK_INTERVAL: Duration = Duration::from_millis(2);

pub(crate) fn tell(command: &mut Command, url: &str, lock: &str) {
    command.envs(VARIABLES.into_iter().zip([url, lock]));
}

/// Plays the other process, if this is one.
fn play(service: &Service) -> Option<ExitCode> {
    let [url, lock] = VARIABLES.map(|name| std::env::var(name).ok());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(hold(service, &url?, &lock?));
    Some(ExitCode::SUCCESS)
}

/// Says `held TOKEN`; and later `released NANOSECONDS`, or `lost NANOSECONDS REASON`: when it last found that it held
/// the lock, and why no longer; or that it could not be given back, and why.
async fn hold(service: &Service, url: &str, lock: &str) {
    let keeper = Keeper::new(service.backend_at(url));
    let prize = Prize::win(keeper, lock.to_owned()).await.expect("the lock is granted");
    let hold = prize.hold().clone();
    say(&format!("held {}", prize.token()));
    let (ask, asked) = oneshot::channel();
    let (end, ended) = oneshot::channel();
    // The test says one line at most, and closes the input when it has seen enough.
    std::thread::spawn(move || {
        let mut lines = std::io::stdin().lock().lines();
        if lines.next().is_some() {
            let _ = ask.send(());
            lines.for_each(drop);
        }
        let _ = end.send(());
    });
    let (last_held, is_asked) = hold_on(&hold, asked).await;
    let given_back = if is_asked { Some(prize.give_back().await) } else { None };
    match given_back {
        Some(Ok(())) => say(&format!("released {}", last_held.as_nanos())),
        Some(Err(error)) if hold.lost().await == LossReason::Released => say(&format!("not given back: {error:#}")),
        _ => say(&format!("lost {} {:?}", last_held.as_nanos(), hold.lost().await)),
    }
    // The test may still have to kill it.
    let _ = ended.await;
}

/// Asks again and again until the lock is not held, or is asked for; returns when it was held last, and whether it was
/// asked for.
async fn hold_on(hold: &Hold, mut asked: oneshot::Receiver<()>) -> (BootInstant, bool) {
    let mut last = SystemClock.now();
    loop {
        // Read before the question: at this moment or later it was held.
        let looked_at = SystemClock.now();
        if !hold.is_held() {
            return (last, false);
        }
        last = looked_at;
        if asked.try_recv() != Err(TryRecvError::Empty) {
            return (last, true);
        }
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).expect("the test reads");
}
