//! The other process: a program that takes its lock, forks again and again, and gives the lock back.

use std::fmt;
use std::io::Write as _;
use std::process::ExitCode;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use fork::Fork;
use lockkeeper::clock::{Clock, SystemClock};
use lockkeeper::{Advice, Error, ErrorKind, Hold, Keeper, Mutex, MutexGuard, Wait, blocking};
use tokio::runtime::Builder;
use tokio::time::sleep;

use crate::threads::Threads;

/// What tells this binary to be the other process: its runtime, how often it forks, and the URL.
pub(crate) const PROGRAM: &str = "LOCKKEEPER_TEST_FORKS";

/// How long a call of a fork may wait that must not.
const LONG: Wait = Wait::AtMost(Duration::from_secs(60));

/// How long the parent sleeps between two looks at its fork.
const LOOK_INTERVAL: Duration = Duration::from_millis(2);

/// What a fork does with what it has of its parent's.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Deed {
    /// It calls all that can be called.
    Calls,
    /// It drops the guard, the lock and the keeper, and ends.
    Drops,
    /// It returns from `main`, and so drops the runtime too.
    Returns,
    /// It waits for the end of the session, in its parent's runtime.
    Closes,
    /// It connects anew.
    Connects,
}

/// A program.
pub(crate) struct Program {
    threads: Threads,
    forks: u32,
    url: String,
}

/// A fork returns from `main`.
struct Returned;

impl Program {
    /// All programs on one service.
    pub(crate) fn all(url: &str, forks: u32) -> impl Iterator<Item = Self> {
        Threads::ALL.into_iter().map(move |threads| Self { threads, forks, url: url.to_owned() })
    }

    /// What it is told.
    pub(crate) fn told(&self) -> String {
        format!("{:?} {} {}", self.threads, self.forks, self.url)
    }

    /// Reads what it is told.
    pub(crate) fn read(told: &str) -> Self {
        let [threads, forks, url] = told.split(' ').collect::<Vec<_>>()[..] else { panic!("{told}") };
        let forks = forks.parse().expect("a number");
        Self::all(url, forks).find(|program| format!("{:?}", program.threads) == threads).expect("one of all")
    }

    /// Its lock.
    pub(crate) fn lock(&self) -> String {
        format!("forks-{:?}", self.threads)
    }

    /// Plays it; a fork that returns from `main` returns from here.
    pub(crate) fn play(&self, held_after: Duration) -> ExitCode {
        let mut builder = match self.threads {
            Threads::One => Builder::new_current_thread(),
            Threads::Several => Builder::new_multi_thread(),
            Threads::Blocking => return self.play_blocking(held_after),
        };
        let runtime = builder.worker_threads(2).enable_all().build().unwrap();
        let _ = runtime.block_on(self.play_async(held_after));
        ExitCode::SUCCESS
    }

    async fn play_async(&self, held_after: Duration) -> Result<(), Returned> {
        let keeper = lockkeeper::connect(self.url.as_str()).unwrap();
        let mutex = keeper.mutex(&self.lock()).unwrap();
        let guard = mutex.lock().await.unwrap();
        say("held");
        for deed in self.deeds() {
            match fork::fork().unwrap() {
                Fork::Parent(child) => while_running(child, deed, async || sleep(LOOK_INTERVAL).await).await,
                Fork::Child => return self.act(deed, keeper, mutex, guard).await,
            }
            assert!(guard.hold().is_held(), "{self:?}: after a fork that {deed:?}");
        }
        sleep(held_after).await;
        let last_held = last_look(guard.hold());
        guard.release().await.unwrap();
        say(&last_held);
        Ok(())
    }

    fn play_blocking(&self, held_after: Duration) -> ExitCode {
        let keeper = blocking::connect(self.url.as_str()).unwrap();
        let mutex = keeper.mutex(&self.lock()).unwrap();
        let guard = mutex.lock().unwrap();
        say("held");
        for deed in self.deeds() {
            match fork::fork().unwrap() {
                Fork::Parent(child) => {
                    let status = fork::waitpid(child).unwrap();
                    assert_eq!(status, 0, "a fork that {deed:?}");
                }
                Fork::Child => {
                    self.act_blocking(deed, &keeper, &mutex, &guard);
                    return ExitCode::SUCCESS;
                }
            }
            assert!(guard.hold().is_held(), "{self:?}: after a fork that {deed:?}");
        }
        #[expect(clippy::disallowed_methods, reason = "it has no runtime")]
        std::thread::sleep(held_after);
        let last_held = last_look(guard.hold());
        guard.release().unwrap();
        say(&last_held);
        ExitCode::SUCCESS
    }

    /// What its forks do, one after the other.
    fn deeds(&self) -> impl Iterator<Item = Deed> {
        let deeds: &[Deed] = match self.threads {
            Threads::One => &[Deed::Calls, Deed::Drops, Deed::Returns, Deed::Closes, Deed::Connects],
            // The end of a runtime waits for its threads, which no fork has.
            Threads::Several => &[Deed::Calls, Deed::Drops, Deed::Connects],
            Threads::Blocking => &[Deed::Calls, Deed::Drops, Deed::Returns, Deed::Connects],
        };
        deeds.iter().copied().cycle().take(self.forks as usize)
    }

    async fn act(&self, deed: Deed, keeper: Keeper, mutex: Mutex, guard: MutexGuard) -> Result<(), Returned> {
        assert!(!guard.hold().is_held());
        match deed {
            Deed::Calls => {
                refused(at_once(mutex.lock()));
                refused(at_once(mutex.lock_within(LONG)));
                refused(at_once(mutex.try_lock()));
                refused(at_once(keeper.contenders(&self.lock())));
                refused(at_once(keeper.shared_counter("counter").unwrap().get()));
                refused(at_once(keeper.close()));
                at_once(guard.hold().lost());
                refused(at_once(guard.release()));
            }
            Deed::Drops => drop((guard, mutex, keeper)),
            Deed::Returns => return Err(Returned),
            Deed::Closes => refused(keeper.close().await),
            Deed::Connects => {
                let (url, lock) = (self.url.clone(), self.lock());
                let connecting = std::thread::spawn(move || {
                    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
                    runtime.block_on(async {
                        let keeper = lockkeeper::connect(url.as_str()).unwrap();
                        assert!(keeper.mutex(&lock).unwrap().try_lock().await.unwrap().is_none());
                        keeper.close().await.unwrap();
                    });
                });
                connecting.join().unwrap();
            }
        }
        std::process::exit(0);
    }

    fn act_blocking(
        &self,
        deed: Deed,
        keeper: &blocking::Keeper,
        mutex: &blocking::Mutex,
        guard: &blocking::MutexGuard,
    ) {
        assert!(!guard.hold().is_held());
        match deed {
            Deed::Calls => {
                refused(mutex.lock());
                refused(mutex.lock_within(LONG));
                refused(mutex.try_lock());
                refused(keeper.contenders(&self.lock()));
                refused(keeper.close());
                std::process::exit(0);
            }
            // All of it is dropped by the caller.
            Deed::Drops | Deed::Returns | Deed::Closes => {}
            Deed::Connects => {
                let keeper = blocking::connect(self.url.as_str()).unwrap();
                assert!(keeper.mutex(&self.lock()).unwrap().try_lock().unwrap().is_none());
                keeper.close().unwrap();
            }
        }
    }
}

/// Looks whether the lock is held, and says when.
fn last_look(hold: &Hold) -> String {
    let looked_at = SystemClock.now();
    assert!(hold.is_held());
    looked_at.as_nanos().to_string()
}

/// What a call answers that waits for nothing.
fn at_once<T>(call: impl Future<Output = T>) -> T {
    match std::pin::pin!(call).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => panic!("a call of a fork waits"),
    }
}

/// Checks that a call was refused, and that the refusal says why.
fn refused<T>(answer: Result<T, Error>) {
    let Err(error) = answer else { panic!("a call of a fork was not refused") };
    assert_eq!((error.kind(), error.advice()), (ErrorKind::Closed, Advice::Permanent), "{error}");
    assert!(error.to_string().contains("fork"), "{error}");
}

/// Waits for the end of a fork, which must have done what it should.
async fn while_running(child: i32, deed: Deed, pause: impl AsyncFn()) {
    let status = loop {
        match fork::waitpid_nohang(child).unwrap() {
            Some(status) => break status,
            None => pause().await,
        }
    };
    assert_eq!(status, 0, "a fork that {deed:?}");
}

fn say(word: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{word}").and_then(|()| out.flush()).unwrap();
}

impl fmt::Debug for Program {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?}, {} forks", self.threads, self.forks)
    }
}
