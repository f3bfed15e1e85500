//! Leaving: a deletion that goes on until it is certain.
//!
//! The first request leaves with the call; the session's own task does the rest, so that it makes no difference whether
//! a caller awaits the answer. It ends when the server says that the node is gone, or when the session is over and its
//! nodes with it. A node that was gone before, and a session that the service has ended, are reported as a loss.

use std::sync::Arc;

use lockkeeper_core::{
    Backoff, Error, ErrorKind, Liveness, LossReason, Operation, Part, QueueName, Result, Ticket, Withdrawal,
};
use lockkeeper_zk_proto::message::{ErrorCode, OpCode, ZkRequest, ZkResponse};
use tokio::sync::oneshot;

use crate::error::{ClientError, ClientErrorKind};
use crate::layout::find_ticket;
use crate::link::{ClientCall, RequestOutcome, Then};
use crate::lock::paths::QueuePath;
use crate::lock::place::{NodePlace, PlaceEnd, TicketEntry};
use crate::lock::prover::find_out;
use crate::lock::queue_data::QueueData;
use crate::lock::session_core::SessionCore;
use crate::lock::shared_list::ListFreshness;
use crate::lock::shared_list::ListShare;

/// From this sequence number on, a contender that leaves tries to delete the queue's node too, so that its counter
/// starts anew. The service refuses that while the queue has contenders.
const SEQUENCE_RENEWED: i32 = 1 << 30;

#[derive(Clone, Copy, Debug)]
pub(super) enum WithdrawalEnd {
    /// The node is gone, probably by our own deletion, or was never made.
    Left,
    /// It was removed before, not by us.
    WasGone(LossReason),
    /// The session is over, and the node with it.
    WithSession,
}

/// How a withdrawal ended, or why it goes on without its caller.
type WithdrawalOutcome = Result<WithdrawalEnd, ClientError>;

pub(super) fn begin(inner: &Arc<SessionCore>, queue: &QueueName, ticket: Ticket) -> Withdrawal {
    let entry = inner.places().take_from(queue, ticket);
    let (report, outlives_session) = match entry {
        None => return Withdrawal::done(Ok(())),
        Some(TicketEntry::Placed { place, is_standing, .. }) => {
            if is_standing {
                inner.link.remove_dependent();
            }
            (delete(inner, ticket, &place), place.outlives_session)
        }
        Some(TicketEntry::Joining { outlives_session, .. }) => match inner.path_of(queue) {
            Ok(path) => (search(inner, path, queue.part(), ticket, outlives_session), outlives_session),
            // Nothing can have been sent to a path that is not valid.
            Err(_) => return Withdrawal::done(Ok(())),
        },
    };
    Withdrawal::under_way(Box::pin(until_certain(report, inner.clone(), queue.clone(), !outlives_session)))
}

/// Starts to delete the node of a place that is being left. The first answer tells the waiters of this session how it
/// ended.
pub(super) fn delete(
    inner: &Arc<SessionCore>,
    ticket: Ticket,
    place: &Arc<NodePlace>,
) -> oneshot::Receiver<WithdrawalOutcome> {
    inner.places().leave(ticket, place.clone());
    let (sender, reported) = oneshot::channel();
    let (later, left) = (Arc::downgrade(inner), place.clone());
    // Nearly always this is all: the answer goes straight to the caller that waits for it.
    let on_reply = Box::new(move |outcome: RequestOutcome| {
        let inner = later.upgrade();
        if let Some(inner) = &inner {
            let end =
                if outcome.result.is_ok() { PlaceEnd::Deleted { epoch: outcome.epoch } } else { PlaceEnd::Unknown };
            inner.places().left(ticket, end);
        }
        if outcome.result.is_ok() && left.sequence < SEQUENCE_RENEWED {
            // The caller may have gone.
            let _ = sender.send(Ok(WithdrawalEnd::Left));
            return Then::Done;
        }
        let Some(inner) = inner else {
            // No caller waits any more, and the session is about to end.
            return Then::Done;
        };
        let first = outcome.result.map_err(|error| ClientError::of_request(&error, OpCode::Delete, left.path.shown()));
        Then::Chore(Box::pin(WithdrawalTask::of(inner, &left, sender).leave(left, first)))
    });
    let (node, shown) = (place.on_server(), place.path.shown());
    let submitted = if place.outlives_session {
        // Alone: put back after a transaction that was refused, it could come too late for a session that closes.
        inner.link.submit(&ZkRequest::Delete { path: node, version: -1 }, shown, on_reply, None)
    } else {
        inner.link.submit_deletion(&node, shown, on_reply)
    };
    if let Err(error) = submitted {
        inner.places().left(ticket, PlaceEnd::Unknown);
        let (sender, reported) = oneshot::channel();
        let leaving = WithdrawalTask::of(inner.clone(), place, sender);
        inner.link.adopt(Box::pin(leaving.leave(place.clone(), Err(error))));
        return reported;
    }
    reported
}

/// Deletes the queue's node, so that its counter starts anew; not if it holds a value. The service refuses that while
/// the queue has contenders; a later one will try again.
async fn renew(inner: &SessionCore, place: &NodePlace) {
    let path = place.path.on_server();
    let read = ZkRequest::GetData { path: path.clone(), watch: false };
    let Ok((data, stat)) = inner.link.call(&read, place.path.shown()).data().await else {
        return;
    };
    if QueueData::read(&data).value().is_none() {
        let request = ZkRequest::Delete { path, version: stat.version };
        let _ = inner.link.call(&request, place.path.shown()).response().await;
    }
}

fn search(
    inner: &Arc<SessionCore>,
    path: QueuePath,
    part: Part,
    ticket: Ticket,
    outlives_session: bool,
) -> oneshot::Receiver<WithdrawalOutcome> {
    // Behind the request that may have made it, on the same connection or after it on the next one.
    let first = inner.send_list(&path, part, ListFreshness::Synced);
    let (sender, reported) = oneshot::channel();
    let leaving =
        WithdrawalTask { inner: inner.clone(), path, sender: Some(sender), outlives_session, pauses: Backoff::LEAVING };
    inner.link.adopt(Box::pin(leaving.search(part, ticket, first)));
    reported
}

/// A withdrawal that goes on in the background, and tells its caller once how it went.
struct WithdrawalTask {
    inner: Arc<SessionCore>,
    path: QueuePath,
    sender: Option<oneshot::Sender<WithdrawalOutcome>>,
    /// Whether the node stays when the session ends.
    outlives_session: bool,
    pauses: Backoff,
}

impl WithdrawalTask {
    fn of(inner: Arc<SessionCore>, place: &NodePlace, sender: oneshot::Sender<WithdrawalOutcome>) -> Self {
        let (path, outlives_session) = (place.path.clone(), place.outlives_session);
        Self { inner, path, sender: Some(sender), outlives_session, pauses: Backoff::LEAVING }
    }

    /// Goes on with a deletion after its first answer.
    async fn leave(mut self, place: Arc<NodePlace>, first: Result<ZkResponse, ClientError>) {
        let ending = match first {
            // It was sent once, so we did not delete the node ourselves.
            Err(error) if error.is(ErrorCode::NoNode) => {
                WithdrawalEnd::WasGone(find_out(self.inner.clone(), &place).await)
            }
            first => self.delete_until_certain(&place.on_server(), first).await,
        };
        if place.sequence >= SEQUENCE_RENEWED {
            renew(&self.inner, &place).await;
        }
        self.tell(Ok(ending));
    }

    /// Lists until it is known whether there is a node with this ticket, and deletes it.
    async fn search(mut self, part: Part, ticket: Ticket, first: ListShare) {
        let mut look = first;
        let found = loop {
            match self.inner.look(&self.path, part, look).await {
                Ok(listing) => break find_ticket(listing.children.as_deref().unwrap_or_default(), ticket).cloned(),
                Err(error) => {
                    if !self.goes_on(error).await {
                        break None;
                    }
                }
            }
            look = self.inner.send_list(&self.path, part, ListFreshness::Synced);
        };
        if let Some(name) = found {
            let node = self.path.child_on_server(&name);
            let first = self.send_delete(&node).response().await;
            self.delete_until_certain(&node, first).await;
        }
        // No caller has believed in a node that was never answered, so nothing can be lost.
        self.tell(Ok(WithdrawalEnd::Left));
    }

    fn send_delete(&self, node: &str) -> ClientCall {
        let request = ZkRequest::Delete { path: node.to_owned(), version: -1 };
        self.inner.link.call_without_deadline(&request, self.path.shown())
    }

    /// Deletes until the node is gone, or the session is over and its nodes with it.
    async fn delete_until_certain(&mut self, node: &str, first: Result<ZkResponse, ClientError>) -> WithdrawalEnd {
        let mut outcome = first;
        loop {
            match outcome {
                Ok(_) => return WithdrawalEnd::Left,
                // The one before may have taken effect.
                Err(error) if error.is(ErrorCode::NoNode) => return WithdrawalEnd::Left,
                Err(error) => {
                    if !self.goes_on(error).await {
                        return WithdrawalEnd::WithSession;
                    }
                }
            }
            outcome = self.send_delete(node).response().await;
        }
    }

    /// Says whether to try again after a failure, when that makes sense. After a lost connection it tries again at
    /// once: the request waits for the next connection by itself.
    async fn goes_on(&mut self, error: ClientError) -> bool {
        match error.kind() {
            ClientErrorKind::ConnectionLost | ClientErrorKind::Deadline => true,
            ClientErrorKind::SessionLost if self.outlives_session => {
                self.tell(Err(error));
                false
            }
            ClientErrorKind::SessionLost => {
                // The node goes with the session; but that is certain only when the session is over.
                self.inner.link.until(|_| false).await;
                false
            }
            _ => {
                tracing::error!(target: "lockkeeper", %error, "a contender cannot leave its queue; trying again");
                // A caller that waits should not wait for an operator.
                self.tell(Err(error));
                self.pauses.rest(&*self.inner.link.clock).await;
                true
            }
        }
    }

    fn tell(&mut self, outcome: WithdrawalOutcome) {
        if let Some(sender) = self.sender.take() {
            // The caller may have gone.
            let _ = sender.send(outcome);
        }
    }
}

async fn until_certain(
    reported: oneshot::Receiver<WithdrawalOutcome>,
    inner: Arc<SessionCore>,
    queue: QueueName,
    ends_with_session: bool,
) -> Result<()> {
    // It is not known whether the session ended before the place was left or after, so no caller may rely on the
    // latter.
    let over = || match inner.link.bond.liveness() {
        Liveness::Lost(reason @ LossReason::Expired) => Err(inner.lost(reason, Operation::Leave, &queue)),
        _ => Ok(()),
    };
    match reported.await {
        Ok(Ok(WithdrawalEnd::Left)) => Ok(()),
        Ok(Ok(WithdrawalEnd::WasGone(reason))) => Err(inner.lost(reason, Operation::Leave, &queue)),
        Ok(Ok(WithdrawalEnd::WithSession)) => over(),
        Ok(Err(error)) => Err(error.into_core(Operation::Leave, None).at(&queue)),
        Err(_) if ends_with_session && inner.link.is_ended_by_service() => over(),
        Err(_) => {
            let message = match ends_with_session {
                true => "the session's task has ended and cannot tell the service; the place ends with its session",
                false => "the session's task has ended and cannot tell the service; the place stays until it is broken",
            };
            Err(Error::transient(ErrorKind::ConnectionLost, Operation::Leave, message).at(&queue))
        }
    }
}
