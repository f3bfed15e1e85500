//! Proofs of the session while a contender of ours stands in a queue: the write that proves it, and the wait until one
//! has succeeded; besides, the watches on our own nodes, and the reason why one of these is gone.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{LossReason, Operation, Result};
use lockkeeper_session::{WATCH_AFTER, holding_interval, or_never};
use lockkeeper_zk_proto::client::RequestError;
use lockkeeper_zk_proto::message::{
    ErrorCode, MultiOperation, MultiResult, OpCode, WatchEventKind, ZkRequest, ZkResponse,
};

use crate::error::{ClientError, ClientErrorKind};
use crate::link::{Happening, RequestOutcome, Then};
use crate::lock::owner;
use crate::lock::place::{NodePlace, Occupation};
use crate::lock::queue_data::QueueData;
use crate::lock::session_core::{LOOK_ATTEMPTS_MAX, SessionCore};

/// A waiter proves its session once in this part of the timeout, and sooner when less would be left than a grant should
/// be worth, so that it can be granted at any moment without another write.
const WAITING_DIVISOR: u32 = 4;

/// Between two proofs at least this part of the timeout passes.
const REST_DIVISOR: u32 = 10;

/// How much earlier than needed a proof is sent, as a part of the timeout: room for its way there and back.
const LEAD_DIVISOR: u32 = 20;

pub(super) struct Prover {
    inner: Arc<SessionCore>,
    /// Counts proofs, so that the places take turns.
    turn: u64,
    /// When the last proof was sent.
    sent_at: Option<BootInstant>,
    is_outstanding: Arc<AtomicBool>,
}

impl Prover {
    pub(super) fn new(inner: Arc<SessionCore>) -> Self {
        Self { inner, turn: 0, sent_at: None, is_outstanding: Arc::default() }
    }

    /// Runs until the session is lost. A session that could not be proved in time is given up: nothing of it may stay
    /// behind.
    pub(super) async fn run(mut self) {
        let inner = self.inner.clone();
        let mut status = inner.link.status();
        let lost = inner.link.bond.lost();
        tokio::pin!(lost);
        let reason = loop {
            // A place that joins from here on finds that no wake-up is set, and wakes us.
            inner.prover_sleeps_until(None);
            let now = inner.link.clock.now();
            let watch_due = self.watch_those_due(now);
            let proof_due = self.prove_if_due(now);
            let next = [watch_due, proof_due].into_iter().flatten().min();
            inner.prover_sleeps_until(next);
            let sleep = or_never(next.map(|next| inner.link.clock.sleep_until(next)));
            tokio::select! {
                biased;
                reason = &mut lost => break reason,
                () = inner.kick.notified() => {}
                // The sender lives in the link that we hold. Proofs of the previous connection say nothing of this one.
                _ = status.changed() => self.sent_at = None,
                () = sleep => {}
            }
        };
        if reason == LossReason::Lapsed {
            inner.link.abandon();
            inner.places().forsake();
        }
    }

    /// Sets the watches that are due; returns when the next one is.
    fn watch_those_due(&self, now: BootInstant) -> Option<BootInstant> {
        loop {
            let place = {
                let mut places = self.inner.places();
                let due = places.unwatched.front()?.placed_at.saturating_add(WATCH_AFTER);
                let is_settled = |place: &NodePlace| !place.bond.stands() || place.is_watched.load(Ordering::Acquire);
                if due > now && !places.unwatched.front().is_some_and(|place| is_settled(place)) {
                    return Some(due);
                }
                places.unwatched.pop_front()?
            };
            if place.bond.is_unexplained() {
                explain(&self.inner, place);
            } else if place.bond.stands() {
                watch_own(&self.inner, &place);
            }
        }
    }

    /// Sends a proof if one is due; returns when the next one is.
    fn prove_if_due(&mut self, now: BootInstant) -> Option<BootInstant> {
        let occupation = self.inner.places().occupation();
        let Some(occupation) = occupation else {
            // A place is just leaving, if the session may not rest yet.
            return (!self.inner.link.rest()).then(|| now.saturating_add(WATCH_AFTER));
        };
        if !self.inner.link.status_now().phase.is_online() || self.is_outstanding.load(Ordering::Acquire) {
            // A change of either wakes us.
            return None;
        }
        let due = self.due(occupation, now);
        if due > now {
            return Some(due);
        }
        let place = self.inner.places().any(self.turn)?;
        self.turn = self.turn.wrapping_add(1);
        self.sent_at = Some(now);
        self.send(&place, now);
        None
    }

    fn due(&self, occupation: Occupation, now: BootInstant) -> BootInstant {
        let link = &self.inner.link;
        let timeout = link.timeout();
        let interval = match occupation {
            Occupation::Holding => holding_interval(timeout),
            Occupation::Waiting => timeout / WAITING_DIVISOR,
        };
        // Every write that reached the quorum is as good as a proof.
        let Some(last) = link.last_write_at().max(self.sent_at) else {
            return now;
        };
        let needed = match link.safe_until() {
            Some(until) => until.saturating_sub(link.worth_granting() + timeout / LEAD_DIVISOR),
            None => now,
        };
        last.saturating_add(interval).min(needed.max(last.saturating_add(timeout / REST_DIVISOR)))
    }

    fn send(&self, place: &Arc<NodePlace>, now: BootInstant) {
        self.is_outstanding.store(true, Ordering::Release);
        let (outstanding, later) = (self.is_outstanding.clone(), Arc::downgrade(&self.inner));
        let (place, path) = (place.clone(), place.path.shown().to_owned());
        let request = proof_request(&place);
        let on_reply = {
            let outstanding = outstanding.clone();
            Box::new(move |outcome: RequestOutcome| {
                outstanding.store(false, Ordering::Release);
                let result = outcome.result.map_err(|error| ClientError::of_request(&error, OpCode::Multi, &path));
                if result.is_ok() {
                    place.bond.session().note_proof(now);
                }
                if finds_node_gone(&result) {
                    found_gone(&later, &place);
                }
                if let Some(inner) = later.upgrade() {
                    inner.wake_prover();
                }
                Then::Done
            })
        };
        if self.inner.link.submit_ahead(&request, "", on_reply).is_err() {
            // Full, or over: the next look finds out.
            outstanding.store(false, Ordering::Release);
        }
    }
}

/// Sets the watch on our own node unless it is set. Its removal must be known before that of the contender ahead, so it
/// is noted where it arrives. A change of its data is no removal; it may be a request to give up.
pub(super) fn watch_own(inner: &Arc<SessionCore>, place: &Arc<NodePlace>) {
    if place.is_watched.swap(true, Ordering::AcqRel) {
        return;
    }
    let request = ZkRequest::GetData { path: place.on_server(), watch: true };
    let (replied, fired) = (place.clone(), place.clone());
    let (later, later_still) = (Arc::downgrade(inner), Arc::downgrade(inner));
    let on_reply = Box::new(move |outcome: RequestOutcome| {
        let is_answered = matches!(outcome.result, Ok(_) | Err(RequestError::Refused(_)));
        let guarded = replied.clone();
        match outcome.result {
            Ok(ZkResponse::GetData { data, .. }) => note_revocation(&replied, data.as_deref()),
            Err(RequestError::Refused(ErrorCode::NoNode)) => found_gone(&later, &replied),
            // We may not read it: proofs still find out, in their turn.
            Ok(_) | Err(RequestError::Refused(_)) => {}
            Err(_) => watch_again(&later, replied),
        }
        if is_answered {
            // After what the answer says of our own node was noted. An earlier watch may have been answered too.
            let _ = guarded.is_guarded.set(true);
        }
        Then::Done
    });
    let on_fire = Box::new(move |happening: Happening| match happening.kind {
        WatchEventKind::NodeDeleted => found_gone(&later_still, &fired),
        _ => watch_again(&later_still, fired),
    });
    let submitted = inner.link.submit(&request, place.path.shown(), on_reply, Some(on_fire));
    if submitted.is_err() {
        place.is_watched.store(false, Ordering::Release);
        let _ = place.is_guarded.set(false);
    }
}

/// Has the prover set a watch again, since the service cannot be asked where answers arrive.
fn watch_again(later: &Weak<SessionCore>, place: Arc<NodePlace>) {
    place.is_watched.store(false, Ordering::Release);
    if let Some(inner) = later.upgrade() {
        inner.look_after(place);
    }
}

fn found_gone(later: &Weak<SessionCore>, place: &Arc<NodePlace>) {
    match later.upgrade() {
        Some(inner) => inner.found_gone(place),
        None => {
            place.bond.remove();
        }
    }
}

fn note_revocation(place: &NodePlace, data: Option<&[u8]>) {
    if let Some(revocation) = data.and_then(owner::read_request)
        && place.bond.revoke(revocation)
    {
        tracing::debug!(
            target: "lockkeeper", lock = %place.queue, contender = %place.id, "a revoke asks us to give up the lock"
        );
    }
}

/// Waits until the session may be believed for about half of its timeout, so that a grant is worth something. As a rule
/// that is at once, since the write that made a node proves as much as any other. After a stall of this process it
/// takes a new connection and another write.
pub(super) async fn until_believable(inner: &SessionCore, place: &Arc<NodePlace>, operation: Operation) -> Result<()> {
    let clock = &inner.link.clock;
    let timeout = inner.link.timeout();
    let give_up_at = clock.now().saturating_add(timeout);
    if inner.safe_for() >= inner.link.worth_granting() {
        return Ok(());
    }
    // A proof is valid for all places: thousands that wait for one send one write together, not one each.
    let _turn = inner.proving.lock().await;
    loop {
        if inner.safe_for() >= inner.link.worth_granting() {
            return Ok(());
        }
        let (epoch, outcome) = prove(inner, place).await;
        let is_answered = outcome.is_ok();
        if inner.safe_for() >= inner.link.worth_granting() {
            return Ok(());
        }
        if let Err(error) = outcome
            && error.kind() == ClientErrorKind::SessionLost
        {
            return Err(inner.fail(error, operation, &place.queue));
        }
        if !place.bond.stands() || clock.now() >= give_up_at {
            return match inner.safe_for().is_zero() {
                true => Err(inner.lost(LossReason::Lapsed, operation, &place.queue)),
                false => Ok(()),
            };
        }
        if is_answered && inner.link.renew(epoch) {
            continue;
        }
        // The answer of just now is proved by a write that is sent a little later.
        clock.sleep_until(clock.now().saturating_add(timeout / 20)).await;
    }
}

/// Sends a write that goes through the quorum and changes nothing, and waits for its answer; returns the connection on
/// which the answer came.
async fn prove(inner: &SessionCore, place: &Arc<NodePlace>) -> (u64, Result<(), ClientError>) {
    let sent_at = inner.link.clock.now();
    let answer = inner.link.call_ahead(&proof_request(place), place.path.shown()).await;
    if answer.result.is_ok() {
        inner.link.bond.note_proof(sent_at);
    }
    if finds_node_gone(&answer.result) {
        inner.found_gone(place);
    }
    (answer.epoch, answer.result.map(|_| ()))
}

/// The proof write: a transaction that only checks that a node of ours is there.
fn proof_request(place: &NodePlace) -> ZkRequest {
    ZkRequest::Multi(vec![MultiOperation::Check { path: place.on_server(), version: -1 }])
}

/// Whether the answer to a proof write says that the node is gone. That write has proved the session too.
fn finds_node_gone(response: &Result<ZkResponse, ClientError>) -> bool {
    match response {
        Ok(ZkResponse::Multi(results)) => {
            results.iter().any(|result| matches!(result, MultiResult::Error(ErrorCode::NoNode)))
        }
        Ok(_) => false,
        Err(error) => error.is(ErrorCode::NoNode),
    }
}

/// Starts to find out why the node of a place is gone.
///
/// The answer comes after a sync, and so when it is known whether the session has outlived the node: when the service
/// ends a session, its nodes' watches fire first, and only then is the connection closed.
fn explain(inner: &Arc<SessionCore>, place: Arc<NodePlace>) {
    let chore_inner = inner.clone();
    inner.link.adopt(Box::pin(async move {
        let reason = find_out(chore_inner, &place).await;
        place.bond.explain(reason);
    }));
}

/// Finds out why the node of a place is gone that we did not delete.
pub(super) async fn find_out(inner: Arc<SessionCore>, place: &NodePlace) -> LossReason {
    let path = place.path.line_on_server();
    for _ in 0..LOOK_ATTEMPTS_MAX {
        let read = ZkRequest::GetData { path: path.clone(), watch: false };
        let read = inner.link.call_synced(&path, &read, place.path.shown());
        match read.data().await {
            Ok((data, _)) if QueueData::read(&data).is_broken(place.id.as_str()) => return LossReason::Broken,
            Err(error) if error.kind() == ClientErrorKind::ConnectionLost => {}
            // No note, no node, or no right to read it.
            Ok(_) | Err(_) => return LossReason::Removed,
        }
    }
    LossReason::Removed
}
