//! A leave: a removal that goes on until it is certain.
//!
//! It is sent behind the join that it undoes. A join of which no answer came is undone by the same removal over the
//! next connection, after which no older join takes effect any more.
//!
//! A removal need not ask whether the session lives: if that is believed when the answer comes, it lived all the time;
//! so it did if its user has closed it meanwhile, behind the removal. Only if it is not, or if the contender was gone,
//! a second one asks.

use std::sync::Arc;

use lockkeeper_core::{
    Backoff, ContenderId, Error, ErrorKind, Liveness, LossReason, Operation, QueueName, Result, Ticket, Withdrawal,
};
use tokio::sync::oneshot;

use crate::queue::entries::OwnEntry;
use crate::queue::service::{Left, Queues, Service, Stage};
use crate::{Asking, Effect, Failure, FailureKind, SessionCall, life};

struct LeaveCall<S: Service> {
    queues: Arc<Queues<S>>,
    queue: QueueName,
    ticket: Ticket,
    /// `None` if its join was not answered: no caller has believed in it.
    id: Option<ContenderId>,
    outlives_session: bool,
    call: SessionCall<S::Link, Left>,
    /// Tells that the service refuses the removal: a caller that waits should not wait for an operator.
    tell: Option<oneshot::Sender<Error>>,
}

/// How a removal ended.
enum LeaveEnding {
    /// The contender is gone by our own removal for all that is known, or was never made.
    Left,
    /// It was gone before, not by us.
    WasGone(LossReason),
    /// The session is over, and the contender with it.
    WithSession,
    /// The session is over here, and the service could not be told.
    Untold(Failure),
}

pub(super) fn begin<S: Service>(queues: &Arc<Queues<S>>, queue: &QueueName, ticket: Ticket) -> Withdrawal {
    let Some(entry) = queues.entries.lock().take_from(queue, ticket) else {
        return Withdrawal::done(Ok(()));
    };
    let done = |outcome| {
        S::note(queues, Stage::Gone(ticket));
        Withdrawal::done(outcome)
    };
    let (id, outlives_session) = match entry {
        OwnEntry::Joining(joining) if !joining.progress.was_sent() => return done(Ok(())),
        OwnEntry::Joining(joining) => (None, joining.outlives_session),
        // The service keeps nothing of it.
        OwnEntry::Placed { place, is_standing: true } if place.bond.reason() == Some(LossReason::Broken) => {
            return done(Err(lost(LossReason::Broken, queue)));
        }
        OwnEntry::Placed { place, .. } => (Some(place.id.clone()), place.outlives_session),
    };
    let life = queues.service.life();
    let call = life.call(queues.service.leave(queue, ticket, id.as_ref(), false));
    let runtime = life.runtime.clone();
    let (tell, refusal) = oneshot::channel();
    let (queues, queue) = (queues.clone(), queue.clone());
    let leaving = LeaveCall { queues, queue, ticket, id, outlives_session, call, tell: Some(tell) };
    // It goes on if the report is given up.
    let leaving = Asking::begin(leaving.leave(), runtime);
    Withdrawal::under_way(Box::pin(async move {
        tokio::select! {
            biased;
            left = leaving => left,
            Ok(refusal) = refusal => Err(refusal),
        }
    }))
}

fn lost(reason: LossReason, queue: &QueueName) -> Error {
    Error::transient(ErrorKind::Lost(reason), Operation::Leave, reason.to_string()).at(queue)
}

impl<S: Service> LeaveCall<S> {
    async fn leave(mut self) -> Result<()> {
        let outcome = self.remove_until_certain().await;
        // Until now a new connection was to keep it, so that the answer is about this removal.
        S::note(&self.queues, Stage::Gone(self.ticket));
        match outcome {
            Ok(LeaveEnding::Left) => Ok(()),
            Ok(LeaveEnding::WasGone(reason)) => {
                if reason == LossReason::Expired {
                    self.queues.service.life().expire();
                }
                Err(lost(reason, &self.queue))
            }
            Ok(LeaveEnding::WithSession) => self.after_session(None),
            Ok(LeaveEnding::Untold(failure)) => self.after_session(Some(failure)),
            Err(failure) => Err(self.queues.fail(failure, Operation::Leave, true, &self.queue)),
        }
    }

    /// It is not known whether the session ended before the place was left or after, so no caller may rely on the
    /// latter.
    fn after_session(&self, untold: Option<Failure>) -> Result<()> {
        let life = self.queues.service.life();
        let error =
            |message| Err(Error::transient(ErrorKind::ConnectionLost, Operation::Leave, message).at(&self.queue));
        if self.outlives_session {
            let message = "the session is over and cannot tell the service; the place stays until it is broken";
            return error(message.to_owned());
        }
        match (life.bond().liveness(), untold) {
            (Liveness::Lost(reason @ LossReason::Expired), _) => Err(lost(reason, &self.queue)),
            (_, Some(failure)) => error(format!(
                "the service could not be told: {failure}; it stays taken until the session ends at the service, \
                 within {:?}",
                life.timeout
            )),
            (_, None) => Ok(()),
        }
    }

    /// Removes until the contender is gone, or the session is over and its contenders with it.
    async fn remove_until_certain(&mut self) -> Result<LeaveEnding, Failure> {
        let life = self.queues.service.life().clone();
        let mut may_be_removed = false;
        let mut backoff = Backoff::LEAVING;
        loop {
            let failure = match self.call.answer().await {
                Ok(left) => {
                    if let Some(ending) = self.judge(left, may_be_removed) {
                        return Ok(ending);
                    }
                    may_be_removed |= left == Left::RemovedUnproven;
                    let id = self.id.as_ref();
                    self.call = life.call(self.queues.service.leave(&self.queue, self.ticket, id, true));
                    continue;
                }
                Err(failure) => failure,
            };
            may_be_removed |= failure.effect == Effect::Unknown;
            if failure.kind == FailureKind::SessionGone {
                return Ok(match life.ended().await {
                    life::Ending::Certain => LeaveEnding::WithSession,
                    life::Ending::Untold(failure) => LeaveEnding::Untold(failure),
                });
            }
            if !failure.is_passing() {
                tracing::error!(target: "lockkeeper", %failure, "a contender cannot leave its queue; trying again");
                self.tell(&failure);
                tokio::select! {
                    biased;
                    reason = life.bond().lost() => return match (reason, life.ended().await) {
                        (LossReason::Closed, life::Ending::Certain) => Ok(LeaveEnding::WithSession),
                        (LossReason::Closed, life::Ending::Untold(_)) => Ok(LeaveEnding::Untold(failure)),
                        _ => Err(failure),
                    },
                    () = backoff.rest(&*life.clock) => {}
                }
            }
            life.again(&mut self.call, &failure).await;
        }
    }

    fn tell(&mut self, failure: &Failure) {
        let Some(tell) = self.tell.take() else { return };
        let timeout = self.queues.service.life().timeout;
        let failure = failure.clone().with_hint(&format!(
            "; it is tried again, and stays taken until that succeeds or the session has ended, {timeout:?} after its \
             last sign of life"
        ));
        // The caller may have gone.
        let _ = tell.send(self.queues.fail(failure, Operation::Leave, true, &self.queue));
    }

    /// A removal before this one may have taken effect; and no caller has believed in a contender whose join was not
    /// answered. `None` if it is not known yet whether the contender stood until now.
    fn judge(&self, left: Left, may_be_removed: bool) -> Option<LeaveEnding> {
        match left {
            Left::Removed => Some(LeaveEnding::Left),
            Left::RemovedUnproven => {
                let has_stood = self.outlives_session || self.queues.service.life().has_stood();
                has_stood.then_some(LeaveEnding::Left)
            }
            Left::Absent => None,
            Left::Gone(LossReason::Expired) => Some(LeaveEnding::WasGone(LossReason::Expired)),
            Left::Gone(_) if may_be_removed || self.id.is_none() => Some(LeaveEnding::Left),
            Left::Gone(reason) => Some(LeaveEnding::WasGone(reason)),
        }
    }
}
