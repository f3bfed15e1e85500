//! Leaving: a removal that goes on until it is certain.
//!
//! It is sent behind the join that it undoes. A join of which no answer came is undone by the same removal over the
//! next connection, whose epoch lets no older join take effect any more.

use std::sync::Arc;

use lockkeeper_core::{Error, ErrorKind, Liveness, LossReason, Operation, QueueName, Result, Ticket, Withdrawal};
use lockkeeper_session::{Asking, Backoff, Effect, Entry, Failure, FailureKind};

use crate::queue::guard::reason;
use crate::queue::inner::{Answered, Inner, named};
use crate::session::{Call, Make};
use crate::statement::Statement;

/// What is to be left.
struct Leaving {
    inner: Arc<Inner>,
    queue: QueueName,
    ticket: Ticket,
    outlives_session: bool,
    /// Whether its join was answered.
    is_answered: bool,
    call: Call<Answered>,
}

/// How a removal ended.
enum Ending {
    /// The contender is gone by our own removal for all that is known, or was never made.
    Left,
    /// It was gone before, not by us.
    WasGone(LossReason),
    /// The session is over, and the contender with it.
    WithSession,
}

/// The call that takes a contender out of its queue, and says why it was gone if it was.
pub(super) fn leaving(inner: &Inner, queue: &QueueName, ticket: Ticket) -> Make<Answered> {
    let [name, part] = named(queue);
    let arguments = vec![inner.core.id.into(), name, part, ticket.into()];
    inner.run(Statement::new("leave", arguments), Operation::Leave)
}

/// Starts to withdraw a ticket.
pub(super) fn begin(inner: &Arc<Inner>, queue: &QueueName, ticket: Ticket) -> Withdrawal {
    let Some(entry) = inner.entries().take_from(queue, ticket) else {
        return Withdrawal::done(Ok(()));
    };
    let (outlives_session, is_answered) = match entry {
        Entry::Joining(joining) if !joining.progress.was_sent() => {
            inner.core.roll.remove(ticket);
            return Withdrawal::done(Ok(()));
        }
        Entry::Joining(joining) => (joining.outlives_session, false),
        Entry::Placed { place, is_standing: true } if place.bond.reason() == Some(LossReason::Broken) => {
            // The service keeps nothing of it.
            inner.core.roll.remove(ticket);
            return Withdrawal::done(Err(lost(LossReason::Broken, queue)));
        }
        Entry::Placed { place, .. } => (place.outlives_session, true),
    };
    let call = inner.core.life.call(leaving(inner, queue, ticket));
    let (inner, queue) = (inner.clone(), queue.clone());
    let runtime = inner.core.life.runtime.clone();
    let leaving = Leaving { inner, queue, ticket, outlives_session, is_answered, call };
    // It goes on if the report is given up.
    Withdrawal::under_way(Box::pin(Asking::begin(leaving.leave(), runtime)))
}

fn lost(reason: LossReason, queue: &QueueName) -> Error {
    Error::transient(ErrorKind::Lost(reason), Operation::Leave, reason.to_string()).at(queue)
}

impl Leaving {
    async fn leave(mut self) -> Result<()> {
        let outcome = self.remove_until_certain().await;
        // Until now a new connection was to keep it, so that the answer is about this removal.
        self.inner.core.roll.remove(self.ticket);
        match outcome {
            Ok(Ending::Left) => Ok(()),
            Ok(Ending::WasGone(reason)) => {
                if reason == LossReason::Expired {
                    self.inner.core.life.expire();
                }
                Err(lost(reason, &self.queue))
            }
            Ok(Ending::WithSession) => self.after_session(),
            Err(failure) => Err(self.inner.fail(failure, Operation::Leave, true, &self.queue)),
        }
    }

    /// It is not known whether the session ended before the place was left or after, so no caller may rely on the
    /// latter.
    fn after_session(&self) -> Result<()> {
        if self.outlives_session {
            let message = "the session is over and cannot tell the service; the place stays until it is broken";
            return Err(Error::transient(ErrorKind::ConnectionLost, Operation::Leave, message).at(&self.queue));
        }
        match self.inner.core.life.bond().liveness() {
            Liveness::Lost(reason @ LossReason::Expired) => Err(lost(reason, &self.queue)),
            _ => Ok(()),
        }
    }

    /// Removes until the contender is gone, or the session is over and its contenders with it.
    async fn remove_until_certain(&mut self) -> Result<Ending, Failure> {
        let core = self.inner.core.clone();
        let mut may_be_removed = false;
        let mut backoff = Backoff::LEAVING;
        loop {
            let failure = match self.call.answer().await {
                Ok((link, answer)) => {
                    // Those of this process that wait for it need not be told by the server.
                    core.waits.left(&link, self.ticket);
                    return Ok(self.judge(&answer.word, may_be_removed));
                }
                Err(failure) => failure,
            };
            may_be_removed |= failure.effect == Effect::Unknown;
            if failure.kind == FailureKind::SessionGone {
                core.life.ended().await;
                return Ok(Ending::WithSession);
            }
            if !failure.is_passing() {
                tracing::error!(target: "lockkeeper", %failure, "a contender cannot leave its queue; trying again");
                tokio::select! {
                    biased;
                    _ = core.life.bond().lost() => return Err(failure),
                    () = core.life.clock.sleep_until(core.life.clock.now().saturating_add(backoff.pause())) => {}
                }
            }
            core.life.again(&mut self.call, &failure).await;
        }
    }

    /// A removal before this one may have taken effect; and no caller has believed in a contender that was never
    /// answered.
    fn judge(&self, word: &str, may_be_removed: bool) -> Ending {
        match word {
            "left" => Ending::Left,
            "gone" => Ending::WasGone(LossReason::Expired),
            _ if may_be_removed || !self.is_answered => Ending::Left,
            why => Ending::WasGone(reason(why)),
        }
    }
}
