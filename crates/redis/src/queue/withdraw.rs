//! Leaving: a removal that goes on until it is certain.
//!
//! It is sent behind the join that it undoes. A join of which no answer came is undone by the same removal over the
//! next connection, whose epoch lets no older join take effect any more.
//!
//! A removal does not ask whether the session lives: if that is believed when the answer comes, it lived all the time;
//! so it did if its user has closed it meanwhile, behind the removal. Only if it is not, or if the contender was gone,
//! a second script asks.

use std::sync::Arc;

use lockkeeper_core::{
    ContenderId, Error, ErrorKind, Liveness, LossReason, Operation, QueueName, Result, Ticket, Withdrawal,
};
use lockkeeper_session::{Asking, Backoff, Effect, Entry, Failure, FailureKind, Place as _};
use redis::Value;

use crate::answers::text;
use crate::layout::part_letter;
use crate::queue::guard::reason;
use crate::queue::inner::{Inner, Looked, arguments};
use crate::script::Script;
use crate::session::{Call, Make};

/// What is to be left.
struct Leaving {
    inner: Arc<Inner>,
    queue: QueueName,
    ticket: Ticket,
    /// `None` if its join was not answered.
    id: Option<ContenderId>,
    outlives_session: bool,
    call: Call<Looked<Value>>,
    /// Whether the call says why the contender was gone.
    is_judged: bool,
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

/// The call that takes a contender out of its queue by one of the two scripts for it.
pub(super) fn leaving(
    inner: &Inner,
    script: Script,
    queue: &QueueName,
    ticket: Ticket,
    id: Option<&ContenderId>,
) -> Make<Looked<Value>> {
    let member = id.map(ContenderId::as_str).unwrap_or_default();
    let (session, part, name) = (inner.core.id.to_string(), part_letter(queue.part()), queue.encoded());
    inner.run(script, arguments([&session, part, &name, &ticket.to_string(), member]), Operation::Leave)
}

/// Starts to withdraw a ticket.
pub(super) fn begin(inner: &Arc<Inner>, queue: &QueueName, ticket: Ticket) -> Withdrawal {
    let Some(entry) = inner.entries().take_from(queue, ticket) else {
        return Withdrawal::done(Ok(()));
    };
    inner.core.roll.remove(ticket);
    let (id, outlives_session) = match entry {
        Entry::Joining(joining) if !joining.progress.was_sent() => return Withdrawal::done(Ok(())),
        Entry::Joining(joining) => (None, joining.outlives_session),
        Entry::Placed { place, is_standing: true } if place.bond.reason() == Some(LossReason::Broken) => {
            // The service keeps nothing of it.
            return Withdrawal::done(Err(lost(LossReason::Broken, queue)));
        }
        Entry::Placed { place, .. } => (Some(place.id.clone()), place.outlives_session()),
    };
    let call = inner.core.life.call(leaving(inner, Script::LeaveBelieved, queue, ticket, id.as_ref()));
    let leaving =
        Leaving { inner: inner.clone(), queue: queue.clone(), ticket, id, outlives_session, call, is_judged: false };
    // It goes on if the report is given up.
    Withdrawal::under_way(Box::pin(Asking::begin(leaving.leave(), inner.core.life.runtime.clone())))
}

fn lost(reason: LossReason, queue: &QueueName) -> Error {
    Error::transient(ErrorKind::Lost(reason), Operation::Leave, reason.to_string()).at(queue)
}

impl Leaving {
    async fn leave(mut self) -> Result<()> {
        match self.remove_until_certain().await {
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
                Ok((_, answer)) => {
                    let word = text(answer)?;
                    if let Some(ending) = self.judge(&word, may_be_removed) {
                        return Ok(ending);
                    }
                    may_be_removed |= word == "left";
                    self.ask_why();
                    continue;
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

    /// Removes it by the script that asks for the session too.
    fn ask_why(&mut self) {
        let make = leaving(&self.inner, Script::LeaveJudged, &self.queue, self.ticket, self.id.as_ref());
        self.call = self.inner.core.life.call(make);
        self.is_judged = true;
    }

    /// A removal before this one may have taken effect; and no caller has believed in a contender that was never
    /// answered. `None` if it is not known yet whether the contender stood until now.
    fn judge(&self, word: &str, may_be_removed: bool) -> Option<Ending> {
        let is_certain = self.is_judged || self.outlives_session || self.inner.core.has_stood();
        match word {
            "left" => is_certain.then_some(Ending::Left),
            "absent" => None,
            "gone" => Some(Ending::WasGone(LossReason::Expired)),
            _ if may_be_removed || self.id.is_none() => Some(Ending::Left),
            why => Some(Ending::WasGone(reason(why))),
        }
    }
}
