//! A job that is done once for each slot, for threads.

use std::fmt;
use std::sync::Arc;

use crate::blocking::engine::User;
use crate::once::Slot;
use crate::{Hold, QueueName, Result, Wait};

/// A job that is done once per slot: an hour, a day, a version. A claimed slot belongs to no thread.
///
/// [`lockkeeper::once::Once`](crate::once::Once) says how often it is done, and which slots there are. Made by
/// [`Keeper::once`](crate::blocking::Keeper::once); cheap to clone.
///
/// ```
/// # fn main() -> Result<(), lockkeeper::Error> {
/// use lockkeeper::once::Slot;
///
/// # let keeper = lockkeeper::blocking::connect("memory:")?;
/// let report = keeper.once("report")?;
/// let today = Slot::named("2026-11-28")?;
/// assert_eq!(report.run(&today, |_hold| 12)?, Some(12));
/// assert_eq!(report.run(&today, |_hold| 12)?, None, "it was done");
/// # Ok(())
/// # }
/// ```
///
/// Errors: see [the module](crate::blocking#errors).
#[derive(Clone)]
pub struct Once {
    once: crate::once::Once,
    user: Arc<User>,
}

/// What came of a call for a slot.
#[derive(Debug)]
#[non_exhaustive]
pub enum SlotClaim {
    /// The slot is the caller's.
    Granted(SlotGuard),
    /// The slot was claimed before; with [`Once::retry_failed`], its work was done.
    Taken,
    /// This slot, which begins later, was claimed before.
    Passed(Slot),
    /// The time was up first.
    TimeIsUp,
}

impl Once {
    pub(super) const fn new(once: crate::once::Once, user: Arc<User>) -> Self {
        Self { once, user }
    }

    /// Returns the job's name, which is that of its mutex.
    pub fn name(&self) -> &QueueName {
        self.once.name()
    }

    /// Has a slot claimed again whose work was not [done](SlotGuard::done): its process died, or it failed.
    ///
    /// It applies to this handle and to its clones. A slot that was claimed without it stays used up.
    #[must_use]
    pub fn retry_failed(self) -> Self {
        Self { once: self.once.retry_failed(), user: self.user }
    }

    /// Waits for the slot, however long it takes until it is known whose it is.
    pub fn claim(&self, slot: &Slot) -> Result<SlotClaim> {
        self.claim_within(slot, Wait::Forever)
    }

    /// Waits for the slot, for as long as `wait` says.
    pub fn claim_within(&self, slot: &Slot, wait: Wait) -> Result<SlotClaim> {
        let (once, slot) = (self.once.clone(), slot.clone());
        Ok(match self.user.call(async move { once.claim_within(&slot, wait).await })? {
            crate::once::SlotClaim::Granted(guard) => SlotClaim::Granted(SlotGuard { guard, user: self.user.clone() }),
            crate::once::SlotClaim::Passed(newest) => SlotClaim::Passed(newest),
            crate::once::SlotClaim::TimeIsUp => SlotClaim::TimeIsUp,
            _ => SlotClaim::Taken,
        })
    }

    /// Runs `work` for the slot; `None` if the slot is another's. The work is not stopped if the lock is lost: where
    /// that matters, it must ask the hold.
    ///
    /// The slot is done when `work` has returned. Work that can fail says so by [`Once::claim`]: it keeps the guard,
    /// and drops it in place of [`SlotGuard::done`].
    ///
    /// # Errors
    ///
    /// Those of [`Once::claim`]; and [`ErrorKind::Lost`](crate::ErrorKind::Lost) if the lock was lost before the work
    /// was done.
    pub fn run<Output>(&self, slot: &Slot, work: impl FnOnce(&Hold) -> Output) -> Result<Option<Output>> {
        let SlotClaim::Granted(guard) = self.claim(slot)? else { return Ok(None) };
        let output = work(guard.hold());
        match guard.done() {
            Err(error) if error.is_lost() => Err(error),
            // The work is done and the release goes on by itself.
            Ok(()) | Err(_) => Ok(Some(output)),
        }
    }
}

/// A slot of a job, and the lock under which its work is done; any thread may say that it is done.
///
/// If it is dropped the lock is given back in the background, and the slot stays as it is: used up, or free for
/// [`Once::retry_failed`].
#[must_use = "the lock is given back as soon as it is dropped"]
pub struct SlotGuard {
    /// Dropped before the user, so that the session does not end before the lock is given back.
    guard: crate::once::SlotGuard,
    user: Arc<User>,
}

impl SlotGuard {
    /// Returns the proof of holding the lock, whose fencing token is greater than that of each claim before.
    pub fn hold(&self) -> &Hold {
        self.guard.hold()
    }

    /// Returns the slot.
    pub const fn slot(&self) -> &Slot {
        self.guard.slot()
    }

    /// Says that the work is done, so that the slot is not claimed again, and gives the lock back.
    pub fn done(self) -> Result<()> {
        let Self { guard, user } = self;
        user.call(guard.done())
    }

    /// Says that the work is done, so that the slot is not claimed again, and keeps the lock.
    pub fn mark_done(&self) -> Result<()> {
        self.user.call(self.guard.mark_done())
    }

    /// Gives the lock back, waits until that is certain, and leaves the slot as it is.
    pub fn release(self) -> Result<()> {
        let Self { guard, user } = self;
        user.call(guard.release())
    }
}

impl fmt::Debug for Once {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.once.fmt(formatter)
    }
}

impl fmt::Debug for SlotGuard {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.guard.fmt(formatter)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use super::*;
    use crate::blocking::Keeper;
    use crate::clock::SystemClock;
    use crate::testing::MemoryService;

    fn today() -> Slot {
        Slot::named("2026-11-28").unwrap()
    }

    fn granted(once: &Once) -> SlotGuard {
        match once.claim(&today()).unwrap() {
            SlotClaim::Granted(guard) => guard,
            other => panic!("it is not granted: {other:?}"),
        }
    }

    #[test]
    fn of_many_threads_one_does_the_work_of_a_slot() {
        let service = MemoryService::new(Arc::new(SystemClock));
        let threads: Vec<_> = (0..8)
            .map(|number| {
                let keeper = Keeper::start(service.keeper_builder()).unwrap();
                thread::spawn(move || keeper.once("report").unwrap().run(&today(), |_hold| number).unwrap())
            })
            .collect();
        let done: Vec<_> = threads.into_iter().filter_map(|thread| thread.join().unwrap()).collect();
        assert_eq!(done.len(), 1, "{done:?}");
    }

    #[test]
    fn a_slot_whose_guard_is_released_is_claimed_again_until_any_thread_says_that_it_is_done() {
        let keeper = Keeper::start(MemoryService::new(Arc::new(SystemClock)).keeper_builder()).unwrap();
        let once = keeper.once("report").unwrap().retry_failed();
        granted(&once).release().unwrap();
        let guard = granted(&once);
        assert_eq!(guard.slot(), &today());
        let busy = once.claim_within(&today(), Wait::No).unwrap();
        assert!(matches!(busy, SlotClaim::TimeIsUp), "{busy:?}");
        thread::spawn(move || {
            guard.mark_done().unwrap();
            assert!(guard.hold().is_held(), "the lock is kept");
            guard.done().unwrap();
        })
        .join()
        .unwrap();
        let late = once.claim(&today()).unwrap();
        assert!(matches!(late, SlotClaim::Taken), "{late:?}");
        let hour = std::time::Duration::from_secs(3_600);
        drop(once.claim(&Slot::of_time(hour, hour * 3)).unwrap());
        let older = once.claim(&Slot::of_time(hour, hour * 2)).unwrap();
        assert!(matches!(&older, SlotClaim::Passed(newest) if *newest == Slot::of_time(hour, hour * 3)), "{older:?}");
    }

    #[test]
    fn work_whose_lock_was_lost_is_reported_as_lost_and_its_slot_is_not_done() {
        let keeper = Keeper::start(MemoryService::new(Arc::new(SystemClock)).keeper_builder()).unwrap();
        let once = keeper.once("report").unwrap().retry_failed();
        let lost = once.run(&today(), |_hold| keeper.as_async().testing().unwrap().expire_session());
        assert!(lost.as_ref().is_err_and(crate::Error::is_lost), "{lost:?}");
        granted(&once).done().unwrap();
    }
}
