//! That a service does what its capabilities say: users choose a service by them, and the suite its cases.

use std::time::Duration;

use lockkeeper_core::{Capabilities, Fencing, LivenessAt, LossReason, Mode, Modes, SafeUntil, StoppedHolder};

use crate::case::{Case, using};
use crate::fixture::{Fault, FaultKind, Fixture};
use crate::lateness::measured;
use crate::party::{Party, granted, parties, release};
use crate::speaker::{Speaker, line};
use crate::waiting::soon;

pub(super) fn cases() -> Vec<Case> {
    let cases = vec![
        Case::new("where a stopped holder keeps its lock, no session has a timeout and no hold a deadline", keeps)
            .promised(keeps_its_lock),
        Case::new("where a stopped holder expires, each session has a timeout and each hold a deadline", expires)
            .promised(|promised| !keeps_its_lock(promised)),
        Case::new(
            "where a stopped holder expires, one that is cut off loses its lock to the next in time",
            is_replaced,
        )
        .promised(|promised| !keeps_its_lock(promised))
        .needs(&[FaultKind::Cut])
        .outlives_sessions(),
        Case::new("where tokens outlive the process, they grow over a restart of the service", async |fixture| {
            grows_over(fixture, Fault::Restart).await;
        })
        .given_back()
        .promised(|promised| promised.fencing != Fencing::Process)
        .needs(&[FaultKind::Restart])
        .outlives_sessions(),
        Case::new("where tokens follow the clock, they grow over the loss of the service's data", async |fixture| {
            grows_over(fixture, Fault::Wipe).await;
        })
        .promised(|promised| promised.fencing == Fencing::Clock)
        .needs(&[FaultKind::Wipe]),
    ];
    using(Modes::MUTEX, cases)
}

fn keeps_its_lock(promised: &Capabilities) -> bool {
    promised.stopped_holder == StoppedHolder::Keeps
}

async fn keeps(fixture: &dyn Fixture) {
    let ann = Speaker::enter(fixture).await;
    let place = ann.take(&line("door"), Mode::Mutex).await;
    assert_eq!(ann.session.bond().timeout(), None);
    assert_eq!(ann.session.bond().notice(), None);
    let held = place.joined.standing.liveness(LivenessAt::Now);
    assert_eq!(held.safe_until(), Some(SafeUntil::ProcessEnd));
    ann.withdraw(&line("door"), place.ticket).await;
}

async fn expires(fixture: &dyn Fixture) {
    let ann = Speaker::enter(fixture).await;
    let place = ann.take(&line("door"), Mode::Mutex).await;
    let timeout = ann.session.bond().timeout().expect("a session has a timeout").granted;
    let now = fixture.clock().now();
    let left = place.joined.standing.liveness(LivenessAt::Now).safe_until().expect("it is held").left(now);
    let left = left.expect("the hold has a deadline");
    assert!(left <= timeout, "{left:?} are left of a timeout of {timeout:?}");
    assert!(ann.session.bond().notice().expect("a holder is warned") <= timeout);
    ann.withdraw(&line("door"), place.ticket).await;
}

async fn is_replaced(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    let timeout = fixture.session_timeout().expect("a session that is cut off ends");
    let held = ann.lock("door").await;
    let waiting = bob.queue_up("door").await;
    ann.inflict(Fault::Cut).await;
    let (next, grant) = measured(fixture, timeout, granted(waiting)).await;
    assert!(grant.late <= LATE_MAX, "the next was granted the lock {:?} after the cut: {grant:?}", grant.took);
    assert!(!held.hold().is_held(), "the guard does not know of its loss when the next is granted the lock");
    assert_ne!(soon("the loss", held.hold().lost()).await, LossReason::Released);
    release(next).await;
    ann.inflict(Fault::Heal).await;
}

/// How much later than a thread that only sleeps the next may be granted the lock after the session's end: a service
/// looks at its sessions now and then.
const LATE_MAX: Duration = Duration::from_secs(5);

async fn grows_over(fixture: &dyn Fixture, fault: Fault) {
    let ann = Party::enter(fixture).await;
    let guard = ann.lock("door").await;
    let before = guard.fencing_token();
    release(guard).await;
    if fault == Fault::Wipe {
        soon("the close", ann.keeper.close()).await.expect("the service is told");
    }
    ann.inflict(fault).await;
    let guard = Party::enter(fixture).await.lock("door").await;
    assert!(guard.fencing_token() > before, "{} after {before}", guard.fencing_token());
    release(guard).await;
}
