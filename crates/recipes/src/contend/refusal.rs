//! The errors when a place cannot be taken or kept.

use lockkeeper_core::{
    Error, ErrorKind, Liveness, LivenessAt, LossReason, Mode, Modes, Operation, QueueName, Result, Standing,
};

use crate::shared::Shared;

/// A grant counts only if the place stands at the moment of the grant, however long the wait took.
pub(crate) fn check_standing(queue: &QueueName, standing: &dyn Standing) -> Result<()> {
    match standing.liveness(LivenessAt::Now) {
        Liveness::Held { .. } | Liveness::Jeopardy { .. } => Ok(()),
        Liveness::Lost(reason) => Err(loss(queue, reason)),
    }
}

/// Checks that a place stands; if it is lost, waits until its backend knows why, which decides whether to join again.
pub(crate) async fn check_with_reason(queue: &QueueName, standing: &dyn Standing) -> Result<()> {
    if standing.liveness(LivenessAt::Now).is_held() {
        return Ok(());
    }
    Err(loss(queue, standing.lost().await))
}

fn loss(queue: &QueueName, reason: LossReason) -> Error {
    match reason {
        LossReason::Removed | LossReason::Broken => removed(queue),
        LossReason::Closed => Error::permanent(ErrorKind::Closed, Operation::Wait, reason.to_string()).at(queue),
        _ => Error::transient(ErrorKind::Lost(reason), Operation::Wait, reason.to_string()).at(queue),
    }
}

pub(crate) fn removed(queue: &QueueName) -> Error {
    let message = "our contender was removed from the queue";
    Error::permanent(ErrorKind::Removed, Operation::Wait, message).at(queue)
}

pub(crate) fn kind_mismatch(queue: &QueueName, asked: Mode, found: Mode) -> Error {
    let message = format!("in use as {}, which is another kind of lock than {}", kind_of(found), kind_of(asked));
    Error::permanent(ErrorKind::KindMismatch, Operation::Join, message).at(queue)
}

/// Returns the error for a kind of lock that the service has no place for.
pub(crate) fn not_carried(shared: &Shared, queue: &QueueName, modes: Modes) -> Error {
    let (service, carried) = (shared.backend.service(), shared.backend.capabilities().modes);
    let message = format!("{service} does not carry {modes}; it carries {carried}");
    Error::permanent(ErrorKind::Unsupported, Operation::Configure, message).at(queue)
}

/// Names the kind of lock that a contender of this mode asks for.
const fn kind_of(mode: Mode) -> &'static str {
    match mode {
        Mode::Mutex => "a mutex",
        Mode::Read | Mode::Write => "a read/write lock",
        Mode::Exclusive => "a mutex or a read/write lock",
        Mode::Acquire | Mode::Permit => "a semaphore",
        Mode::Candidate => "an election",
        Mode::Member => "a barrier",
    }
}

/// Returns the error for a time that was up before the service answered, with the connection's trouble as its cause, if
/// known.
pub(crate) fn unanswered(shared: &Shared) -> Error {
    let message = format!("{} has not answered in time", shared.backend.service());
    let error = Error::transient(ErrorKind::ConnectionLost, Operation::Join, message);
    match shared.backend.trouble() {
        Some(trouble) => error.caused_by(trouble),
        None => error,
    }
}

/// Returns the error for a request that can never be granted.
pub(crate) fn refused(queue: &QueueName, message: impl Into<String>) -> Error {
    Error::permanent(ErrorKind::InvalidRequest, Operation::Join, message).at(queue)
}

/// Returns the error for a hold that was lost before it was given back.
pub(crate) fn lost_error(queue: &QueueName, reason: LossReason) -> Error {
    Error::ask_again(ErrorKind::Lost(reason), Operation::Leave, format!("the lock was lost: {reason}")).at(queue)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use lockkeeper_core::clock::TestClock;
    use lockkeeper_core::{Advice, BoxFuture, PlaceBond};

    use super::*;
    use crate::contend::line::{JoinedPlace, OnePlace};
    use crate::keeper::memory::MemoryService;

    /// Why a contender is gone, its backend finds out after this time.
    const FOUND_OUT_AFTER: Duration = Duration::from_millis(100);

    /// A place whose contender is gone.
    #[derive(Debug)]
    struct Gone(Arc<PlaceBond>);

    impl Standing for Gone {
        fn liveness(&self, _at: LivenessAt) -> Liveness {
            self.0.liveness()
        }

        fn lost(&self) -> BoxFuture<LossReason> {
            let bond = self.0.clone();
            Box::pin(async move { bond.lost().await })
        }
    }

    /// However a caller goes on with a place that was removed just when its turn came, it is refused.
    #[tokio::test(start_paused = true)]
    async fn a_contender_that_is_removed_as_its_turn_comes_is_refused_once_it_is_known_why_it_is_gone() {
        let keeper = MemoryService::new(Arc::new(TestClock::new())).keeper();
        let (shared, queue) = (keeper.shared.clone(), QueueName::new("door").unwrap());
        let removed = async || -> JoinedPlace {
            let place = OnePlace::new(&queue, Mode::Mutex, lockkeeper_core::Caller::default());
            let session = shared.session().await.unwrap();
            let bond = Arc::new(PlaceBond::new(session.bond().clone()));
            let mut joined = place.join(&shared, session).await.unwrap();
            joined.granted.grant.standing = Arc::new(Gone(bond.clone()));
            assert!(bond.remove());
            tokio::spawn(async move {
                tokio::time::sleep(FOUND_OUT_AFTER).await;
                bond.explain(LossReason::Removed);
            });
            joined
        };
        assert!(!removed().await.is_granted_by_join().unwrap());
        let refusals = [
            removed().await.wait(&shared).await.map(drop).unwrap_err(),
            removed().await.granted_at_once().await.map(drop).unwrap_err(),
        ];
        for refusal in refusals {
            assert_eq!((refusal.kind(), refusal.advice()), (ErrorKind::Removed, Advice::Permanent), "{refusal}");
        }
    }
}
