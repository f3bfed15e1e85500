//! Leaving a place and taking the next one in the same queue in one transaction: the server writes once to its disk for
//! both. A caller that gives a lock back and asks for it again at once waits for that alone.
//!
//! A deletion after which nothing was asked for, and which is not written yet, goes along with the creation: the
//! transaction takes its turn, so no request passes another. If it fails, nothing of it has happened, and each of the
//! two goes on by itself, as it would have alone.

use std::sync::Arc;

use lockkeeper_zk_proto::client::{RequestError, WhyUnsent};
use lockkeeper_zk_proto::message::{ErrorCode, MultiOperation, MultiResult, OpCode, Request, Response};
use tokio::sync::oneshot;

use crate::link::{Call, OnReply, Outcome};
use crate::lock::inner::Inner;
use crate::lock::paths::QueuePath;
use crate::lock::wanted::Wanted;

/// Sends the creation of a node along with the deletion that was asked for last, if that is one in the same queue and
/// is not written yet. For the sake of the deletion it goes on when its call is dropped.
pub(super) fn begin(inner: &Arc<Inner>, path: &QueuePath, wanted: &[Wanted]) -> Option<Call> {
    let [Wanted { anchor: None, create, .. }] = wanted else { return None };
    let (deletion, left) = inner.places().last_left.take().filter(|(_, left)| left.path == *path)?;
    let delete = MultiOperation::Delete { path: left.on_server(), version: -1 };
    let request = Request::Multi(vec![delete, MultiOperation::Create2(create.clone())]);
    let (answer, answered) = oneshot::channel();
    let divide = |on_deleted: OnReply| -> OnReply {
        Box::new(move |Outcome { epoch, zxid, result }| {
            let (deletion, creation) = split(result);
            // The caller may have given up: its ticket is looked for and withdrawn.
            let _ = answer.send(Outcome { epoch, zxid, result: creation });
            on_deleted(Outcome { epoch, zxid, result: deletion })
        })
    };
    let is_sent = inner.link.submit_instead(deletion, &request, path.shown(), divide);
    is_sent.then(|| Call::under_way(inner.link.clone(), answered, OpCode::Multi, path.shown()))
}

/// The end of one operation, told as that of a request.
type Ended = Result<Response, RequestError>;

/// Divides the end of a transaction into that of the deletion and that of the creation.
fn split(result: Ended) -> (Ended, Ended) {
    let results = match result {
        Ok(Response::Multi(results)) => results,
        Ok(unexpected) => return (Err(undone()), Ok(unexpected)),
        // A server may answer for the transaction alone, and then it is not known which of the two it refused.
        Err(RequestError::Refused(code)) => return (Err(undone()), Err(RequestError::Refused(code))),
        Err(error) => return (Err(error.clone()), Err(error)),
    };
    let mut results = results.into_iter();
    match (results.next(), results.next()) {
        (Some(MultiResult::Delete), Some(created @ (MultiResult::Create { .. } | MultiResult::Create2 { .. }))) => {
            (Ok(Response::Done), Ok(Response::Multi(vec![created])))
        }
        (Some(MultiResult::Error(ErrorCode::Ok)), Some(MultiResult::Error(code))) => {
            (Err(undone()), Err(RequestError::Refused(code)))
        }
        // Of the creation nothing is said. That the queue is not there is what a join expects and begins anew after.
        (Some(MultiResult::Error(code)), _) => {
            (Err(RequestError::Refused(code)), Err(RequestError::Refused(ErrorCode::NoNode)))
        }
        (_, rest) => (Err(undone()), Ok(Response::Multi(rest.into_iter().collect()))),
    }
}

/// Nothing of the transaction has happened, so that it can be asked for again.
const fn undone() -> RequestError {
    RequestError::NotSent(WhyUnsent::Deadline)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn created() -> MultiResult {
        MultiResult::Create { path: "/a/b".to_owned() }
    }

    fn split_of(results: Vec<MultiResult>) -> (Ended, Ended) {
        split(Ok(Response::Multi(results)))
    }

    fn refused(code: ErrorCode) -> Ended {
        Err(RequestError::Refused(code))
    }

    #[test]
    fn both_are_told_when_the_transaction_is_done() {
        let (deletion, creation) = split_of(vec![MultiResult::Delete, created()]);
        assert_eq!(deletion, Ok(Response::Done));
        assert_eq!(creation, Ok(Response::Multi(vec![created()])));
    }

    #[test]
    fn a_place_that_was_removed_before_is_told_so_and_the_creation_is_begun_anew() {
        let results = vec![MultiResult::Error(ErrorCode::NoNode), MultiResult::Error(ErrorCode::RuntimeInconsistency)];
        assert_eq!(split_of(results), (refused(ErrorCode::NoNode), refused(ErrorCode::NoNode)));
    }

    #[test]
    fn a_creation_that_is_refused_keeps_the_deletion_from_nothing() {
        for refusal in [ErrorCode::NoAuth, ErrorCode::QuotaExceeded, ErrorCode::NoNode] {
            let results = vec![MultiResult::Error(ErrorCode::Ok), MultiResult::Error(refusal)];
            assert_eq!(split_of(results), (Err(undone()), refused(refusal)));
            assert_eq!(split(refused(refusal)), (Err(undone()), refused(refusal)));
        }
    }

    #[test]
    fn a_deletion_that_is_refused_keeps_the_creation_from_nothing() {
        let results = vec![MultiResult::Error(ErrorCode::NoAuth), MultiResult::Error(ErrorCode::RuntimeInconsistency)];
        assert_eq!(split_of(results), (refused(ErrorCode::NoAuth), refused(ErrorCode::NoNode)));
    }

    #[test]
    fn neither_is_told_that_it_is_done_when_the_outcome_is_unknown() {
        let lost = || RequestError::NotSent(WhyUnsent::Deadline);
        assert_eq!(split(Err(lost())), (Err(lost()), Err(lost())));
        for unexpected in [vec![], vec![MultiResult::Delete], vec![created(), MultiResult::Delete]] {
            let (deletion, creation) = split_of(unexpected);
            assert_eq!(deletion, Err(undone()));
            // The join reads fewer nodes there than it has asked for.
            assert!(!matches!(creation, Ok(Response::Multi(results)) if results == [created()]));
        }
    }
}
