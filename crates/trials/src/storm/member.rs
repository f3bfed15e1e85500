//! One of the processes of a storm: many sessions, each of a keeper, as of so many programs. Each wants one lock, holds
//! it until it is lost, and wants it again.

use std::io::BufRead as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use lockkeeper_history::{Asks, What};
use lockkeeper_recipes::{Event, Keeper, Observer};
use tokio::sync::{Notify, watch};

use crate::members::AskedWords;
use crate::records::Scribe;
use crate::service::{Service, now};

/// The environment variable that tells a binary that it is one of the processes: the URL, its number, how many locks
/// there are, and the file of its records.
pub(super) const ASKED: &str = "LOCKKEEPER_TEST_STORM_MEMBER";

/// How many times a session may want its lock: one attempt a loss, and some more.
const ATTEMPTS_MAX: u32 = 1_000;

/// The name of a lock.
pub(super) fn name(lock: u32) -> String {
    format!("storm-{lock}")
}

/// Plays one of the processes, if this is one. It says `joined` once all have joined, and is told `away`; `back` once
/// all have joined again since then, and is told `drain`; `done RETRIES` once each was granted its lock and gave it
/// back.
///
/// # Panics
///
/// A lock is not granted.
pub(crate) fn play(service: &Service) -> Option<ExitCode> {
    let mut asked = AskedWords::of(ASKED)?;
    let (url, process, locks, file): (String, u32, u32, PathBuf) =
        (asked.take(), asked.take(), asked.take(), asked.take());
    let shared = Arc::new(Shared {
        scribe: Scribe::to(&file),
        waiting: AtomicUsize::new(0),
        all: Notify::new(),
        retries: AtomicUsize::new(0),
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let (drain, drains) = watch::channel(false);
        shared.waiting.store(locks as usize, Ordering::SeqCst);
        let sessions: Vec<_> = (0..locks)
            .map(|lock| {
                let session = Arc::new(StormSession {
                    shared: shared.clone(),
                    lock,
                    keeper: process * locks + lock,
                    attempt: AtomicU32::new((process * locks + lock) * ATTEMPTS_MAX),
                    is_waited_for: AtomicBool::new(true),
                });
                let keeper = Keeper::builder(service.backend_at(&url)).observer(session.clone()).build();
                (session, keeper)
            })
            .collect();
        let wanting: Vec<_> = sessions
            .iter()
            .map(|(session, keeper)| tokio::spawn(want(session.clone(), keeper.clone(), drains.clone())))
            .collect();
        shared.all.notified().await;
        println!("joined 0");
        hear("away").await;
        shared.waiting.store(locks as usize, Ordering::SeqCst);
        sessions.iter().for_each(|(session, _)| session.is_waited_for.store(true, Ordering::SeqCst));
        shared.all.notified().await;
        println!("back 0");
        hear("drain").await;
        drain.send_replace(true);
        for wanting in wanting {
            wanting.await.expect("no session panics");
        }
        for (_, keeper) in sessions {
            keeper.close().await.expect("it is closed");
        }
        println!("done {}", shared.retries.load(Ordering::SeqCst));
    });
    Some(ExitCode::SUCCESS)
}

/// Waits until this is told.
async fn hear(word: &'static str) {
    let heard = tokio::task::spawn_blocking(|| std::io::stdin().lock().lines().next());
    assert_eq!(heard.await.expect("no panic").expect("the test speaks").expect("a line"), word);
}

/// Wants a lock again and again, and holds it until it is lost; once all are to give their locks back, it does so with
/// the one that it holds or is granted next.
async fn want(session: Arc<StormSession>, keeper: Keeper, mut drains: watch::Receiver<bool>) {
    let mutex = keeper.mutex(&name(session.lock)).expect("a name");
    loop {
        let attempt = session.attempt.fetch_add(1, Ordering::SeqCst) + 1;
        session.record(What::Calling { attempt, keeper: session.keeper, asks: Asks::Alone });
        let guard = mutex.lock().await.expect("it is granted");
        let hold = guard.hold().clone();
        session.record(What::Granted { attempt, token: hold.fencing_token(), held: hold.is_held() });
        let drains = async { drains.wait_for(|&drains| drains).await.map(drop).expect("the process goes on") };
        let is_lost = tokio::select! {
            biased;
            _ = hold.lost() => true,
            () = drains => false,
        };
        if is_lost {
            session.record(What::Lost { attempt });
            continue;
        }
        session.record(What::Releasing { attempt });
        guard.release().await.expect("it is given back");
        return;
    }
}

/// What the sessions of a process share.
#[derive(Debug)]
struct Shared {
    scribe: Scribe,
    /// How many have yet to join.
    waiting: AtomicUsize,
    /// None has.
    all: Notify,
    retries: AtomicUsize,
}

/// The observer of one session.
#[derive(Debug)]
struct StormSession {
    shared: Arc<Shared>,
    lock: u32,
    keeper: u32,
    /// The attempt that runs.
    attempt: AtomicU32,
    /// Whether it has yet to join.
    is_waited_for: AtomicBool,
}

impl StormSession {
    fn record(&self, what: What) {
        self.shared.scribe.record(self.lock, now(), &what);
    }
}

impl Observer for StormSession {
    fn on_event(&self, event: &Event) {
        match event {
            Event::Joined { .. } => {
                self.record(What::Joined { attempt: self.attempt.load(Ordering::SeqCst) });
                if self.is_waited_for.swap(false, Ordering::SeqCst)
                    && self.shared.waiting.fetch_sub(1, Ordering::SeqCst) == 1
                {
                    self.shared.all.notify_one();
                }
            }
            Event::Retrying { .. } => _ = self.shared.retries.fetch_add(1, Ordering::SeqCst),
            _ => {}
        }
    }
}
