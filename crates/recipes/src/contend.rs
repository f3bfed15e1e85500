//! The way to a grant: join, decide, wait for the one ahead, decide again; attempts until one succeeds, fails
//! permanently, or the time is up.
//!
//! | file | what lives there |
//! | --- | --- |
//! | `place` | the ticket that is withdrawn when it is dropped: all cancellation is handled there |
//! | `line` | a place in the one queue of a lock, and the wait in it |
//! | `attempt` | one attempt at such a place, from its join to its grant |
//! | `onlook` | waiting without a place |
//! | `local_queue` | one place for all tasks of the process |
//! | `refusal` | the errors when a lock cannot be made, or a place not be taken or kept |

mod attempt;
mod line;
pub(crate) mod local_queue;
mod onlook;
mod place;
mod refusal;

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{Advice, BoxFuture, Error, ErrorKind, Opener, QueueName, Result, Session, Standing, Wait};

use crate::event::Event;
use crate::shared::{KeeperStage, Shared};

pub(crate) use attempt::{LineAttempt, PendingPlace, PlaceAttempt};
pub(crate) use line::{JoinedPlace, OnePlace, entry, join_beside};
pub(crate) use onlook::{AllGone, Vacant, ValueSays, onlooker_error};
pub(crate) use place::{ArmedPlace, Granted};
pub(crate) use refusal::{
    check_standing, check_with_reason, kind_mismatch, lost_error, not_carried, refused, removed, unanswered,
};

/// How long a place must have stood for its loss to count as a first one, with which the retry policy begins anew. With
/// less, a service that ends every session at once would be asked for another in a busy loop.
pub(crate) const STEADY: Duration = Duration::from_secs(1);

/// One way to a grant under one session.
pub(crate) trait GrantAttempt: Send {
    /// What is granted.
    type Granted: Send;

    /// Returns what opens the sessions under which places are taken.
    fn opener<'s>(&self, shared: &'s Shared) -> &'s Opener<Arc<dyn Session>> {
        &shared.opener
    }

    /// Takes what is granted without a wait, in the caller's own future; otherwise [`GrantAttempt::wait`] goes on with
    /// what is under way. An attempt that is seldom granted at once leaves all to that.
    fn at_once(
        &mut self,
        _shared: &Shared,
        _progress: &mut WaitProgress,
        _context: &mut Context<'_>,
    ) -> Poll<Result<Self::Granted>> {
        Poll::Pending
    }

    /// Takes a place under the present session and waits there until it is granted or lost.
    fn wait(
        &mut self,
        shared: &Shared,
        progress: &mut WaitProgress,
    ) -> impl Future<Output = Result<Self::Granted>> + Send;

    /// Takes it if no wait is needed; `None` otherwise.
    fn try_once(&mut self, shared: &Shared) -> impl Future<Output = Result<Option<Self::Granted>>> + Send;

    /// Returns the stage of the keeper from which on this is refused: when it is drained, unless it belongs to
    /// something that is held.
    fn refused_from(&self) -> KeeperStage {
        KeeperStage::Drained
    }
}

/// How far a wait has come, for the error when it ends.
#[derive(Debug)]
pub(crate) enum WaitProgress {
    /// There is no place in the queue; with the last failure.
    NoPlace(Option<Error>),
    /// There is a place, or there was one a moment ago.
    Placed,
}

/// How often a call that does not wait checks whether another process holds it up: a process that is just entering the
/// queue needs microseconds, unless it was stopped while it entered.
const HELD_UP_LOOK: Duration = Duration::from_millis(250);

/// Waits for a grant from a queue; `None` if the time was up first. A call that began before this says when.
///
/// A grant that comes at once is the common case, and needs no other future. What waits lies in a box, so that the
/// future of a call is small: it is moved when it is made, and ten thousand of them wait at a time.
///
/// # Errors
///
/// Permanent ones; and a transient one when the time was up, or the retry policy gave up, before there was a place:
/// then it is unknown whether the lock was free, except if another process on its way into the queue held us up.
/// Without a wait nothing is retried.
pub(crate) async fn grant<A: GrantAttempt>(
    shared: &Shared,
    queue: &QueueName,
    attempt: &mut A,
    wait: Wait,
    since: Option<BootInstant>,
) -> Result<Option<A::Granted>> {
    let called_at = since.unwrap_or_else(|| shared.clock.now());
    let wait = wait.starting(called_at);
    if wait == Wait::No {
        return Box::pin(try_beside_the_dead(shared, queue, attempt)).await;
    }
    refuse(shared, queue, attempt.refused_from())?;
    let mut progress = WaitProgress::NoPlace(None);
    let first = poll_fn(|context| Poll::Ready(attempt.at_once(shared, &mut progress, context))).await;
    let failure = match first {
        Poll::Ready(Ok(granted)) => {
            // What was granted at the moment in which the keeper was drained is given back.
            refuse(shared, queue, attempt.refused_from())?;
            return Ok(Some(granted));
        }
        Poll::Ready(Err(error)) => Some(error),
        Poll::Pending => None,
    };
    let goes_on = (progress, failure);
    Box::pin(wait_until(shared, queue, attempt, (wait, called_at), goes_on)).await
}

/// Waits for a grant until the time is up: the attempt goes on, or has failed once.
async fn wait_until<A: GrantAttempt>(
    shared: &Shared,
    queue: &QueueName,
    attempt: &mut A,
    (wait, called_at): (Wait, BootInstant),
    (mut progress, failure): (WaitProgress, Option<Error>),
) -> Result<Option<A::Granted>> {
    let refused_from = attempt.refused_from();
    let granted = {
        let persisting = pin!(persist(shared, queue, attempt, called_at, &mut progress, failure));
        tokio::select! {
            biased;
            granted = shared.by(wait, persisting) => granted.transpose()?,
            closed = shared.until(refused_from) => return Err(closed.at(queue)),
        }
    };
    refuse(shared, queue, refused_from)?;
    match (granted, progress) {
        (None, WaitProgress::NoPlace(_)) if shared.is_held_up(queue) => Ok(None),
        (None, WaitProgress::NoPlace(Some(error))) => Err(error),
        (None, WaitProgress::NoPlace(None)) => Err(unanswered(shared).at(queue)),
        (granted, _) => Ok(granted),
    }
}

/// Refuses what a keeper that is drained or closed does not grant.
fn refuse(shared: &Shared, queue: &QueueName, from: KeeperStage) -> Result<()> {
    shared.refuse_from(from).map_err(|closed| closed.at(queue))
}

/// Takes it if no wait is needed, also no wait for the end of what is held by the dead.
async fn try_beside_the_dead<A: GrantAttempt>(
    shared: &Shared,
    queue: &QueueName,
    attempt: &mut A,
) -> Result<Option<A::Granted>> {
    loop {
        // Each round but the first follows the departure of a dead contender.
        let granted = try_unless_held_up(shared, queue, attempt).await?;
        let Some(session) = attempt.opener(shared).present().filter(|_| granted.is_none()) else { return Ok(granted) };
        tokio::select! {
            biased;
            has_one_left = session.outwait_dead(queue) => {
                if !has_one_left {
                    return Ok(None);
                }
            }
            closed = shared.until(attempt.refused_from()) => return Err(closed.at(queue)),
        }
    }
}

/// Takes it if no wait is needed. A wait for another process that is just entering the queue counts as one.
async fn try_unless_held_up<A: GrantAttempt>(
    shared: &Shared,
    queue: &QueueName,
    attempt: &mut A,
) -> Result<Option<A::Granted>> {
    let refused_from = attempt.refused_from();
    refuse(shared, queue, refused_from)?;
    let mut trying = pin!(attempt.try_once(shared));
    loop {
        tokio::select! {
            biased;
            granted = &mut trying => {
                let granted = granted?;
                refuse(shared, queue, refused_from)?;
                return Ok(granted);
            }
            closed = shared.until(refused_from) => return Err(closed.at(queue)),
            () = shared.clock.sleep_until(shared.clock.now().saturating_add(HELD_UP_LOOK)) => {
                if shared.is_held_up(queue) {
                    return Ok(None);
                }
            }
        }
    }
}

/// Tries until it is granted, after the first attempt has failed if there is a failure.
async fn persist<A: GrantAttempt>(
    shared: &Shared,
    queue: &QueueName,
    attempt: &mut A,
    called_at: BootInstant,
    progress: &mut WaitProgress,
    failure: Option<Error>,
) -> Result<A::Granted> {
    let error = match failure {
        Some(error) => error,
        None => match attempt.wait(shared, progress).await {
            Ok(granted) => return Ok(granted),
            Err(error) => error,
        },
    };
    Box::pin(persist_after(shared, queue, attempt, called_at, progress, error)).await
}

/// Tries again after the first attempt, which began at `started`, has failed in this way.
async fn persist_after<A: GrantAttempt>(
    shared: &Shared,
    queue: &QueueName,
    attempt: &mut A,
    mut started: BootInstant,
    progress: &mut WaitProgress,
    mut error: Error,
) -> Result<A::Granted> {
    let mut attempt_started = started;
    let mut failed = 0_u32;
    loop {
        if error.advice() == Advice::Permanent {
            return Err(error);
        }
        let now = shared.clock.now();
        let place_was_lost = match error.kind() {
            ErrorKind::Lost(reason) => {
                shared.observers.emit(&Event::Rejoining { lock: queue.clone(), reason });
                true
            }
            _ => false,
        };
        if matches!(progress, WaitProgress::Placed) && now.saturating_duration_since(attempt_started) >= STEADY {
            // The policy bounds one outage, not the wait before it.
            (failed, started) = (0, now);
        }
        failed = failed.saturating_add(1);
        if !(place_was_lost && failed == 1) {
            let Some(delay) = shared.delay(failed, started) else {
                return Err(error);
            };
            let told = error.clone();
            shared.observers.emit(&Event::Retrying { lock: queue.clone(), attempt: failed, delay, error: told });
            let failed = error.operation();
            *progress = WaitProgress::NoPlace(Some(error));
            shared.rest(attempt.opener(shared), failed, delay).await;
        }
        attempt_started = shared.clock.now();
        error = match attempt.wait(shared, progress).await {
            Ok(granted) => return Ok(granted),
            Err(error) => error,
        };
    }
}

/// Asks until there is an answer. While the place stands, a failure that may pass does not cost it. `failure` is the
/// failure before the first question, if there was one.
pub(crate) async fn until_answered<T>(
    shared: &Shared,
    queue: &QueueName,
    standing: &dyn Standing,
    failure: Option<Error>,
    ask: impl Fn() -> BoxFuture<Result<T>> + Send,
) -> Result<T> {
    let mut failures = Failures::default();
    let mut outcome = match failure {
        None => ask().await,
        Some(error) => Err(error),
    };
    loop {
        check_with_reason(queue, standing).await?;
        match outcome {
            Ok(answer) => return Ok(answer),
            Err(error) => failures.pause(shared, queue, standing, error).await?,
        }
        outcome = ask().await;
    }
}

/// Consecutive failures of questions while a place is kept.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    count: u32,
    first_at: Option<BootInstant>,
}

impl Failures {
    /// Counts one more failure, and waits until the next attempt.
    ///
    /// # Errors
    ///
    /// The failure itself if it does not pass, or if the retry policy gives up; the loss of the place if it is lost.
    pub(crate) async fn pause(
        &mut self,
        shared: &Shared,
        queue: &QueueName,
        standing: &dyn Standing,
        error: Error,
    ) -> Result<()> {
        // If the place was lost, its reason is reported, and not the failures that followed from it.
        check_with_reason(queue, standing).await?;
        let error = error.at(queue);
        if error.advice() == Advice::Permanent {
            return Err(error);
        }
        self.count = self.count.saturating_add(1);
        let now = shared.clock.now();
        let Some(delay) = shared.delay(self.count, *self.first_at.get_or_insert(now)) else {
            return Err(error);
        };
        let failed = error.operation();
        shared.observers.emit(&Event::Retrying { lock: queue.clone(), attempt: self.count, delay, error });
        tokio::select! {
            biased;
            _ = standing.lost() => {}
            () = shared.rest(&shared.opener, failed, delay) => {}
        }
        check_with_reason(queue, standing).await
    }
}

#[cfg(test)]
mod tests {
    use lockkeeper_core::SafeUntil;

    use super::*;
    use crate::retry::RetryPolicy;
    use crate::tests::service;

    const TIMEOUT: Duration = Duration::from_secs(2);

    /// A policy bounds one outage, not a wait in line.
    #[tokio::test(start_paused = true)]
    async fn a_waiter_that_has_waited_for_long_gets_all_retries_of_the_policy_when_the_service_fails() {
        let service = service();
        let retry = RetryPolicy::until_elapsed(10 * TIMEOUT, Duration::from_secs(1));
        let (ann, bob) = (service.keeper(), service.keeper_builder().retry(retry).build());
        let guard = ann.mutex("door").unwrap().lock().await.unwrap();
        let waiting = tokio::spawn(bob.mutex("door").unwrap().lock_owned());
        let mut changes = bob.election("hall").unwrap().changes();
        assert_eq!(changes.next().await.unwrap(), None);
        let watching = tokio::spawn(async move { changes.next().await });
        for _ in 0..3 {
            tokio::time::sleep(100 * TIMEOUT).await;
            bob.testing().unwrap().cut(SafeUntil::ProcessEnd);
            bob.testing().unwrap().expire_session();
            tokio::time::sleep(5 * TIMEOUT).await;
            bob.testing().unwrap().heal();
        }
        guard.release().await.unwrap();
        assert!(waiting.await.unwrap().unwrap().hold().is_held());
        let leadership = ann.election("hall").unwrap().campaign().await.unwrap();
        assert_eq!(watching.await.unwrap().unwrap().as_ref(), Some(leadership.hold().contender()));
    }

    #[tokio::test(start_paused = true)]
    async fn time_that_is_up_before_there_was_a_place_is_an_error_and_after_that_an_answer() {
        let keeper = service().keeper();
        let mutex = keeper.mutex("door").unwrap();
        keeper.testing().unwrap().pause();
        let error = mutex.lock_timeout(TIMEOUT).await.unwrap_err();
        assert_eq!((error.kind(), error.advice()), (ErrorKind::ConnectionLost, Advice::Transient));
        assert_eq!(error.to_string(), "door: join: memory: has not answered in time");
        assert!(std::error::Error::source(&error).is_none(), "nothing is known to be wrong");
        keeper.testing().unwrap().resume();
        let guard = mutex.lock().await.unwrap();
        assert!(mutex.lock_timeout(TIMEOUT).await.unwrap().is_none());
        guard.release().await.unwrap();
    }
}
