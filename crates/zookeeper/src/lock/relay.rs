//! Leaving a place and taking the next one in the same queue in one transaction: the server writes once to its disk for
//! both. A caller that gives a lock back and asks for it again at once waits for that alone.
//!
//! A deletion that is not written yet is taken back and goes along with the creation. If the transaction fails, nothing
//! of it has happened, and each of the two goes on by itself.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use lockkeeper_zk_proto::client::{RequestError, RequestId, WhyUnsent};
use lockkeeper_zk_proto::message::{ErrorCode, MultiOperation, MultiResult, OpCode, Request, Response};
use tokio::sync::oneshot;

use crate::error::ClientError;
use crate::link::{Answer, Outcome};
use crate::lock::inner::Inner;
use crate::lock::paths::QueuePath;
use crate::lock::wanted::Wanted;
use crate::lock::withdraw::Leaving;

/// The deletion that was asked for last; it is of use while it is unwritten.
#[derive(Debug, Default)]
pub(super) struct LastLeft {
    /// Weak, so that those who wait for it are told when the session's task is gone.
    last: Mutex<Option<(RequestId, Weak<Leaving>)>>,
}

impl LastLeft {
    /// Notes a deletion that was just asked for.
    pub(super) fn note(&self, id: RequestId, leaving: &Arc<Leaving>) {
        *self.lock() = Some((id, Arc::downgrade(leaving)));
    }

    /// Takes the last deletion, if it is one in this queue.
    fn take(&self, path: &QueuePath) -> Option<(RequestId, Arc<Leaving>)> {
        let (id, leaving) = self.lock().take()?;
        leaving.upgrade().filter(|leaving| leaving.place().path == *path).map(|leaving| (id, leaving))
    }

    /// No code panics while it is locked, so a panic elsewhere leaves it whole.
    fn lock(&self) -> MutexGuard<'_, Option<(RequestId, Weak<Leaving>)>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The creation of a transaction under way. It goes on when this is dropped.
pub(super) struct Relayed {
    answered: oneshot::Receiver<Answer>,
    time_max: Duration,
    inner: Arc<Inner>,
    path: Box<str>,
}

impl Relayed {
    /// Waits for the creation's answer, and no longer than one request may take.
    pub(super) async fn answer(self) -> Answer {
        let clock = self.inner.link.clock();
        tokio::select! {
            biased;
            answer = self.answered => {
                answer.unwrap_or_else(|_| Answer::none(ClientError::session_lost(OpCode::Multi, &self.path)))
            }
            () = clock.sleep_until(clock.now().saturating_add(self.time_max)) => {
                Answer::none(ClientError::unanswered_in_time(OpCode::Multi, &self.path))
            }
        }
    }
}

/// Sends the creation of a node along with the last deletion in the same queue, if that is not written yet.
pub(super) fn begin(inner: &Arc<Inner>, path: &QueuePath, wanted: &[Wanted]) -> Option<Relayed> {
    let [Wanted { anchor: None, create, .. }] = wanted else { return None };
    let (id, leaving) = inner.last_left.take(path)?;
    if !inner.link.take_back(id) {
        return None;
    }
    let delete = MultiOperation::Delete { path: leaving.place().on_server(), version: -1 };
    let request = Request::Multi(vec![delete, MultiOperation::Create2(create.clone())]);
    let (answer, answered) = oneshot::channel();
    let shown: Box<str> = path.shown().into();
    let (told, left) = (shown.clone(), leaving.clone());
    let on_reply = Box::new(move |outcome: Outcome| {
        let Outcome { epoch, zxid, result } = outcome;
        let (deletion, creation) = split(result);
        let result = creation.map_err(|error| ClientError::of_request(&error, OpCode::Multi, &told));
        // The caller may have given up: its ticket is looked for and withdrawn.
        let _ = answer.send(Answer { epoch, zxid, result });
        left.answered(deletion)
    });
    // Without a deadline, for the sake of the deletion.
    if inner.link.submit(&request, &shown, None, on_reply, None).is_err() {
        leaving.send(inner);
        return None;
    }
    Some(Relayed { answered, time_max: inner.link.operation_time_max(), inner: inner.clone(), path: shown })
}

/// Divides the answer of a transaction into that of the deletion and that of the creation.
fn split(result: Result<Response, RequestError>) -> (Result<(), RequestError>, Result<Response, RequestError>) {
    let results = match result {
        Ok(Response::Multi(results)) => results,
        Ok(_) => return (Err(undone()), Err(undone())),
        // A server may answer for the transaction alone, and then it is not known which of the two it refused.
        Err(RequestError::Refused(ErrorCode::NoNode)) => return (Err(undone()), Err(no_node())),
        Err(RequestError::Refused(code)) => return (Err(undone()), Err(RequestError::Refused(code))),
        Err(error) => return (Err(error.clone()), Err(error)),
    };
    let mut results = results.into_iter();
    match (results.next(), results.next()) {
        (Some(MultiResult::Delete), Some(created @ (MultiResult::Create { .. } | MultiResult::Create2 { .. }))) => {
            (Ok(()), Ok(Response::Multi(vec![created])))
        }
        // The place was removed before. The creation is sent again, by itself.
        (Some(MultiResult::Error(ErrorCode::NoNode)), _) => (Err(no_node()), Err(no_node())),
        (_, Some(MultiResult::Error(code))) if code != ErrorCode::RuntimeInconsistency => {
            (Err(undone()), Err(RequestError::Refused(code)))
        }
        (Some(MultiResult::Error(code)), _) => (Err(RequestError::Refused(code)), Err(no_node())),
        _ => (Err(undone()), Err(undone())),
    }
}

/// Nothing of the transaction has happened, so that it can be asked for again.
const fn undone() -> RequestError {
    RequestError::NotSent(WhyUnsent::Deadline)
}

const fn no_node() -> RequestError {
    RequestError::Refused(ErrorCode::NoNode)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn created() -> MultiResult {
        MultiResult::Create { path: "/a/b".to_owned() }
    }

    fn split_of(results: Vec<MultiResult>) -> (Result<(), RequestError>, Result<Response, RequestError>) {
        split(Ok(Response::Multi(results)))
    }

    #[test]
    fn both_are_told_when_the_transaction_is_done() {
        let (deletion, creation) = split_of(vec![MultiResult::Delete, created()]);
        assert_eq!(deletion, Ok(()));
        assert_eq!(creation, Ok(Response::Multi(vec![created()])));
    }

    #[test]
    fn a_place_that_was_removed_before_is_told_so_and_the_creation_is_sent_again() {
        let results = vec![MultiResult::Error(ErrorCode::NoNode), MultiResult::Error(ErrorCode::RuntimeInconsistency)];
        assert_eq!(split_of(results), (Err(no_node()), Err(no_node())));
    }

    #[test]
    fn a_creation_that_is_refused_keeps_the_deletion_from_nothing() {
        for refusal in [ErrorCode::NoAuth, ErrorCode::QuotaExceeded] {
            let results = vec![MultiResult::Error(ErrorCode::Ok), MultiResult::Error(refusal)];
            assert_eq!(split_of(results), (Err(undone()), Err(RequestError::Refused(refusal))));
            assert_eq!(
                split(Err(RequestError::Refused(refusal))),
                (Err(undone()), Err(RequestError::Refused(refusal)))
            );
        }
    }

    #[test]
    fn a_deletion_that_is_refused_keeps_the_creation_from_nothing() {
        let results = vec![MultiResult::Error(ErrorCode::NoAuth), MultiResult::Error(ErrorCode::RuntimeInconsistency)];
        assert_eq!(split_of(results), (Err(RequestError::Refused(ErrorCode::NoAuth)), Err(no_node())));
    }
}
