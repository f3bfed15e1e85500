//! A job that is done once for each slot, by one process of all that come to do it.
//!
//! The claim of a slot is written into the value of the job's name, under the mutex of that name, in the state in which
//! it was read. So a claimant that was paused for longer than its hold claims nothing. What is stored, and what follows
//! from it, is `record`'s.

mod record;

use std::fmt;
use std::sync::Arc;

use lockkeeper_core::{Advice, Error, ErrorKind, LossReason, Operation, QueueName, Result, Value, Wait};

pub use crate::once::record::{NAMED_SLOTS_MAX, SLOT_BYTES_MAX, Slot};

use crate::contend::{ValueSays, grant, lost_error};
use crate::hold::Hold;
use crate::keeper::Keeper;
use crate::lock::guard::{MutexGuard, run_under};
use crate::mutex::Mutex;
use crate::once::record::{SlotRecord, SlotState, SlotVerdict};
use crate::shared::call;
use crate::shared_value::SharedValue;

/// A job that is done once per slot: an hour, a day, a version.
///
/// All that come to do it claim its slot; one of them gets it, under the [`Mutex`] of the job's name, so that two slots
/// of a job are never worked on at the same time. It calls nothing by itself: a timer of the program, or cron, does.
/// Made by [`Keeper::once`]; cheap to clone. [Guide](https://docs.rs/lockkeeper/latest/lockkeeper/guide/recipes).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lockkeeper::Error> {
/// use lockkeeper::once::Slot;
///
/// # let keeper = lockkeeper::Keeper::memory();
/// let report = keeper.once("report")?;
/// let today = Slot::named("2026-11-28")?;
/// let pages = report.run(&today, |_hold| async { 12 }).await?;
/// assert_eq!(pages, Some(12));
/// assert_eq!(report.run(&today, |_hold| async { 12 }).await?, None, "it was done");
/// # Ok(())
/// # }
/// ```
///
/// # How often
///
/// At most once: the claim is written before the work begins, and a claimant that dies has used its slot up. With
/// [`Once::retry_failed`] at least once while one comes to do it: a slot whose work was not done is claimed again, with
/// a greater fencing token. A claim is as durable as a [`SharedValue`] of the service: on Redis a failover can lose it.
///
/// # Which slots
///
/// Of slots of time ([`Slot::of_time`]) the newest is remembered, and one that begins earlier is refused: a clock that
/// is late does nothing a second time. Of named ones ([`Slot::named`]) the newest [`NAMED_SLOTS_MAX`] are.
///
/// # All methods
///
/// Errors, cancellation and connection loss are those of [`Mutex`]; permanent also if the value of the name is in use
/// for something else.
#[derive(Clone)]
pub struct Once {
    job: Arc<SlottedJob>,
    repeats: bool,
}

struct SlottedJob {
    mutex: Mutex,
    /// Which slots are taken.
    value: SharedValue,
}

/// The end of that value's name: on ZooKeeper a value in the node of a lock goes with the lock's last contender.
const SLOTS: &str = ".slots";

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

/// A slot of a job, and the lock under which its work is done.
///
/// If it is dropped the lock is given back, and the slot stays as it is: used up, or free for
/// [`Once::retry_failed`].
#[derive(Debug)]
#[must_use = "the lock is given back as soon as it is dropped"]
pub struct SlotGuard {
    guard: MutexGuard,
    once: Once,
    slot: Slot,
}

impl Keeper {
    /// Returns the job of this name. Its slots are kept in the shared value `NAME.slots`.
    pub fn once(&self, name: &str) -> Result<Once> {
        let job = SlottedJob { mutex: self.mutex(name)?, value: self.shared_value(&format!("{name}{SLOTS}"))? };
        Ok(Once { job: Arc::new(job), repeats: false })
    }
}

impl Once {
    /// Returns the job's name, which is that of its mutex.
    pub fn name(&self) -> &QueueName {
        self.job.mutex.name()
    }

    /// Has a slot claimed again whose work was not [done](SlotGuard::done): its process died, or it failed.
    ///
    /// It applies to this handle and to its clones. A slot that was claimed without it stays used up.
    #[must_use]
    pub fn retry_failed(self) -> Self {
        Self { repeats: true, ..self }
    }

    /// Waits for the slot, however long it takes until it is known whose it is.
    pub async fn claim(&self, slot: &Slot) -> Result<SlotClaim> {
        self.claim_within(slot, Wait::Forever).await
    }

    /// Waits for the slot, for as long as `wait` says.
    ///
    /// A caller that comes too late joins no queue, and one that waits leaves it as soon as the slot is another's.
    pub async fn claim_within(&self, slot: &Slot, wait: Wait) -> Result<SlotClaim> {
        let shared = &self.job.value.lock().shared;
        let wait = wait.starting(shared.clock.now());
        let known = |value: Option<Value>| Some(self.judge(value.as_ref(), slot));
        let mut look = ValueSays { queue: self.job.value.name(), read: known };
        match grant(shared, self.name(), &mut look, wait, None).await?.transpose()? {
            None => return Ok(SlotClaim::TimeIsUp),
            Some(SlotVerdict::Taken) => return Ok(SlotClaim::Taken),
            Some(SlotVerdict::Passed(newest)) => return Ok(SlotClaim::Passed(newest)),
            Some(SlotVerdict::Free | SlotVerdict::Ours) => {}
        }
        let in_vain = |value: Option<Value>| match self.judge(value.as_ref(), slot) {
            Ok(SlotVerdict::Free | SlotVerdict::Ours) => None,
            late => Some(late),
        };
        let mut another = ValueSays { queue: self.job.value.name(), read: in_vain };
        let locked = tokio::select! {
            biased;
            locked = self.job.mutex.lock_within(wait) => locked?,
            late = grant(shared, self.name(), &mut another, Wait::Forever, None), if !wait.is_none() => {
                return match late?.transpose()? {
                    Some(SlotVerdict::Passed(newest)) => Ok(SlotClaim::Passed(newest)),
                    _ => Ok(SlotClaim::Taken),
                };
            }
        };
        match locked {
            Some(guard) => self.enter(slot, guard).await,
            None => Ok(SlotClaim::TimeIsUp),
        }
    }

    /// Runs `work` for the slot, and drops it at its next await if the lock is lost; `None` if the slot is another's.
    ///
    /// The slot is done when `work` has returned. Work that can fail says so by [`Once::claim`]: it keeps the guard,
    /// and drops it in place of [`SlotGuard::done`].
    ///
    /// # Errors
    ///
    /// [`Lost`](lockkeeper_core::ErrorKind::Lost) if the lock was lost before the work was done.
    pub async fn run<Work, Running, Output>(&self, slot: &Slot, work: Work) -> Result<Option<Output>>
    where
        Work: FnOnce(Hold) -> Running,
        Running: Future<Output = Output>,
    {
        let SlotClaim::Granted(guard) = self.claim(slot).await? else { return Ok(None) };
        let hold = guard.hold().clone();
        call::nested(hold.ticket(), run_under(hold, work, || guard.done())).await.map(Some)
    }

    /// Claims the slot under the lock.
    async fn enter(&self, slot: &Slot, guard: MutexGuard) -> Result<SlotClaim> {
        let state = if self.repeats { SlotState::Open } else { SlotState::Closed };
        let claim = SlotWrite { slot, state, repeats: self.repeats, from: &[SlotVerdict::Free] };
        match self.write(&claim, guard.hold()).await? {
            SlotVerdict::Free | SlotVerdict::Ours => {
                Ok(SlotClaim::Granted(SlotGuard { guard, once: self.clone(), slot: slot.clone() }))
            }
            SlotVerdict::Taken => guard.release().await.map(|()| SlotClaim::Taken),
            SlotVerdict::Passed(newest) => guard.release().await.map(|()| SlotClaim::Passed(newest)),
        }
    }

    /// Writes the state of a slot if the verdict on it allows that; returns the verdict. It tries again while that may
    /// help and the lock is held. What may have been written is found by its token.
    async fn write(&self, write: &SlotWrite<'_>, hold: &Hold) -> Result<SlotVerdict> {
        let can_help = |error: &Error| error.advice() != Advice::Permanent;
        let attempts = self.job.value.lock().shared.retry.clone().attempts(can_help);
        tokio::select! {
            biased;
            reason = hold.lost() => Err(lost_error(self.name(), reason)),
            written = attempts.run(|| self.write_once(write, hold)) => written,
        }
    }

    async fn write_once(&self, write: &SlotWrite<'_>, hold: &Hold) -> Result<SlotVerdict> {
        let (token, value) = (hold.fencing_token(), self.job.value.get().await?);
        let record = SlotRecord::read(self.name(), value.as_ref())?;
        let verdict = record.judge(write.slot, write.repeats, Some(token));
        if !write.from.contains(&verdict) {
            return Ok(verdict);
        }
        let bytes = record.with(write.slot, write.state, token).to_bytes();
        match self.job.value.compare_and_set(value.map(|value| value.version), &bytes).await? {
            Some(_) => Ok(verdict),
            None => {
                let message = "the server that was asked did not know of the last write of its slots yet";
                Err(Error::transient(ErrorKind::Backend, Operation::Value, message).at(self.name()))
            }
        }
    }

    fn judge(&self, value: Option<&Value>, slot: &Slot) -> Result<SlotVerdict> {
        Ok(SlotRecord::read(self.name(), value)?.judge(slot, self.repeats, None))
    }
}

/// The state of a slot that is to be written, from what verdicts on it.
struct SlotWrite<'a> {
    slot: &'a Slot,
    state: SlotState,
    repeats: bool,
    from: &'a [SlotVerdict],
}

impl SlotGuard {
    /// Returns the proof of holding the lock, whose fencing token is greater than that of each claim before.
    pub fn hold(&self) -> &Hold {
        self.guard.hold()
    }

    /// Returns the slot.
    pub const fn slot(&self) -> &Slot {
        &self.slot
    }

    /// Says that the work is done, so that the slot is not claimed again, and gives the lock back.
    ///
    /// # Errors
    ///
    /// Those of [`SlotGuard::mark_done`] and of [`SlotGuard::release`].
    pub async fn done(self) -> Result<()> {
        self.mark_done().await?;
        self.release().await
    }

    /// Says that the work is done, so that the slot is not claimed again, and keeps the lock.
    ///
    /// # Errors
    ///
    /// [`Lost`](lockkeeper_core::ErrorKind::Lost) if the lock was lost; then another may do the work once more.
    pub fn mark_done(&self) -> impl Future<Output = Result<()>> + Send + 'static {
        let (once, hold, slot) = (self.once.clone(), self.hold().clone(), self.slot.clone());
        async move {
            // An operator may have removed the claim.
            let from = &[SlotVerdict::Ours, SlotVerdict::Free];
            let done = SlotWrite { slot: &slot, state: SlotState::Closed, repeats: false, from };
            let is_done = !once.repeats || from.contains(&once.write(&done, &hold).await?);
            if is_done { Ok(()) } else { Err(lost_error(once.name(), LossReason::Displaced)) }
        }
    }

    /// Gives the lock back, and leaves the slot as it is. It is begun by the call.
    ///
    /// # Errors
    ///
    /// Those of [`Guard::release`](crate::Guard::release).
    pub fn release(self) -> impl Future<Output = Result<()>> + Send + 'static {
        self.guard.release()
    }
}

impl fmt::Debug for Once {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Once").field("name", self.name()).field("retry_failed", &self.repeats).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::memory::MemoryService;
    use crate::tests::{after_pauses, at_once, keepers, service, settle};

    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    fn today() -> Slot {
        Slot::named("2026-11-28").unwrap()
    }

    fn once(service: &MemoryService) -> Once {
        service.keeper().once("report").unwrap()
    }

    async fn granted(once: &Once, slot: &Slot) -> SlotGuard {
        match at_once("the slot", once.claim(slot)).await.unwrap() {
            SlotClaim::Granted(guard) => guard,
            other => panic!("it is not granted: {other:?}"),
        }
    }

    async fn is_taken(once: &Once, slot: &Slot) -> bool {
        matches!(at_once("the answer", once.claim(slot)).await.unwrap(), SlotClaim::Taken)
    }

    #[tokio::test(start_paused = true)]
    async fn of_all_who_come_one_gets_the_slot_and_the_others_wait_for_nothing() {
        let service = service();
        let keepers: [Keeper; 12] = keepers(&service);
        let calls = keepers.iter().map(|keeper| {
            let once = keeper.once("report").unwrap();
            tokio::spawn(async move { once.claim(&today()).await })
        });
        let mut granted = Vec::new();
        for call in calls.collect::<Vec<_>>() {
            match at_once("the answer", call).await.unwrap().unwrap() {
                SlotClaim::Granted(guard) => granted.push(guard),
                SlotClaim::Taken => {}
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(granted.len(), 1);
        assert_eq!(service.keeper().contenders("report").await.unwrap().len(), 1, "none waits");
    }

    /// As one that was stopped between its look and its grant.
    #[tokio::test(start_paused = true)]
    async fn one_that_is_granted_the_lock_after_the_claim_of_another_does_not_do_the_work() {
        let service = service();
        let slot = |hour| Slot::of_time(HOUR, HOUR * hour);
        for claimed in [today(), slot(3)] {
            granted(&once(&service), &claimed).await.release().await.unwrap();
        }
        for (late, is_taken) in [(today(), true), (slot(3), true), (slot(2), false)] {
            let once = once(&service).retry_failed();
            let guard = once.job.mutex.lock().await.unwrap();
            match at_once("the answer", once.enter(&late, guard)).await.unwrap() {
                SlotClaim::Taken => assert!(is_taken, "{late}"),
                SlotClaim::Passed(newest) => assert!(!is_taken && newest == slot(3), "{late}"),
                other => panic!("{late}: {other:?}"),
            }
        }
        assert!(service.keeper().mutex("report").unwrap().try_lock().await.unwrap().is_some(), "it is given back");
    }

    #[tokio::test(start_paused = true)]
    async fn a_slot_whose_claimant_is_gone_is_used_up_unless_both_retry_what_failed() {
        for (first_retries, second_retries) in [(false, false), (false, true), (true, false), (true, true)] {
            let service = service();
            let once = |retries| if retries { once(&service).retry_failed() } else { once(&service) };
            let first = granted(&once(first_retries), &today()).await;
            let token = first.hold().fencing_token();
            drop(first);
            settle().await;
            let second = once(second_retries);
            if first_retries && second_retries {
                let again = granted(&second, &today()).await;
                assert!(again.hold().fencing_token() > token);
                again.done().await.unwrap();
            }
            assert!(is_taken(&second, &today()).await, "{first_retries}, {second_retries}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_retries_waits_for_the_end_of_the_work_and_leaves_when_it_is_done() {
        let service = service();
        for is_done in [true, false] {
            let slot = Slot::named(&is_done.to_string()).unwrap();
            let working = granted(&once(&service).retry_failed(), &slot).await;
            let (second, wanted) = (once(&service).retry_failed(), slot.clone());
            let waiting = tokio::spawn(async move { second.claim(&wanted).await });
            settle().await;
            assert!(!waiting.is_finished());
            match is_done {
                true => working.done().await.unwrap(),
                false => working.release().await.unwrap(),
            }
            let claim = at_once("the answer", waiting).await.unwrap().unwrap();
            assert_eq!(matches!(claim, SlotClaim::Taken), is_done, "{claim:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_slot_waits_for_the_work_of_the_one_before_and_an_older_one_is_refused() {
        let service = service();
        let slot = |hour| Slot::of_time(HOUR, HOUR * hour);
        let first = granted(&once(&service), &slot(1)).await;
        let within = once(&service).claim_within(&slot(2), Wait::AtMost(HOUR)).await.unwrap();
        assert!(matches!(within, SlotClaim::TimeIsUp), "{within:?}");
        assert!(matches!(once(&service).claim_within(&slot(2), Wait::No).await.unwrap(), SlotClaim::TimeIsUp));
        let late = once(&service);
        let waiting = tokio::spawn(async move { late.claim(&slot(2)).await });
        settle().await;
        let third = once(&service);
        let claiming = tokio::spawn(async move { third.claim(&slot(3)).await });
        settle().await;
        first.release().await.unwrap();
        let SlotClaim::Granted(second) = at_once("its turn", waiting).await.unwrap().unwrap() else { panic!("taken") };
        drop(second);
        let SlotClaim::Granted(third) = after_pauses("its turn", claiming).await.unwrap().unwrap() else {
            panic!("taken")
        };
        for hour in [1, 2] {
            let claim = at_once("the answer", once(&service).claim(&slot(hour))).await.unwrap();
            assert!(matches!(&claim, SlotClaim::Passed(newest) if *newest == slot(3)), "{claim:?}");
        }
        drop(third);
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_lost_its_lock_is_dropped_and_its_slot_is_repeated_by_one_that_retries() {
        let service = service();
        let keeper = service.keeper();
        let once = keeper.once("report").unwrap().retry_failed();
        let slot = today();
        let working = once.run(&slot, |_hold| async {
            keeper.testing().unwrap().expire_session();
            std::future::pending::<()>().await;
        });
        let error = at_once("the loss", working).await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Lost(_)), "{error:#}");
        let again = tests::once(&service).retry_failed();
        assert_eq!(after_pauses("the work", again.run(&slot, |_| async { 7 })).await.unwrap(), Some(7));
        assert_eq!(at_once("the answer", once.run(&slot, |_| async { 7 })).await.unwrap(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_name_whose_value_is_none_of_slots_is_refused() {
        let service = service();
        service.keeper().shared_value("report.slots").unwrap().set(b"slow and steady").await.unwrap();
        let error = at_once("the refusal", once(&service).claim(&today())).await.unwrap_err();
        assert_eq!((error.kind(), error.advice()), (ErrorKind::InvalidRequest, Advice::Permanent));
        assert!(error.to_string().contains("report"), "{error}");
    }
}
