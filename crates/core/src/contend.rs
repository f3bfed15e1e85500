//! The way to a grant: join, decide, wait for the one ahead, decide again.
//!
//! This is the one place where cancellation is dealt with: the [`Place`] is armed before the join is sent and withdraws
//! its ticket when it is dropped, so that no future dropped at any point leaves a contender behind.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::BootInstant;
use crate::contender::{ContenderId, Departure, Enqueued, Entry, Mode, QueueView, Ticket};
use crate::decide::{self, Decision};
use crate::event::Event;
use crate::keeper::Shared;
use crate::{Advice, Error, ErrorKind, FencingToken, Operation, QueueName, Result, Session, Standing, Withdrawal};

/// How long a place must have stood for its loss to count as a first one again, so that a service which ends every
/// session at once is not asked for another in a busy loop.
const STEADY: Duration = Duration::from_secs(1);

/// A ticket that was, or is about to be, sent: dropping it withdraws it.
#[derive(Debug)]
pub(crate) struct Place {
    session: Arc<dyn Session>,
    queue: QueueName,
    ticket: Option<Ticket>,
}

impl Place {
    fn arm(session: Arc<dyn Session>, queue: QueueName, ticket: Ticket) -> Self {
        Self { session, queue, ticket: Some(ticket) }
    }

    /// Leaves the queue, and tells when that is certain.
    pub(crate) fn leave(mut self) -> Withdrawal {
        match self.ticket.take() {
            Some(ticket) => self.session.withdraw(&self.queue, ticket),
            None => Withdrawal::done(Ok(())),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            // It goes on by itself, and there is nobody left to report to.
            drop(self.session.withdraw(&self.queue, ticket));
        }
    }
}

/// A place that was granted.
#[derive(Debug)]
pub(crate) struct Granted {
    pub(crate) place: Place,
    pub(crate) id: ContenderId,
    pub(crate) token: FencingToken,
    pub(crate) standing: Arc<dyn Standing>,
}

/// How far a wait has come, for whoever has to say why it ended.
#[derive(Debug)]
enum Progress {
    /// There is no place in the queue, and this went wrong last.
    NoPlace(Option<Error>),
    /// There is one, or there was one a moment ago.
    Placed,
}

/// Waits for a grant, at most until `deadline`; `None` if the time was up first.
///
/// # Errors
///
/// Permanent ones; and a transient one when the time was up, or the retry policy gave up, before a place was had: nobody
/// knows then whether the lock was free.
pub(crate) async fn lock(shared: &Shared, queue: &QueueName, deadline: Option<BootInstant>) -> Result<Option<Granted>> {
    let mut progress = Progress::NoPlace(None);
    let time_is_up = async {
        match deadline {
            Some(deadline) => shared.clock.sleep_until(deadline).await,
            None => std::future::pending().await,
        }
    };
    let granted = tokio::select! {
        biased;
        granted = contend(shared, queue, &mut progress) => Some(granted?),
        closed = shared.until_closed() => return Err(closed.at(queue)),
        () = time_is_up => None,
    };
    match (granted, progress) {
        (None, Progress::NoPlace(Some(error))) => Err(error),
        (None, Progress::NoPlace(None)) => Err(unanswered(shared).at(queue)),
        (granted, _) => Ok(granted),
    }
}

fn unanswered(shared: &Shared) -> Error {
    let message = format!("{} has not answered in time", shared.backend.service());
    Error::transient(ErrorKind::ConnectionLost, Operation::Join, message)
}

/// Takes the lock if it is free, without waiting for anybody; `None` if it is not.
///
/// It looks before it joins, so that a lock that is held costs the service no write.
pub(crate) async fn try_lock(shared: &Shared, queue: &QueueName) -> Result<Option<Granted>> {
    let session = shared.session().await.map_err(|error| error.at(queue))?;
    let view = session.view(queue).await.map_err(|error| error.at(queue))?;
    if let Some(other) = view.contenders.iter().find(|contender| contender.mode != Mode::Mutex) {
        return Err(kind_mismatch(queue, other.mode));
    }
    if !view.contenders.is_empty() {
        return Ok(None);
    }
    let (place, joined) = join(shared, queue, session).await?;
    match decide::mutex(&joined.id, &joined.view) {
        Decision::Granted => grant(queue, place, joined.id, joined.token, joined.standing).map(Some),
        Decision::WaitFor { .. } => Ok(None),
        Decision::NotInQueue => Err(removed(queue)),
        Decision::KindMismatch { found } => Err(kind_mismatch(queue, found)),
    }
}

/// Tries until it is granted.
async fn contend(shared: &Shared, queue: &QueueName, progress: &mut Progress) -> Result<Granted> {
    let started = shared.clock.now();
    let mut failed = 0_u32;
    loop {
        let attempt_started = shared.clock.now();
        let error = match attempt(shared, queue, progress).await {
            Ok(granted) => return Ok(granted),
            Err(error) => error,
        };
        if error.advice() == Advice::Permanent {
            return Err(error);
        }
        let now = shared.clock.now();
        let place_was_lost = match error.kind() {
            ErrorKind::Lost(reason) => {
                shared.emit(&Event::Rejoining { lock: queue.clone(), reason });
                true
            }
            _ => false,
        };
        if place_was_lost && now.saturating_duration_since(attempt_started) >= STEADY {
            failed = 0;
        }
        failed = failed.saturating_add(1);
        if place_was_lost && failed == 1 {
            continue;
        }
        let random = getrandom::u64().unwrap_or(0);
        let Some(delay) = shared.retry.delay(failed, now.saturating_duration_since(started), random) else {
            return Err(error);
        };
        shared.emit(&Event::Retrying { lock: queue.clone(), attempt: failed, delay, error: error.clone() });
        *progress = Progress::NoPlace(Some(error));
        shared.clock.sleep_until(now.saturating_add(delay)).await;
    }
}

/// Joins the queue under the present session and waits there until the place is granted or lost.
async fn attempt(shared: &Shared, queue: &QueueName, progress: &mut Progress) -> Result<Granted> {
    let session = shared.session().await.map_err(|error| error.at(queue))?;
    let (place, joined) = join(shared, queue, session.clone()).await?;
    *progress = Progress::Placed;
    let Enqueued { id, token, mut view, standing } = joined;
    loop {
        let (ahead, departure_grants) = match decide::mutex(&id, &view) {
            Decision::Granted => break,
            Decision::WaitFor { ahead, departure_grants } => (ahead, departure_grants),
            Decision::NotInQueue => {
                // The contenders of a session that ended are gone too; then it is the session that was lost.
                check_standing(queue, &*standing)?;
                return Err(removed(queue));
            }
            Decision::KindMismatch { found } => return Err(kind_mismatch(queue, found)),
        };
        let seen = view.version;
        // A waiter keeps no list: ten thousand of them would hold gigabytes.
        drop(view);
        let departure = session.departure(queue, Some(&id), &ahead, seen).await;
        check_standing(queue, &*standing)?;
        if matches!(departure, Ok(Departure::Gone)) && departure_grants {
            break;
        }
        view = look_again(shared, queue, &*session, &*standing, departure).await?;
    }
    grant(queue, place, id, token, standing)
}

async fn join(shared: &Shared, queue: &QueueName, session: Arc<dyn Session>) -> Result<(Place, Enqueued)> {
    let ticket = Ticket::mint()?;
    let place = Place::arm(session, queue.clone(), ticket);
    let entry = Entry::new(ticket, Mode::Mutex, shared.owner.clone());
    let joined = place.session.enqueue(queue, entry).await.map_err(|error| error.at(queue))?;
    let ahead = joined.view.contenders.iter().position(|contender| contender.id == joined.id).unwrap_or(0);
    shared.emit(&Event::Joined { lock: queue.clone(), contender: joined.id.clone(), ahead });
    Ok((place, joined))
}

/// Lists the queue after a departure that proved nothing. While the place stands, a failure that may pass does not cost
/// it: the look is tried again.
async fn look_again(
    shared: &Shared,
    queue: &QueueName,
    session: &dyn Session,
    standing: &dyn Standing,
    departure: Result<Departure>,
) -> Result<QueueView> {
    let started = shared.clock.now();
    let mut failed = 0_u32;
    let mut outcome = match departure {
        Ok(_) => session.view(queue).await,
        Err(error) => Err(error),
    };
    loop {
        check_standing(queue, standing)?;
        let error = match outcome {
            Ok(view) => return Ok(view),
            Err(error) => error.at(queue),
        };
        if error.advice() == Advice::Permanent {
            return Err(error);
        }
        failed = failed.saturating_add(1);
        let now = shared.clock.now();
        let random = getrandom::u64().unwrap_or(0);
        let Some(delay) = shared.retry.delay(failed, now.saturating_duration_since(started), random) else {
            return Err(error);
        };
        shared.emit(&Event::Retrying { lock: queue.clone(), attempt: failed, delay, error });
        shared.clock.sleep_until(now.saturating_add(delay)).await;
        outcome = session.view(queue).await;
    }
}

/// A grant is believed only if the place stands at the moment of the grant, however long the way here took.
fn grant(
    queue: &QueueName,
    place: Place,
    id: ContenderId,
    token: FencingToken,
    standing: Arc<dyn Standing>,
) -> Result<Granted> {
    check_standing(queue, &*standing)?;
    Ok(Granted { place, id, token, standing })
}

fn check_standing(queue: &QueueName, standing: &dyn Standing) -> Result<()> {
    use crate::{Liveness, LossReason};

    match standing.liveness() {
        Liveness::Held { .. } | Liveness::Jeopardy { .. } => Ok(()),
        Liveness::Lost(LossReason::Removed) => Err(removed(queue)),
        Liveness::Lost(reason @ LossReason::Closed) => {
            Err(Error::permanent(ErrorKind::Closed, Operation::Wait, reason.to_string()).at(queue))
        }
        Liveness::Lost(reason) => {
            Err(Error::transient(ErrorKind::Lost(reason), Operation::Wait, reason.to_string()).at(queue))
        }
    }
}

fn removed(queue: &QueueName) -> Error {
    let message = "somebody removed our contender from the queue";
    Error::permanent(ErrorKind::Removed, Operation::Wait, message).at(queue)
}

fn kind_mismatch(queue: &QueueName, found: Mode) -> Error {
    let message = format!("asked for as a mutex, but its queue has a `{found}` contender of another kind of lock");
    Error::permanent(ErrorKind::KindMismatch, Operation::Join, message).at(queue)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::TestClock;
    use crate::memory::MemoryService;

    const TIMEOUT: Duration = Duration::from_secs(2);

    #[tokio::test(start_paused = true)]
    async fn time_that_is_up_before_there_was_a_place_is_an_error_and_after_that_an_answer() {
        let keeper = MemoryService::new(Arc::new(TestClock::new())).keeper();
        let mutex = keeper.mutex("door").unwrap();
        keeper.testing().unwrap().pause();
        let error = mutex.lock_timeout(TIMEOUT).await.unwrap_err();
        assert_eq!((error.kind(), error.advice()), (ErrorKind::ConnectionLost, Advice::Transient));
        assert_eq!(error.to_string(), "door: join: memory: has not answered in time");
        keeper.testing().unwrap().resume();
        let guard = mutex.lock().await.unwrap();
        assert!(mutex.lock_timeout(TIMEOUT).await.unwrap().is_none());
        guard.release().await.unwrap();
    }
}
