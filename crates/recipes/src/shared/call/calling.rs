//! The caller: the flow of control that calls, and the contender that it is nested in.
//!
//! It is looked up when a call begins, since a call may go on elsewhere: a waiting thread has its work done by another
//! one. The lock is granted or refused without it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::{fmt, fmt::Write as _};

use lockkeeper_core::{Caller, Flow, FlowKind, Ticket, TicketHead, Wait};
use tokio::task;

use crate::shared::Shared;

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
