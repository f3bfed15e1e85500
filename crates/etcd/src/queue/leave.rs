//! Leaving: the deletion of one contender, and of none that came after it.
//!
//! It runs in the lane of its lock, behind the join that it undoes, and takes the next removals of the lane with it.
//! The slot of a contender that has left is taken again, and so is its key, while an earlier deletion may still be on
//! its way. So each deletion names the revision at which its contender was created. Where no answer to the join has
//! told that, a look on the next connection does, whose stamp lets no older join take effect any more.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{ContenderId, LossReason, Operation, QueueName, Ticket};
use lockkeeper_session::{Bug, Effect, Failure, Left, Link as _, SessionTiming as _};

use crate::layout::Name;
use crate::proto::{OpResponse, RangeRequest, RequestOp, ResponseOp, TxnRequest, TxnResponse};
use crate::queue::state::{ContenderClaim, QueueCore};
use crate::queue::tail::Tail;
use crate::rpc::{created_at, delete, key_range, no_room, prefix_range, range_of};
use crate::session::{EtcdLink, QueuedRemoval};

/// A deletion that is not answered after a renewal's time, but not before this, goes over the next connection: a
/// request that went down with a leader is answered only seconds after another one was elected.
const AGAIN_AFTER_MIN: Duration = Duration::from_secs(2);

/// How many contenders one transaction removes at most: a server takes twice as many by default, and as many as our
/// longest request has are needed anyway.
const TOGETHER_MAX: usize = 64;

/// The removal of a contender of ours, or the question why it is gone.
pub(super) struct KeyLeave {
    pub(super) inner: Arc<QueueCore>,
    pub(super) queue: QueueName,
    meant: LeaveTarget,
}

/// The contender to be removed: another one may have its name when a late deletion is executed.
enum LeaveTarget {
    /// The one of this name that was created at this revision.
    Created(Name, i64),
    /// The one of a join that was withdrawn before its answer: no caller has believed in it.
    Of(ContenderClaim),
    /// No contender that can be there.
    Nothing,
}

impl KeyLeave {
    pub(super) fn new(inner: &Arc<QueueCore>, queue: &QueueName, ticket: Ticket, id: Option<&ContenderId>) -> Self {
        let layout = &inner.core.layout;
        let meant = match id {
            Some(id) => layout.name(id).map(|name| LeaveTarget::Created(name, layout.contender(queue, id).1)),
            None => inner.claim(ticket).map(LeaveTarget::Of),
        };
        Self { inner: inner.clone(), queue: queue.clone(), meant: meant.unwrap_or(LeaveTarget::Nothing) }
    }

    pub(super) async fn leave(&self, link: &EtcdLink, own: &QueuedRemoval) -> Result<Left, Failure> {
        if let Some(outcome) = own.outcome() {
            return outcome.map(|()| Left::Removed);
        }
        if matches!(&self.meant, LeaveTarget::Of(claim) if !claim.joining.was_sent()) {
            return Ok(Left::Gone(LossReason::Removed));
        }
        let core = &self.inner.core;
        let again = core.life.clock.now().saturating_add(core.timing.patience().max(AGAIN_AFTER_MIN));
        let left = self.delete(link, core.life.deadline().min(again)).await?;
        if matches!(self.meant, LeaveTarget::Of(_)) && self.known().is_none() && link.stamp.is_none() {
            // Without a new stamp the join can still take effect. The next connection may find room for one.
            link.shut();
            return Err(no_room());
        }
        Ok(left)
    }

    async fn delete(&self, link: &EtcdLink, deadline: BootInstant) -> Result<Left, Failure> {
        let Some((name, created)) = self.found(link, deadline).await? else {
            return Ok(Left::Gone(LossReason::Removed));
        };
        if self.delete_with_next(link, deadline).await? {
            return Ok(Left::Removed);
        }
        let request = self.request(&name, created);
        let answer = self.inner.core.ask(link, request, Operation::Leave, deadline).await?;
        self.judge(&answer)
    }

    /// Deletes it together with the next removals of the lane; returns whether all were there. If one was not, each is
    /// deleted alone.
    async fn delete_with_next(&self, link: &EtcdLink, deadline: BootInstant) -> Result<bool, Failure> {
        let core = &self.inner.core;
        let next = core.lanes.next_removals(&self.queue, TOGETHER_MAX - 1);
        let (next, mut keys): (Vec<_>, Vec<_>) =
            next.into_iter().filter_map(|next| next.names().map(|key| (next, key))).unzip();
        let Some(own) = self.key().filter(|_| !next.is_empty()) else { return Ok(false) };
        keys.push(own);
        let conditions = keys.iter().map(|(key, created)| created_at(key.clone(), *created)).collect();
        let deletions = keys.iter().map(|(key, _)| delete(key.clone())).collect();
        let request = core.meant(conditions, deletions, Vec::new());
        match core.ask(link, request, Operation::Leave, deadline).await {
            Ok(answer) if answer.succeeded => next.iter().for_each(|next| next.end(Ok(()))),
            Ok(_) => return Ok(false),
            Err(failure) => {
                if failure.effect == Effect::Unknown {
                    next.iter().for_each(|next| next.end(Err(failure.clone())));
                }
                return Err(failure);
            }
        }
        Ok(true)
    }

    /// Whether it may be the last of a queue that is not long any more, so that the first segment can be used again.
    fn may_be_last(&self, name: &Name) -> bool {
        name.segment > 0 && !self.inner.tails.lock().known(&self.queue).is_long
    }

    /// Returns its key, and the revision at which it was created, as far as answers have told that; none if more is to
    /// be found out at its removal, so that it is not done with others.
    pub(super) fn key(&self) -> Option<(Vec<u8>, i64)> {
        let (name, created) = self.known().filter(|(name, _)| !self.may_be_last(name))?;
        Some((self.inner.core.layout.key(&self.queue, &name), created))
    }

    /// Returns its name and the revision at which it was created, as far as answers have told that.
    fn known(&self) -> Option<(Name, i64)> {
        match &self.meant {
            LeaveTarget::Created(name, created) => Some((name.clone(), *created)),
            LeaveTarget::Of(claim) => Some((name_of(claim), claim.joining.created()?)),
            LeaveTarget::Nothing => None,
        }
    }

    /// Finds its name and the revision at which it was created; `None` if it is not there.
    async fn found(&self, link: &EtcdLink, deadline: BootInstant) -> Result<Option<(Name, i64)>, Failure> {
        let (None, LeaveTarget::Of(claim)) = (self.known(), &self.meant) else {
            return Ok(self.known());
        };
        let name = name_of(claim);
        if self.inner.core.life.testing.has(Bug::IgnoresConditions) {
            return Ok(Some((name, 0)));
        }
        let look = key_range(self.inner.core.layout.key(&self.queue, &name));
        let answer = self.inner.core.ask(link, look, Operation::Leave, deadline).await?;
        Ok(answer.kvs.first().map(|kv| (name, kv.create_revision)))
    }

    /// Deletes it if it is the one that is meant, or else asks why it is gone.
    fn request(&self, name: &Name, created: i64) -> TxnRequest {
        let (core, layout) = (&self.inner.core, &self.inner.core.layout);
        let key = layout.key(&self.queue, name);
        let mark = delete(layout.broken(core.lease, name.slot, created));
        let mut success = vec![delete(key.clone())];
        let mut failure = vec![mark, key_range(layout.session(core.lease)).into()];
        if self.may_be_last(name) {
            let others = prefix_range(layout.queue(&self.queue));
            let others = RequestOp::from(RangeRequest { keys_only: true, limit: 1, ..others });
            success.push(others.clone());
            failure.push(others);
        }
        core.meant(vec![created_at(key, created)], success, failure)
    }

    fn judge(&self, answer: &TxnResponse) -> Result<Left, Failure> {
        let (why_gone, others) = match (answer.succeeded, &*answer.responses) {
            (true, [_, others @ ..]) => (None, others),
            (false, [mark, session, others @ ..]) => (Some((mark, session)), others),
            _ => return Err(Failure::unexpected()),
        };
        if others.first().and_then(|others| range_of(others).ok()).is_some_and(|others| others.kvs.is_empty()) {
            self.inner.begin_anew(&self.queue);
        }
        match why_gone {
            None => Ok(Left::Removed),
            Some((mark, session)) => reason(mark, session).map(Left::Gone).ok_or_else(Failure::unexpected),
        }
    }
}

/// The join has ended behind which this is asked, so that its segment is known.
fn name_of(claim: &ContenderClaim) -> Name {
    claim.name.in_segment(claim.joining.tail(Tail::default).segment)
}

/// Reads why a contender is gone from the answers to a deletion of the mark that it was broken, and to a look at the
/// session.
fn reason(mark: &ResponseOp, session: &ResponseOp) -> Option<LossReason> {
    match (&mark.response, &session.response) {
        (Some(OpResponse::DeleteRange(mark)), Some(OpResponse::Range(session))) => {
            Some(match (mark.deleted, session.kvs.is_empty()) {
                (1.., _) => LossReason::Broken,
                (_, true) => LossReason::Expired,
                (_, false) => LossReason::Removed,
            })
        }
        _ => None,
    }
}
