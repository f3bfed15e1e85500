//! Until when a place may be believed: the write that proves a session, and the wait until one has succeeded.

use std::sync::Arc;

use lockkeeper_core::{LossReason, Operation, Result};
use lockkeeper_zk_proto::message::{ErrorCode, MultiOperation, MultiResult, Request, Response};

use crate::error::{ClientError, ClientErrorKind};
use crate::lock::inner::Inner;
use crate::lock::place::Place;

/// Waits until the session may be believed for about half of its timeout, so that a grant is worth something. As a rule
/// that is at once, since the write that made a node proves as much as any other. After a stall of this process it
/// takes a new connection and another write.
pub(super) async fn until_believable(inner: &Inner, place: &Arc<Place>, operation: Operation) -> Result<()> {
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
async fn prove(inner: &Inner, place: &Arc<Place>) -> (u64, Result<(), ClientError>) {
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
pub(super) fn proof_request(place: &Place) -> Request {
    Request::Multi(vec![MultiOperation::Check { path: place.on_server(), version: -1 }])
}

/// Whether the answer to a proof write says that the node is gone. That write has proved the session too.
pub(super) fn finds_node_gone(response: &Result<Response, ClientError>) -> bool {
    match response {
        Ok(Response::Multi(results)) => {
            results.iter().any(|result| matches!(result, MultiResult::Error(ErrorCode::NoNode)))
        }
        Ok(_) => false,
        Err(error) => error.is(ErrorCode::NoNode),
    }
}
