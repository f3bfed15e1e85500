//! What a place grants: until when it may be believed, and what ends it.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::{BoxFuture, Liveness, LossReason, Revocation, SessionBond, Standing};

use crate::queue::inner::Inner;
use crate::queue::place::{Fate, Place};

/// How long a loss is kept back at most until it is known whether the session went with the contender.
const REASON_TIME_MAX: Duration = Duration::from_millis(500);

/// What is told of a contender that is gone while nothing says why. Most often the session went with it, and its owner
/// may join again; that it was removed would be final, and is told only once it is known.
const UNEXPLAINED: LossReason = LossReason::Lapsed;

/// What may be believed of a place, by what is known of the session and of its contender. A session that is lost says
/// more than what became of a contender of it.
const fn believed(session: Liveness, fate: Fate) -> Liveness {
    match (session, fate) {
        (Liveness::Lost(_), _) | (_, Fate::Stands) => session,
        (_, Fate::Gone) => Liveness::Lost(UNEXPLAINED),
        (_, Fate::GoneFor(reason)) => Liveness::Lost(reason),
    }
}

/// What may be believed of one place: as much as of its session, while its key is there.
#[derive(Debug)]
pub(super) struct PlaceStanding {
    inner: Arc<Inner>,
    place: Arc<Place>,
}

impl PlaceStanding {
    pub(super) fn new(inner: Arc<Inner>, place: Arc<Place>) -> Self {
        Self { inner, place }
    }
}

impl Standing for PlaceStanding {
    fn bond(&self) -> &SessionBond {
        self.inner.core.bond()
    }

    fn liveness(&self) -> Liveness {
        believed(self.bond().liveness(), self.place.fate())
    }

    fn lost(&self) -> BoxFuture<LossReason> {
        let (inner, place) = (self.inner.clone(), self.place.clone());
        Box::pin(async move {
            let (bond, clock) = (inner.core.bond(), &inner.core.clock);
            tokio::select! {
                biased;
                reason = bond.lost() => return reason,
                () = place.removal() => {}
            }
            tokio::select! {
                biased;
                () = inner.until_explained(&place) => {}
                () = clock.sleep_until(clock.now().saturating_add(REASON_TIME_MAX)) => {}
            }
            match believed(bond.liveness(), place.fate()) {
                Liveness::Lost(reason) => reason,
                // A contender that is gone does not come back.
                Liveness::Held { .. } | Liveness::Jeopardy { .. } => UNEXPLAINED,
            }
        })
    }

    fn revoked(&self) -> BoxFuture<Revocation> {
        let (inner, place) = (self.inner.clone(), self.place.clone());
        Box::pin(async move {
            // Most holders never ask for it, and then nothing is read for them.
            inner.watch_now(&place);
            place.revoked().await
        })
    }
}

#[cfg(test)]
mod tests {
    use lockkeeper_core::SafeUntil;
    use lockkeeper_core::clock::BootInstant;

    use super::*;

    const SAFE_UNTIL: SafeUntil = SafeUntil::At(BootInstant::from_nanos(1));
    const HELD: Liveness = Liveness::Held { safe_until: SAFE_UNTIL };
    const JEOPARDY: Liveness = Liveness::Jeopardy { safe_until: SAFE_UNTIL };

    /// Both are told in any order, with a lost connection in between.
    #[test]
    fn a_contender_that_went_with_its_session_is_never_told_to_be_removed() {
        let expired = Liveness::Lost(LossReason::Expired);
        for session in [HELD, JEOPARDY] {
            assert_eq!(believed(session, Fate::Stands), session);
            assert_eq!(believed(session, Fate::Gone), Liveness::Lost(UNEXPLAINED), "the deletion is told first");
            assert_eq!(believed(session, Fate::GoneFor(LossReason::Expired)), expired, "it is explained first");
        }
        for fate in [Fate::Stands, Fate::Gone, Fate::GoneFor(LossReason::Expired)] {
            assert_eq!(believed(expired, fate), expired, "the session's end is told first");
        }
        assert!(!matches!(UNEXPLAINED, LossReason::Removed | LossReason::Broken), "these are final");
    }

    #[test]
    fn a_contender_that_was_removed_from_a_session_that_stands_is_told_to_be() {
        for reason in [LossReason::Removed, LossReason::Broken] {
            for session in [HELD, JEOPARDY] {
                assert_eq!(believed(session, Fate::GoneFor(reason)), Liveness::Lost(reason));
            }
            let closed = Liveness::Lost(LossReason::Closed);
            assert_eq!(believed(closed, Fate::GoneFor(reason)), closed);
        }
    }
}
