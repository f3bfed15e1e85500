//! Leaving: a deletion that goes on until it is certain.
//!
//! It runs in the lane of its lock, behind the join that it undoes. The slot of a contender that has left is taken
//! again, and so is its key, while an earlier deletion may still be on its way. So each deletion names the revision at
//! which its contender was created. Where no answer to the join has told that, a look on the next connection does,
//! whose stamp lets no older join take effect any more.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{Error, ErrorKind, Liveness, LossReason, Operation, QueueName, Result, Ticket, Withdrawal};
use lockkeeper_session::{Backoff, Effect, Failure};

use crate::layout::Name;
use crate::proto::{RangeRequest, RequestOp, Response, ResponseOp, TxnRequest, TxnResponse};
use crate::queue::entries::{Entry, Progress};
use crate::queue::guard;
use crate::queue::inner::Inner;
use crate::queue::tail::Tail;
use crate::rpc::{created_at, delete, key_range, prefix_range};
use crate::session::Link;

/// A deletion that is not answered after a renewal's time, but not before this, goes over the next connection: a
/// request that went down with a leader is answered only seconds after another one was elected.
const AGAIN_AFTER_MIN: Duration = Duration::from_secs(2);

/// What is to be left.
struct Leaving {
    inner: Arc<Inner>,
    queue: QueueName,
    /// Its name, or that in the first segment if its join was not answered.
    name: Name,
    outlives_session: bool,
    meant: Meant,
}

/// Which contender is to go: another one may have its name by the time that a deletion is taken in.
enum Meant {
    /// The one that was created at this revision.
    Created(i64),
    /// The one of this join, which was under way when it was withdrawn: no caller has believed in it.
    Of(Arc<Progress>),
}

/// How a deletion ended.
enum Ending {
    /// The contender is gone by our own deletion for all that is known, or was never made.
    Left,
    /// It was gone before, not by us.
    WasGone(LossReason),
    /// The session is over, and the contender with it.
    WithSession,
}

/// Starts to withdraw a ticket.
pub(super) fn begin(inner: &Arc<Inner>, queue: &QueueName, ticket: Ticket) -> Withdrawal {
    let Some(entry) = inner.entries().take_from(queue, ticket) else {
        return Withdrawal::done(Ok(()));
    };
    inner.core.depend_no_more();
    let (name, outlives_session, meant) = match entry {
        Entry::Joining(joining) => (joining.name, joining.outlives_session, Meant::Of(joining.progress)),
        Entry::Placed { place, is_standing: true } if place.bond.reason() == Some(LossReason::Broken) => {
            // The service keeps nothing of it.
            inner.entries().free_slot(place.name.slot);
            return Withdrawal::done(Err(lost(LossReason::Broken, queue)));
        }
        Entry::Placed { place, .. } => (place.name.clone(), place.outlives_session, Meant::Created(place.created)),
    };
    let leaving = Leaving { inner: inner.clone(), queue: queue.clone(), name, outlives_session, meant };
    Withdrawal::under_way(inner.run(Operation::Leave, queue, leaving.leave()))
}

fn lost(reason: LossReason, queue: &QueueName) -> Error {
    Error::transient(ErrorKind::Lost(reason), Operation::Leave, reason.to_string()).at(queue)
}

impl Leaving {
    async fn leave(self) -> Result<()> {
        if matches!(&self.meant, Meant::Of(progress) if !progress.was_sent()) {
            self.free_slot();
            return Ok(());
        }
        let ending = self.delete_until_certain().await;
        if matches!(ending, Ok(Ending::Left | Ending::WasGone(_))) {
            self.free_slot();
        }
        match ending {
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

    fn free_slot(&self) {
        self.inner.entries().free_slot(self.name.slot);
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

    /// Deletes until the contender is gone, or the session is over and its contenders with it.
    async fn delete_until_certain(&self) -> Result<Ending, Failure> {
        let core = &self.inner.core;
        let mut may_have_left = false;
        let mut backoff = Backoff::LEAVING;
        loop {
            let Some(link) = core.life.next_link().await else {
                core.life.ended().await;
                return Ok(Ending::WithSession);
            };
            let again = core.life.clock.now().saturating_add(core.timing.patience().max(AGAIN_AFTER_MIN));
            match self.delete(&link, core.life.deadline().min(again), may_have_left).await {
                Ok(_) if self.known().is_none() && link.stamp.is_none() => {
                    // Without a new stamp the join can still take effect. The next connection may find room for one.
                    core.until_other(&link, core.life.clock.now().saturating_add(backoff.pause())).await;
                    link.connection.shut();
                    core.until_other(&link, core.life.deadline()).await;
                }
                Ok(ending) => return Ok(ending),
                Err(failure) if failure.is_passing() => {
                    may_have_left |= failure.effect == Effect::Unknown;
                    core.after(&failure, &link, core.life.deadline()).await;
                }
                Err(failure) => {
                    tracing::error!(target: "lockkeeper", %failure, "a contender cannot leave its queue; trying again");
                    tokio::select! {
                        biased;
                        _ = core.life.bond().lost() => return Err(failure),
                        () = core.life.clock.sleep_until(core.life.clock.now().saturating_add(backoff.pause())) => {}
                    }
                }
            }
        }
    }

    /// Deletes once.
    async fn delete(&self, link: &Link, deadline: BootInstant, may_have_left: bool) -> Result<Ending, Failure> {
        let Some(created) = self.created(link, deadline).await? else {
            return Ok(Ending::Left);
        };
        let answer = self.inner.core.ask(link, self.request(created), Operation::Leave, deadline).await?;
        self.judge(&answer, may_have_left)
    }

    /// Returns the revision at which it was created, as far as answers have told it.
    fn known(&self) -> Option<i64> {
        match &self.meant {
            Meant::Created(created) => Some(*created),
            Meant::Of(progress) => progress.created(),
        }
    }

    /// Returns the revision at which it was created; `None` if it is not there.
    async fn created(&self, link: &Link, deadline: BootInstant) -> Result<Option<i64>, Failure> {
        if let Some(created) = self.known() {
            return Ok(Some(created));
        }
        #[cfg(feature = "testing")]
        if self.inner.core.testing.ignores_conditions() {
            return Ok(Some(0));
        }
        let look = key_range(self.key());
        let answer = self.inner.core.ask(link, look, Operation::Leave, deadline).await?;
        Ok(answer.kvs.first().map(|kv| kv.create_revision))
    }

    fn key(&self) -> Vec<u8> {
        self.inner.core.layout.key(&self.queue, &self.name())
    }

    /// Whether it may be the last of a queue that is not long any more, so that the first segment can be used again.
    fn may_empty_long_queue(&self) -> bool {
        self.name().segment > 0 && !self.inner.tails().known(&self.queue).is_long
    }

    /// The join that it undoes has ended, so that its segment is known.
    fn name(&self) -> Name {
        match &self.meant {
            Meant::Of(progress) => self.name.in_segment(progress.tail(Tail::default).segment),
            Meant::Created(_) => self.name.clone(),
        }
    }

    /// Deletes it if it is the one that is meant, or else asks why it is gone.
    fn request(&self, created: i64) -> TxnRequest {
        let (core, layout) = (&self.inner.core, &self.inner.core.layout);
        let is_it = created_at(self.key(), created);
        let mark = delete(layout.broken(core.lease, self.name.slot, created));
        let mut success = vec![delete(self.key())];
        let mut failure = vec![mark, key_range(layout.session(core.lease)).into()];
        if self.may_empty_long_queue() {
            let others = prefix_range(layout.queue(&self.queue));
            let others = RequestOp::from(RangeRequest { keys_only: true, limit: 1, ..others });
            success.push(others.clone());
            failure.push(others);
        }
        core.meant(vec![is_it], success, failure)
    }

    fn judge(&self, answer: &TxnResponse, may_have_left: bool) -> Result<Ending, Failure> {
        let (why_gone, others) = match (answer.succeeded, &*answer.responses) {
            (true, [_, others @ ..]) => (None, others),
            (false, [mark, session, others @ ..]) => (Some((mark, session)), others),
            _ => return Err(Failure::unexpected()),
        };
        if let [ResponseOp { response: Some(Response::Range(others)) }] = others
            && others.kvs.is_empty()
        {
            self.inner.begin_anew(&self.queue);
        }
        let Some((mark, session)) = why_gone else {
            return Ok(Ending::Left);
        };
        let reason = guard::reason(mark, session).ok_or_else(Failure::unexpected)?;
        // A deletion before this one may have taken effect.
        let is_ours = may_have_left || matches!(self.meant, Meant::Of(_));
        Ok(if is_ours { Ending::Left } else { Ending::WasGone(reason) })
    }
}
