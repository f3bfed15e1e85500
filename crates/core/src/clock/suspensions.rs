//! The end of the machine's suspensions: the runtime's timers stand still meanwhile, and would fire late by as much.
//!
//! One thread of the process naps and reads the clock, while a long sleep is under way. If naps took longer than they
//! should, the machine may have been suspended, and all long sleeps look at the clock again. Thousands of sessions
//! sleep at the same time, so the sleeps do not nap themselves.

use std::pin::Pin;
use std::process;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::clock::boot::since_boot;

/// How late a sleep may end after a suspension: so long is a nap of the thread, and of a sleep that has no thread.
pub(super) const NAP_MAX: Duration = Duration::from_millis(250);

/// How much longer than they should all naps may take before the sleeps look at the clock: by as much a sleep is late
/// after suspensions that were shorter. A busy machine reaches it in a minute or so.
const OVERSLEPT_MAX: Duration = Duration::from_millis(100);

/// No process has this number.
const NO_PROCESS: u32 = 0;

/// The suspensions of this process.
static SUSPENSIONS: Suspensions = Suspensions::new();

/// Tells sleeps of suspensions.
struct Suspensions {
    /// How many sleeps want to be told.
    sleepers: AtomicUsize,
    /// The process whose thread tells them: a fork has none of it.
    teller: AtomicU32,
    ended: Notify,
}

/// A sleep that is told of suspensions.
pub(super) struct Sleeper(&'static Suspensions);

impl Sleeper {
    /// Begins to be told; `None` if the system gives no thread for it.
    pub(super) fn begin() -> Option<Self> {
        SUSPENSIONS.tell_one_more()
    }

    /// Waits until the machine may have been suspended since this call.
    pub(super) fn suspended(&self) -> Pin<Box<Notified<'static>>> {
        let mut ended = Box::pin(self.0.ended.notified());
        ended.as_mut().enable();
        ended
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        self.0.sleepers.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Suspensions {
    const fn new() -> Self {
        Self { sleepers: AtomicUsize::new(0), teller: AtomicU32::new(NO_PROCESS), ended: Notify::const_new() }
    }

    fn tell_one_more(&'static self) -> Option<Sleeper> {
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        let (sleeper, process) = (Sleeper(self), process::id());
        let present = self.teller.load(Ordering::SeqCst);
        if present == process || !self.becomes_teller(present, process) {
            return Some(sleeper);
        }
        let telling = thread::Builder::new().name("lockkeeper-clock".to_owned()).spawn(move || self.tell(process));
        if telling.is_err() {
            self.teller.store(NO_PROCESS, Ordering::SeqCst);
        }
        telling.is_ok().then_some(sleeper)
    }

    /// Has a thread of this process tell from now on, unless another one has begun to.
    fn becomes_teller(&self, present: u32, process: u32) -> bool {
        self.teller.compare_exchange(present, process, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Tells until there is no sleep to be told. One that begins at that moment sees that this thread ends, or this
    /// thread sees the sleep.
    #[expect(clippy::disallowed_methods, reason = "no event tells of a suspension")]
    fn tell(&self, process: u32) {
        let mut naps = Naps::begin(since_boot());
        loop {
            thread::sleep(NAP_MAX);
            if naps.have_overslept(since_boot()) {
                self.ended.notify_waiters();
            }
            if self.sleepers.load(Ordering::SeqCst) > 0 {
                continue;
            }
            self.teller.store(NO_PROCESS, Ordering::SeqCst);
            if self.sleepers.load(Ordering::SeqCst) == 0 || !self.becomes_teller(NO_PROCESS, process) {
                return;
            }
        }
    }
}

/// The naps since the sleeps were told.
struct Naps {
    /// When the present one began.
    since: Duration,
    overslept: Duration,
}

impl Naps {
    const fn begin(now: Duration) -> Self {
        Self { since: now, overslept: Duration::ZERO }
    }

    /// Ends a nap, and begins the next one. Returns whether the sleeps are to be told.
    fn have_overslept(&mut self, now: Duration) -> bool {
        self.overslept += now.saturating_sub(self.since + NAP_MAX);
        self.since = now;
        let have_overslept = self.overslept > OVERSLEPT_MAX;
        if have_overslept {
            self.overslept = Duration::ZERO;
        }
        have_overslept
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::task::Poll;

    use super::*;

    #[test]
    fn naps_that_took_longer_than_they_should_show_suspensions_also_short_ones() {
        let mut naps = Naps::begin(Duration::ZERO);
        let mut ended_at = Duration::ZERO;
        let told = [0, 60_000, 0, 60, 30, 60, 60, 0].map(|suspended_ms| {
            ended_at += NAP_MAX + Duration::from_millis(suspended_ms);
            naps.have_overslept(ended_at)
        });
        assert_eq!(told, [false, true, false, false, false, true, false, false]);
    }

    /// One that other tests do not use.
    fn separate() -> &'static Suspensions {
        Box::leak(Box::new(Suspensions::new()))
    }

    async fn until(condition: impl Fn() -> bool) {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    #[tokio::test]
    async fn all_sleeps_are_told_by_one_thread_which_ends_with_the_last_of_them() {
        let suspensions = separate();
        let sleepers = [(); 3].map(|()| suspensions.tell_one_more().expect("a thread"));
        let mut told = sleepers.each_ref().map(Sleeper::suspended);
        for told in &mut told {
            let is_told = poll_fn(|context| Poll::Ready(told.as_mut().poll(context).is_ready())).await;
            assert!(!is_told);
        }
        assert_eq!(suspensions.teller.load(Ordering::SeqCst), process::id());
        suspensions.ended.notify_waiters();
        for told in told {
            told.await;
        }
        drop(sleepers);
        until(|| suspensions.teller.load(Ordering::SeqCst) == NO_PROCESS).await;
        let _next = suspensions.tell_one_more().expect("a thread");
        assert_eq!(suspensions.teller.load(Ordering::SeqCst), process::id());
    }

    #[tokio::test]
    async fn in_a_fork_another_thread_tells() {
        let suspensions = separate();
        suspensions.teller.store(process::id() + 1, Ordering::SeqCst);
        let _sleeper = suspensions.tell_one_more().expect("a thread");
        assert_eq!(suspensions.teller.load(Ordering::SeqCst), process::id());
    }
}
