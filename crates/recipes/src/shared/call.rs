//! A call that asks for a lock: on the list of the keeper's contenders, measured and traced, from its beginning until
//! it has a guard or ends without one; and the caller: the flow of control that calls, and the contender that it is
//! nested in.
//!
//! The caller is looked up when a call begins, since a call may go on elsewhere: a waiting thread has its work done by
//! another one. The lock is granted or refused without it.

pub(crate) mod spans;

use std::fmt;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{Caller, Error, Flow, FlowKind, Mode, Operation, QueueName, Result, Ticket, TicketHead, Wait};
use tokio::task;
use tracing::Instrument;

use crate::event::Event;
use crate::event::meter::{Meter, MeteredCall, MeteredHold};
use crate::hold::list::{OnList, Presence};
use crate::shared::Shared;
use crate::shared::call::spans::Collected;

/// A call that asks for a lock; dropping it says that it was cancelled.
pub(crate) struct LockCall {
    pub(crate) begun_at: BootInstant,
    /// What is granted to it.
    pub(crate) mode: Mode,
    listed: OnList,
    asked: MeteredCall,
    span: Collected,
}

/// What is left of a call when it was granted the lock.
pub(crate) struct Answered {
    pub(crate) listed: OnList,
    pub(crate) holding: MeteredHold,
    /// The span of the wait, which the one of the hold follows from.
    pub(crate) span: Collected,
}

impl LockCall {
    /// Begins a call; a caller that has waited before says since when, so that it is measured whole.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Closed`](lockkeeper_core::ErrorKind::Closed), permanent, in a fork of the keeper's process.
    pub(crate) fn begin(
        shared: &Shared,
        queue: &QueueName,
        meter: &Meter,
        mode: Mode,
        since: Option<BootInstant>,
    ) -> Result<Self> {
        let begun_at = shared.clock.now();
        // Before anything is locked, which may be for ever in a fork.
        shared.home.check_at(begun_at, Operation::Join).map_err(|error| error.at(queue))?;
        let listed = shared.holds.list(queue, mode, Presence::Active);
        let (asked, span) = (meter.ask(mode, since.unwrap_or(begun_at)), spans::wait(queue, mode));
        Ok(Self { begun_at, mode, listed, asked, span })
    }

    /// Returns what becomes the hold of one more place that was granted to this call.
    pub(crate) fn another(&self, shared: &Shared, queue: &QueueName, mode: Mode) -> Self {
        let listed = shared.holds.list(queue, mode, Presence::Active);
        Self { begun_at: self.begun_at, mode, listed, asked: self.asked.another(), span: self.span.clone() }
    }

    /// Does its work within its span. The work is made here, so that its future is moved no more.
    pub(crate) async fn traced<Work: Future>(&self, begin: impl FnOnce() -> Work) -> Work::Output {
        match &self.span {
            None => begin().await,
            Some(span) => Box::pin(begin()).instrument((**span).clone()).await,
        }
    }

    /// Notes whether it may still come to hold something without another call.
    pub(crate) fn note(&self, presence: Presence) {
        self.listed.note(presence);
    }

    /// Notes the grant.
    pub(crate) fn granted(self, at: BootInstant) -> Answered {
        let Self { listed, asked, span, .. } = self;
        Answered { listed, holding: asked.granted(at), span }
    }

    /// Notes that it was granted nothing in the time that it had, and tells observers.
    pub(crate) fn none(self, shared: &Shared, queue: &QueueName, wait: Wait) {
        self.asked.none(wait);
        let waited = shared.clock.now().saturating_duration_since(self.begun_at);
        shared.observers.emit(&Event::NotAcquired { lock: queue.clone(), waited });
    }

    /// Notes that it has failed.
    pub(crate) fn failed(self, error: &Error) {
        self.asked.failed(error);
    }
}

tokio::task_local! {
    /// The contender of the innermost enclosing `run` of this task.
    static ENCLOSING: TicketHead;
    /// That what this task takes may not hear of a request to give up.
    static MAY_IGNORE: bool;
}

thread_local! {
    /// The number of this thread among those that have called.
    static THREAD: u64 = next(&THREADS);
}

/// The last number that a thread was given.
static THREADS: AtomicU64 = AtomicU64::new(0);

/// The last number that an owner key was given.
static OWNER_KEYS: AtomicU64 = AtomicU64::new(0);

/// Describes the caller of a call that begins now and waits for this long.
pub(crate) fn caller(shared: &Shared, wait: Wait) -> Caller {
    let mut caller = Caller::default();
    caller.process = shared.process;
    caller.flow = this_flow();
    caller.may_ignore = MAY_IGNORE.try_with(|&may_ignore| may_ignore).unwrap_or_default();
    caller.within = ENCLOSING.try_with(|&enclosing| enclosing).ok().or(shared.within);
    if let Wait::AtMost(_) | Wait::Until(_) = wait {
        let now = shared.clock.now();
        let left = wait.deadline(now).map(|deadline| deadline.saturating_duration_since(now));
        caller.until_unix = left.map(|left| shared.clock.unix_time().saturating_add(left));
    }
    caller
}

/// Does work that is nested in the contender of this ticket.
pub(crate) async fn nested<Work: Future>(within: Ticket, work: Work) -> Work::Output {
    ENCLOSING.scope(within.head(), work).await
}

/// Does work whose contenders may not hear of a request to give up, if it is so.
pub(crate) async fn heedless<Work: Future>(may_ignore: bool, work: Work) -> Work::Output {
    MAY_IGNORE.scope(may_ignore, work).await
}

/// Tells whether the caller is within a `run`.
pub(crate) fn is_nested() -> bool {
    ENCLOSING.try_with(|_| ()).is_ok()
}

/// Returns the flow of control that calls this: a task, or else the thread.
pub(crate) fn this_flow() -> Option<Flow> {
    match task::try_id() {
        Some(id) => Flow::new(FlowKind::Task, number(id)?),
        None => this_thread(),
    }
}

/// Returns this thread as a flow of control; `None` while it ends.
pub(crate) fn this_thread() -> Option<Flow> {
    Flow::new(FlowKind::Thread, THREAD.try_with(|&number| number).ok()?)
}

/// Returns a new owner key's flow of control.
pub(crate) fn new_owner_key() -> Option<Flow> {
    Flow::new(FlowKind::OwnerKey, next(&OWNER_KEYS))
}

fn next(last: &AtomicU64) -> u64 {
    last.fetch_add(1, Ordering::Relaxed).wrapping_add(1)
}

/// Reads the number of a task, which tokio tells as text alone.
fn number(id: task::Id) -> Option<u64> {
    let mut digits = Digits(Some(0));
    write!(digits, "{id}").ok()?;
    digits.0
}

/// A number that is read from its digits as they are written, without a string.
struct Digits(Option<u64>);

impl fmt::Write for Digits {
    fn write_str(&mut self, digits: &str) -> fmt::Result {
        for digit in digits.chars() {
            let digit = digit.to_digit(10).map(u64::from);
            self.0 = self.0.zip(digit).and_then(|(number, digit)| number.checked_mul(10)?.checked_add(digit));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_task_is_known_by_tokios_number_and_the_root_future_by_its_thread() {
        let root = this_flow().unwrap();
        assert_eq!((root.kind(), this_thread()), (FlowKind::Thread, Some(root)));
        let task = tokio::spawn(async { (this_flow().unwrap(), task::id().to_string()) });
        let (flow, id) = task.await.unwrap();
        assert_eq!(flow.to_string(), format!("t{id}"));
        let other = tokio::spawn(async { this_flow().unwrap() });
        assert_ne!(other.await.unwrap(), flow);
    }

    #[test]
    fn threads_and_owner_keys_are_numbered() {
        let mine = this_thread();
        assert_eq!(this_thread(), mine);
        assert_ne!(std::thread::spawn(this_thread).join().unwrap(), mine);
        assert_ne!(new_owner_key(), new_owner_key());
    }
}
