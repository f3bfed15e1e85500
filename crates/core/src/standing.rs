//! The standing of one place in a queue, and the bond by which a backend over a network answers for it: whether the
//! contender stands, why it does not, and what its owner is asked.

use std::any::Any;
use std::fmt;
use std::time::Duration;

use tokio::sync::watch;

use crate::clock::BootInstant;
use crate::contender::Revocation;
use crate::future::BoxFuture;
use crate::liveness::{Liveness, LossReason};
use crate::session_bond::SessionBond;

/// The moment at which the liveness of a place is asked for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "a backend answers every one")]
pub enum LivenessAt {
    /// Now.
    Now,
    /// The beginning or the end of a turn that tasks of this process pass on. This is the present moment; a caller that
    /// waited since it was read has waited after the answer.
    ///
    /// A backend whose looks cost more than a turn may answer by a look of some microseconds before, and states how old
    /// it may be. That this process has left the place or closed its session, or has found it lost, is never answered
    /// by an earlier look.
    Turn(BootInstant),
}

/// What may be believed of one place in a queue: the backend's answer, looked up at the call.
///
/// Once an answer was [`Liveness::Lost`], every later one is too. Dropping the future of a wait changes nothing. What a
/// service offers beyond this, its crate finds by the type, as `&dyn Any`.
pub trait Standing: Any + fmt::Debug + Send + Sync {
    /// Returns what may be believed. The place is lost with its session, and when the contender leaves the queue in any
    /// way.
    fn liveness(&self, at: LivenessAt) -> Liveness;

    /// Waits until the place is lost; never ends if it never is. [`Standing::liveness`] is lost before this returns.
    /// While the connection is lost, it waits as long as the place may be believed.
    fn lost(&self) -> BoxFuture<LossReason>;

    /// Waits until a client or an operator asks that the place be given up. Never ends if no request comes or the
    /// service cannot tell. Each wait returns the request, also if it was made before the call, or during a connection
    /// loss.
    fn revoked(&self) -> BoxFuture<Revocation> {
        Box::pin(std::future::pending())
    }

    /// Notes the grant of the place, where it can be shown to onlookers at no cost.
    fn granted(&self) {}
}

/// How long a loss is kept back at most until it is known why the contender is gone.
const REASON_TIME_MAX: Duration = Duration::from_millis(500);

/// The loss of a contender that is gone while nothing says why. Most often the session went with it, and its owner
/// may join again; that it was removed would be final, and is told only once it is known.
const UNEXPLAINED: LossReason = LossReason::Lapsed;

/// What may be believed of one place, by what its backend hears of the session and of the contender in any order.
///
/// A service tells of a contender's end and of its session's end by separate messages, and says why a contender is gone
/// only if it is asked. A backend notes what it hears here, and answers the calls of its
/// [`Standing`] from it. Once the place is lost, it stays lost.
pub struct PlaceBond {
    session: SessionBond,
    fate: watch::Sender<ContenderFate>,
    revocation: watch::Sender<Option<Revocation>>,
}

/// What became of a contender.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum ContenderFate {
    /// It is there, for all that is known.
    Stands,
    /// Its owner leaves it.
    Left,
    /// It is gone, not by its owner, and it is not known why.
    Gone,
    /// It is gone, and this is why.
    GoneFor(LossReason),
}

/// A session that is lost says more than what became of a contender of it.
const fn believed(session: Liveness, fate: ContenderFate) -> Liveness {
    match (session, fate) {
        (Liveness::Lost(_), _) | (_, ContenderFate::Stands) => session,
        (_, ContenderFate::Left) => Liveness::Lost(LossReason::Removed),
        (_, ContenderFate::Gone) => Liveness::Lost(UNEXPLAINED),
        (_, ContenderFate::GoneFor(reason)) => Liveness::Lost(reason),
    }
}

impl PlaceBond {
    /// Makes the bond of a place whose contender was just stored.
    pub fn new(session: SessionBond) -> Self {
        Self { session, fate: watch::Sender::new(ContenderFate::Stands), revocation: watch::Sender::new(None) }
    }

    /// Returns the bond of the session that the place depends on.
    pub const fn session(&self) -> &SessionBond {
        &self.session
    }

    /// Notes that the owner leaves the place: from now on it is lost, and no end of the contender is news.
    pub fn leave(&self) {
        self.fate.send_replace(ContenderFate::Left);
    }

    /// Tells whether the owner has left the place.
    pub fn is_left(&self) -> bool {
        self.fate() == ContenderFate::Left
    }

    /// Tells whether the contender is in its queue, for all that is known.
    pub fn stands(&self) -> bool {
        self.fate() == ContenderFate::Stands
    }

    /// Notes that the contender is gone, and not by its owner; returns whether that is news. Then the backend finds out
    /// why, and [`explain`](Self::explain)s it.
    pub fn remove(&self) -> bool {
        self.fate.send_if_modified(|fate| {
            let is_news = *fate == ContenderFate::Stands;
            if is_news {
                *fate = ContenderFate::Gone;
            }
            is_news
        })
    }

    /// Notes why the contender is gone.
    pub fn explain(&self, reason: LossReason) {
        self.fate.send_if_modified(|fate| {
            let is_news = matches!(fate, ContenderFate::Stands | ContenderFate::Gone);
            if is_news {
                *fate = ContenderFate::GoneFor(reason);
            }
            is_news
        });
    }

    /// Tells whether the contender is gone, and it is not known why.
    pub fn is_unexplained(&self) -> bool {
        self.fate() == ContenderFate::Gone
    }

    /// Returns why the contender is gone, once that is known.
    pub fn reason(&self) -> Option<LossReason> {
        match self.fate() {
            ContenderFate::GoneFor(reason) => Some(reason),
            ContenderFate::Stands | ContenderFate::Left | ContenderFate::Gone => None,
        }
    }

    /// Waits until the contender is gone, also by its owner.
    pub async fn removed(&self) {
        self.fate_is(|fate| fate != ContenderFate::Stands).await;
    }

    /// Waits until it is known why the contender is gone, if it is, or the session is lost. A caller that was told of
    /// the end too early would take a contender that went with its session for one that was removed, and not join
    /// again.
    pub async fn explained(&self) {
        tokio::select! {
            biased;
            () = self.fate_is(|fate| fate != ContenderFate::Gone) => {}
            _ = self.session.lost() => {}
        }
    }

    /// Returns what may be believed of the place now: what a [`Standing`] answers.
    pub fn liveness(&self) -> Liveness {
        believed(self.session.liveness(), self.fate())
    }

    /// Waits until the place is lost: what a [`Standing`] answers. A loss whose reason is not known is
    /// kept back for half a second at most.
    pub async fn lost(&self) -> LossReason {
        tokio::select! {
            biased;
            reason = self.session.lost() => return reason,
            () = self.removed() => {}
        }
        let clock = self.session.clock();
        tokio::select! {
            biased;
            () = self.explained() => {}
            () = clock.sleep_until(clock.now().saturating_add(REASON_TIME_MAX)) => {}
        }
        match self.liveness() {
            Liveness::Lost(reason) => reason,
            // A contender that is gone does not come back.
            Liveness::Held { .. } | Liveness::Jeopardy { .. } => UNEXPLAINED,
        }
    }

    /// Notes a request to give up; returns whether it is news.
    pub fn revoke(&self, revocation: Revocation) -> bool {
        self.revocation.send_if_modified(|known| {
            let is_news = known.as_ref() != Some(&revocation);
            *known = Some(revocation);
            is_news
        })
    }

    /// Waits until a request to give up arrives: what a [`Standing`] answers.
    pub async fn revoked(&self) -> Revocation {
        let mut revocation = self.revocation.subscribe();
        let request = revocation.wait_for(Option::is_some).await.ok().and_then(|request| request.clone());
        match request {
            Some(request) => request,
            None => unreachable!("the sender lives in what we hold"),
        }
    }

    fn fate(&self) -> ContenderFate {
        *self.fate.borrow()
    }

    async fn fate_is(&self, wanted: fn(ContenderFate) -> bool) {
        let mut fate = self.fate.subscribe();
        // The sender lives in what we hold.
        let _ = fate.wait_for(|&fate| wanted(fate)).await;
    }
}

impl fmt::Debug for PlaceBond {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("PlaceBond").field(&self.liveness()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::clock::{BootInstant, Clock, TestClock};
    use crate::liveness::SafeUntil;

    const SAFE_UNTIL: SafeUntil = SafeUntil::At(BootInstant::from_nanos(1));
    const HELD: Liveness = Liveness::Held { safe_until: SAFE_UNTIL };
    const JEOPARDY: Liveness = Liveness::Jeopardy { safe_until: SAFE_UNTIL };

    fn bond() -> (Arc<TestClock>, PlaceBond) {
        let clock = Arc::new(TestClock::new());
        let safe_until = SafeUntil::At(clock.now().saturating_add(Duration::from_secs(20)));
        (clock.clone(), PlaceBond::new(SessionBond::new(clock, safe_until)))
    }

    /// Both are told in any order, with a lost connection in between.
    #[test]
    fn a_contender_that_went_with_its_session_is_never_told_to_be_removed() {
        let expired = Liveness::Lost(LossReason::Expired);
        for session in [HELD, JEOPARDY] {
            assert_eq!(believed(session, ContenderFate::Stands), session);
            assert_eq!(
                believed(session, ContenderFate::Gone),
                Liveness::Lost(UNEXPLAINED),
                "the deletion is told first"
            );
            assert_eq!(
                believed(session, ContenderFate::GoneFor(LossReason::Expired)),
                expired,
                "it is explained first"
            );
        }
        for fate in [
            ContenderFate::Stands,
            ContenderFate::Left,
            ContenderFate::Gone,
            ContenderFate::GoneFor(LossReason::Expired),
        ] {
            assert_eq!(believed(expired, fate), expired, "the session's end is told first");
        }
        assert!(!matches!(UNEXPLAINED, LossReason::Removed | LossReason::Broken), "these are final");
    }

    #[test]
    fn a_contender_that_was_removed_from_a_session_that_stands_is_told_to_be() {
        for reason in [LossReason::Removed, LossReason::Broken] {
            for session in [HELD, JEOPARDY] {
                assert_eq!(believed(session, ContenderFate::GoneFor(reason)), Liveness::Lost(reason));
            }
            let closed = Liveness::Lost(LossReason::Closed);
            assert_eq!(believed(closed, ContenderFate::GoneFor(reason)), closed);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_loss_is_told_with_its_reason_or_after_half_a_second_without_one() {
        let (clock, bond) = bond();
        assert!(bond.remove() && !bond.remove() && bond.is_unexplained());
        let start = clock.now();
        assert_eq!(bond.lost().await, UNEXPLAINED);
        assert_eq!(clock.now().saturating_duration_since(start), REASON_TIME_MAX);
        bond.explain(LossReason::Broken);
        assert_eq!((bond.lost().await, bond.reason()), (LossReason::Broken, Some(LossReason::Broken)));
        bond.explain(LossReason::Removed);
        assert_eq!(bond.lost().await, LossReason::Broken, "the first reason stays");
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_that_is_lost_meanwhile_says_why_its_contender_is_gone() {
        let (_, bond) = bond();
        bond.remove();
        let told = async {
            tokio::task::yield_now().await;
            bond.session().lose(LossReason::Expired);
        };
        assert_eq!(tokio::join!(bond.lost(), told).0, LossReason::Expired);
        bond.explain(LossReason::Removed);
        assert_eq!(bond.liveness(), Liveness::Lost(LossReason::Expired));
    }

    #[tokio::test(start_paused = true)]
    async fn a_place_that_is_left_is_lost_and_its_end_is_no_news() {
        let (_, bond) = bond();
        let (left, ()) = tokio::join!(bond.lost(), async { bond.leave() });
        assert_eq!(left, LossReason::Removed);
        assert!(!bond.remove() && !bond.is_unexplained() && !bond.liveness().is_held());
        bond.explain(LossReason::Broken);
        assert_eq!(bond.lost().await, LossReason::Removed);
    }
}
