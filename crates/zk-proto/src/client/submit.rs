//! Requests of the application: accepted, put off, taken back.

use crate::client::event::{RequestId, SubmitError};
use crate::client::outbox::{Aside, Audience, Company, Open, RequestChange, SendRank, Unsent, parent_of};
use crate::client::session::ClientSession;
use crate::frame::{FrameError, build_frame};
use crate::message::{MultiOperation, OpCode, ZkRequest, encode_request};
use crate::time::Timestamp;
use crate::watch::WatchWish;

impl ClientSession {
    /// Submits a request. It goes out after all submitted before it, on this connection or a later one, and is told of
    /// by exactly one [`SessionEvent::Reply`](crate::client::SessionEvent::Reply).
    ///
    /// It waits while as much as may be is unanswered: [`IN_FLIGHT_MAX`](super::IN_FLIGHT_MAX) requests,
    /// [`IN_FLIGHT_BYTES_MAX`](super::IN_FLIGHT_BYTES_MAX) bytes.
    ///
    /// While it was not sent it stays in the queue over any number of connections, until `deadline`. Once sent it is
    /// never sent again, but for a list that deletions before it made untrue: see
    /// [`submit_deletion`](Self::submit_deletion).
    ///
    /// # Errors
    ///
    /// Fails, without any effect, if the request is one of the machine's own, too large, or one too many; so do the
    /// other ways to submit one.
    pub fn submit(&mut self, request: &ZkRequest, deadline: Option<Timestamp>) -> Result<RequestId, SubmitError> {
        self.enter(request, deadline, SendRank::InTurn, Company::Alone)
    }

    /// Submits a request as [`submit`](Self::submit) does. If it is a [`ZkRequest::Create2`] and next behind
    /// [deletions](Self::submit_deletion) that wait, it is part of their transaction, at most one a transaction: the
    /// server then writes once for all. Not if another creation below the same node waits behind it, or is unanswered
    /// in such a transaction: those below one node are made in the order in which they were submitted, also if a
    /// deletion is refused, and so one that comes later waits for the answer.
    ///
    /// It is answered as if it had been alone, but by servers that tell no `Stat` in transactions: those answer with a
    /// [`ZkResponse::Multi`](crate::message::ZkResponse::Multi) of its result. If a deletion is refused, it goes out
    /// once more, alone, before all later unsent requests, unless it was given up at its deadline.
    pub fn submit_creation(
        &mut self,
        request: &ZkRequest,
        deadline: Option<Timestamp>,
    ) -> Result<RequestId, SubmitError> {
        self.enter(request, deadline, SendRank::InTurn, Company::Deletions)
    }

    /// Submits a request that goes out before all unsent ones, however much is unanswered: for a
    /// write that proves the session in time under any load. At most [`QUEUED_AHEAD_MAX`](super::QUEUED_AHEAD_MAX) may
    /// wait this way.
    pub fn submit_ahead(&mut self, request: &ZkRequest, deadline: Option<Timestamp>) -> Result<RequestId, SubmitError> {
        self.enter(request, deadline, SendRank::Ahead, Company::Alone)
    }

    /// Submits a deletion of a node in any version, which goes out before all requests that were submitted and not
    /// sent, but for those of [`submit_ahead`](Self::submit_ahead).
    ///
    /// Deletions that wait together leave as one transaction, up to [`DELETIONS_MAX`](super::DELETIONS_MAX) of them.
    /// Each is answered as if it had been alone, and a list without a watch that was sent behind it shows none of them.
    pub fn submit_deletion(&mut self, path: &str) -> Result<RequestId, SubmitError> {
        self.enter(
            &ZkRequest::Delete { path: path.to_owned(), version: -1 },
            None,
            SendRank::Deletion,
            Company::Deletions,
        )
    }

    fn enter(
        &mut self,
        request: &ZkRequest,
        deadline: Option<Timestamp>,
        rank: SendRank,
        company: Company,
    ) -> Result<RequestId, SubmitError> {
        self.check_open()?;
        let opcode = request.opcode();
        if matches!(
            opcode,
            OpCode::Ping | OpCode::Auth | OpCode::SetWatches | OpCode::SetWatches2 | OpCode::CloseSession
        ) {
            return Err(SubmitError::NotSubmittable);
        }
        let frame = encode_request(0, request, self.config.frame_bytes_max).map_err(SubmitError::TooLarge)?;
        if self.outbox.is_full_for(frame.len(), rank) {
            return Err(SubmitError::QueueFull);
        }
        let id = self.mint_id();
        let aside = match (WatchWish::of(request), request) {
            (Some((wish, path)), _) => {
                if let Err(error) = check_restorable(path, self.config.frame_bytes_max) {
                    return Err(SubmitError::TooLarge(error));
                }
                self.watches.ask(id.watch(), wish, path).map_err(|_| SubmitError::TooMany)?;
                Aside::Watch
            }
            (None, ZkRequest::RemoveWatches { path, kind }) => {
                Aside::Removal { path: path.clone(), kind: *kind, audience: Audience::Caller }
            }
            (None, _) => Aside::Nothing,
        };
        self.deadlines.extend(deadline.map(|deadline| (deadline, id)));
        let lists = match request {
            ZkRequest::GetChildren { path, .. } | ZkRequest::GetChildren2 { path, .. } => Some(path.as_str().into()),
            _ => None,
        };
        let change = change_of(request, company);
        let open = Open { opcode, deadline, aside, lists, is_outdated: false };
        self.outbox.push(id, Unsent { frame, open, change }, rank);
        Ok(id)
    }

    /// Puts requests that were not sent behind all others, in the order given and with another deadline; answers
    /// whether none of them was sent. Otherwise nothing changes.
    ///
    /// Not while the session is being closed, for nothing is sent behind that.
    pub fn postpone_all(&mut self, ids: &[RequestId], deadline: Option<Timestamp>) -> bool {
        if self.check_open().is_err() || !self.outbox.has_all(ids) {
            return false;
        }
        for &id in ids {
            let Some(mut unsent) = self.outbox.remove(id) else {
                continue;
            };
            let before = std::mem::replace(&mut unsent.open.deadline, deadline);
            self.forget_deadline(before, id);
            self.deadlines.extend(deadline.map(|deadline| (deadline, id)));
            self.outbox.push(id, unsent, SendRank::InTurn);
        }
        true
    }

    /// Takes back a request that was not sent; returns whether it did. It then has no reply.
    pub fn cancel(&mut self, id: RequestId) -> bool {
        let Some(unsent) = self.outbox.remove(id) else {
            return false;
        };
        self.forget_deadline(unsent.open.deadline, id);
        if matches!(unsent.open.aside, Aside::Watch) {
            self.watches.forget(id.watch());
        }
        true
    }
}

/// What the request to set watches again takes beside the paths, in bytes; generously.
const RESTORE_OVERHEAD_BYTES: usize = 64;

/// Refuses a path that could be watched but not watched again after a reconnect.
fn check_restorable(path: &str, frame_bytes_max: usize) -> Result<(), FrameError> {
    build_frame(frame_bytes_max.saturating_sub(RESTORE_OVERHEAD_BYTES), |writer| writer.string(path)).map(|_| ())
}

/// Reads what a request changes. Of a transaction that makes nodes, all are made below one.
fn change_of(request: &ZkRequest, company: Company) -> RequestChange {
    let makes = |path: &str, company| RequestChange::Makes { below: parent_of(path).into(), company };
    match request {
        ZkRequest::Delete { path, .. } if company == Company::Deletions => RequestChange::Deletes(path.as_str().into()),
        ZkRequest::Create2(create) => makes(&create.path, company),
        ZkRequest::Create(create) => makes(&create.path, Company::Alone),
        ZkRequest::Multi(operations) => {
            let made = operations.iter().find_map(|operation| match operation {
                MultiOperation::Create(create) | MultiOperation::Create2(create) => Some(create.path.as_str()),
                _ => None,
            });
            made.map_or(RequestChange::Other, |path| makes(path, Company::Alone))
        }
        _ => RequestChange::Other,
    }
}
