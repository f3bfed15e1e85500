//! One of the processes of a fleet: it takes each of a few locks again and again until it is told to stop, and records
//! what it was granted and until when it believed in it.

use std::fs::File;
use std::io::BufRead as _;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use lockkeeper::clock::BootInstant;
use lockkeeper::retry::RetryPolicy;
use lockkeeper::{Event, Handoff, Hold, Keeper, Mutex, MutexGuard, Observer};
use lockkeeper_conformance::Random;
use lockkeeper_history::{Asks, What};
use lockkeeper_trials::members::AskedWords;
use lockkeeper_trials::now;
use lockkeeper_trials::records::Scribe;
use tokio::task::JoinSet;

use crate::stays::Stays;

/// The environment variable that tells a binary that it is one of the processes: its [`Manner`], the URL, its number,
/// and the files of its records and of the number of its grants.
pub(crate) const ASKED: &str = "LOCKKEEPER_TEST_FLEET_PROGRAM";

/// How many locks there are.
pub(crate) const LOCKS: u32 = 8;

/// Of how many of them holders give none back between `keep` and `go`; the others go on beside a fault.
const KEPT_LOCKS: u32 = 2;

/// How many tasks of a process take turns at a lock.
const TASKS: u32 = 4;

/// How many attempts a process may make: more than it can within a trial.
const ATTEMPTS_MAX: u32 = 1 << 22;

/// A hold lasts up to so long, if it is not lost.
const HOLD_MAX_MS: u64 = 20;

/// How often a holder asks whether it still holds the lock.
pub(crate) const LOOK_INTERVAL: Duration = Duration::from_millis(2);

/// How a process takes its locks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Manner {
    /// One task a lock, which asks the service each time.
    Alone,
    /// Several tasks a lock, which pass it on.
    Turns,
}

/// The name of a lock.
pub(crate) fn name(lock: u32) -> String {
    format!("fleet-{lock}")
}

/// Plays one of the processes, if this is one. It says `begun` once its tasks run. Between `keep` and `go` holders of
/// some locks give none back. It is told `stop`, and says `done` once all have given their locks back.
pub(crate) fn play() -> bool {
    let Some(mut asked) = AskedWords::of(ASKED) else {
        return false;
    };
    let (manner, url, number): (String, String, u32) = (asked.take(), asked.take(), asked.take());
    let (records, count): (PathBuf, PathBuf) = (asked.take(), asked.take());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let program = Arc::new(Program {
            scribe: Scribe::to(&records),
            grants: AtomicU64::new(0),
            count: File::create(count).expect("the folder is there"),
            number,
            attempts: AtomicU32::new(number * ATTEMPTS_MAX),
            waiting: [const { AtomicU32::new(0) }; LOCKS as usize],
            is_keeping: AtomicBool::new(false),
            is_stopping: AtomicBool::new(false),
        });
        let builder = lockkeeper::builder(url.as_str()).expect("a URL").observer(program.clone());
        let retry = RetryPolicy::forever(Duration::from_millis(50), Duration::from_millis(500));
        match manner.as_str() {
            "Alone" => program.clone().alone(&builder.retry(retry).handoff(Handoff::Strict).build()).await,
            _ => program.clone().turns(&builder.retry(retry).handoff(Handoff::local()).build()).await,
        }
        println!("done 0");
    });
    true
}

/// What the tasks of the process share.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) scribe: Scribe,
    grants: AtomicU64,
    /// Where their number stands for others.
    count: File,
    number: u32,
    /// The last attempt.
    attempts: AtomicU32,
    /// The attempt at each lock that waits; 0 for none.
    waiting: [AtomicU32; LOCKS as usize],
    /// Whether holders of some locks give none back, so that a fault meets them.
    is_keeping: AtomicBool,
    is_stopping: AtomicBool,
}

impl Program {
    /// Begins an attempt.
    pub(crate) fn call(&self, lock: u32, at: BootInstant) -> u32 {
        let attempt = self.attempts.fetch_add(1, Ordering::Relaxed) + 1;
        self.scribe.record(lock, at, &What::Calling { attempt, keeper: self.number, asks: Asks::Alone });
        attempt
    }

    /// Counts a grant.
    pub(crate) fn count(&self) {
        self.grants.fetch_add(1, Ordering::Relaxed);
    }

    /// Says how many grants there were so far, for the case that this process is killed.
    pub(crate) fn tell_count(&self) {
        let bytes = self.grants.load(Ordering::Relaxed).to_le_bytes();
        self.count.write_all_at(&bytes, 0).expect("there is room for a number");
    }

    /// Whether the holder of this lock is to keep it.
    pub(crate) fn keeps(&self, lock: u32) -> bool {
        lock < KEPT_LOCKS && self.is_keeping.load(Ordering::Relaxed)
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Relaxed)
    }

    /// Takes each lock by one task.
    async fn alone(self: Arc<Self>, keeper: &Keeper) {
        let mut tasks = JoinSet::new();
        for lock in 0..LOCKS {
            let random = Random::new(u64::from(self.number * LOCKS + lock));
            tasks.spawn(self.clone().contend(lock, keeper.mutex(&name(lock)).expect("a name"), random));
        }
        self.until_stopped(keeper, tasks).await;
    }

    /// Takes each lock by several tasks, which take turns.
    async fn turns(self: Arc<Self>, keeper: &Keeper) {
        let mut tasks = JoinSet::new();
        for lock in 0..LOCKS {
            let stays = Arc::new(Stays::new(self.clone(), lock));
            for _ in 0..TASKS {
                tasks.spawn(stays.clone().contend(keeper.mutex(&name(lock)).expect("a name")));
            }
        }
        self.until_stopped(keeper, tasks).await;
    }

    /// Lets the tasks run until this is told to stop.
    async fn until_stopped(self: Arc<Self>, keeper: &Keeper, tasks: JoinSet<()>) {
        println!("begun 0");
        let told = self.clone();
        tokio::task::spawn_blocking(move || told.hear()).await.expect("the test speaks");
        tasks.join_all().await;
        self.tell_count();
        keeper.close().await.expect("it is closed");
    }

    /// Hears what this is told, until it is to stop.
    fn hear(&self) {
        for line in std::io::stdin().lock().lines() {
            match line.expect("a line").as_str() {
                "keep" => self.is_keeping.store(true, Ordering::Relaxed),
                "go" => self.is_keeping.store(false, Ordering::Relaxed),
                _ => break,
            }
        }
        self.is_stopping.store(true, Ordering::Relaxed);
    }

    async fn contend(self: Arc<Self>, lock: u32, mutex: Mutex, mut random: Random) {
        while !self.is_stopping() {
            let attempt = self.call(lock, now());
            self.waiting[lock as usize].store(attempt, Ordering::Relaxed);
            let granted = mutex.lock().await;
            self.waiting[lock as usize].store(0, Ordering::Relaxed);
            match granted {
                Ok(guard) => {
                    let lasts = Duration::from_millis(random.below(HOLD_MAX_MS));
                    self.hold(lock, attempt, guard, lasts).await;
                }
                Err(error) => {
                    assert!(error.is_transient(), "{error:#}");
                    self.scribe.record(lock, now(), &What::GaveUp { attempt });
                }
            }
        }
    }

    /// Holds the lock for so long, or until it is lost.
    async fn hold(&self, lock: u32, attempt: u32, guard: MutexGuard, lasts: Duration) {
        let hold = guard.hold().clone();
        let (granted_at, is_held) = look(&hold);
        if is_held {
            self.count();
            self.tell_count();
        }
        let token = hold.fencing_token();
        self.scribe.record(lock, granted_at, &What::Granted { attempt, token, held: is_held });
        loop {
            let (at, is_held) = look(&hold);
            if !is_held {
                return self.scribe.record(lock, now(), &What::Lost { attempt });
            }
            if at >= granted_at.saturating_add(lasts) && !self.keeps(lock) {
                self.scribe.record(lock, at, &What::Releasing { attempt });
                // It may be lost on the way.
                let _ = guard.release().await;
                return;
            }
            self.scribe.record(lock, at, &What::Held { attempt });
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    }
}

/// Whether a hold stands, and a moment before that was asked: the process may stand still between the two.
pub(crate) fn look(hold: &Hold) -> (BootInstant, bool) {
    let at = now();
    (at, hold.is_held())
}

impl Observer for Program {
    fn on_event(&self, event: &Event) {
        let Event::Joined { lock, .. } = event else {
            return;
        };
        let number = lock.as_str().rsplit_once('-').and_then(|(_, number)| number.parse().ok());
        let lock: u32 = number.expect("it is one of the locks");
        // Tasks that take turns join for one another: their order is not judged.
        match self.waiting[lock as usize].load(Ordering::Relaxed) {
            0 => {}
            attempt => self.scribe.record(lock, now(), &What::Joined { attempt }),
        }
    }
}
