//! Examinations of a service: they leave nothing, harm no lock, and tell every keeper the same.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::clock::{BootInstant, Clock};
use lockkeeper_core::{Backend, BoxFuture, Finding, Modes, Scrutiny, Severity};
use lockkeeper_recipes::{Event, Keeper, LockKind};

use crate::case::Case;
use crate::fixture::Fixture;
use crate::party::{Party, granted, parties, release};
use crate::waiting::soon;

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("an examination of a service in order finds no error and leaves nothing", in_order),
        Case::new("an examination beside a holder and a waiter harms neither", harms_no_lock).uses(Modes::MUTEX),
        Case::new("a keeper is told once what matters most of what an examination finds", told_once).uses(Modes::MUTEX),
        Case::new("what is frozen or held for long, and a clock that is ahead, are found", long_ago).uses(Modes::MUTEX),
    ]
}

async fn in_order(fixture: &dyn Fixture) {
    let ann = Party::enter(fixture).await;
    let findings = soon("the findings", ann.keeper.admin().examine()).await.expect("the service can be reached");
    assert!(findings.iter().all(|finding| finding.severity < Severity::Error), "{findings:?}");
    assert!(soon("the names", ann.keeper.admin().queues("")).await.expect("the queues are named").is_empty());
}

async fn harms_no_lock(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    let held = ann.lock("door").await;
    let waiting = bob.queue_up("door").await;
    for party in [&ann, &bob] {
        for scrutiny in [Scrutiny::Brief, Scrutiny::Full] {
            soon("the findings", party.tap.admin().examine(scrutiny)).await.expect("the service can be reached");
        }
    }
    assert!(held.hold().is_held() && !waiting.is_finished());
    assert_eq!(ann.contenders("door").await, 2);
    let names = soon("the names", bob.keeper.admin().queues("")).await.expect("the queues are named");
    assert_eq!(names.iter().map(|name| name.as_str()).collect::<Vec<_>>(), ["door"]);
    release(held).await;
    release(granted(waiting).await).await;
}

async fn told_once(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    let matters = |findings: Vec<Finding>| -> Vec<Finding> {
        findings.into_iter().filter(|finding| finding.severity >= Severity::Warning).collect()
    };
    // A brief examination of a session that lives looks at that session.
    release(bob.lock("door").await).await;
    let brief =
        matters(soon("the findings", bob.tap.admin().examine(Scrutiny::Brief)).await.expect("it can be reached"));
    let full = matters(soon("the findings", bob.tap.admin().examine(Scrutiny::Full)).await.expect("it can be reached"));
    assert!(brief.iter().all(|finding| full.contains(finding)), "{brief:?} is more than {full:?}");

    for _ in 0..2 {
        release(ann.lock("door").await).await;
    }
    let is_told = |event: &Event| matches!(event, Event::Weakened { .. });
    let Some(worst) = brief.iter().map(|finding| finding.severity).max() else {
        assert_eq!(ann.journal.count(is_told), 0);
        return;
    };
    ann.journal.until_count("what is wrong with the service", 1, is_told).await;
    release(ann.lock("door").await).await;
    assert_eq!(ann.journal.count(is_told), 1);
    for event in ann.journal.events() {
        if let Event::Weakened { service, finding } = event {
            assert_eq!((service, finding.severity), (ann.keeper.service(), worst));
            assert!(brief.contains(&finding), "{finding:?} is not of {brief:?}");
        }
    }
}

/// Another clock whose wall shows another time.
#[derive(Debug)]
struct Shifted {
    clock: Arc<dyn Clock>,
    ahead: Duration,
    behind: Duration,
}

impl Clock for Shifted {
    fn now(&self) -> BootInstant {
        self.clock.now()
    }

    fn sleep_until(&self, deadline: BootInstant) -> BoxFuture<()> {
        self.clock.sleep_until(deadline)
    }

    fn unix_time(&self) -> Duration {
        self.clock.unix_time() + self.ahead - self.behind
    }
}

/// Examines the service by a wall clock that is shifted; returns the warnings about its locks.
async fn examined_at(fixture: &dyn Fixture, party: &Party, ahead: Duration, behind: Duration) -> Vec<String> {
    let clock = Shifted { clock: fixture.clock(), ahead, behind };
    let keeper = Keeper::builder(Arc::new(party.tap.clone())).clock(Arc::new(clock)).build();
    let findings = soon("the findings", keeper.admin().examine()).await.expect("the service can be reached");
    let is_of_a_lock = |finding: &Finding| ["door", "gate"].iter().any(|lock| finding.what.contains(lock));
    let told = findings.into_iter().filter(is_of_a_lock).inspect(|told| assert_eq!(told.severity, Severity::Warning));
    told.map(|told| told.what).collect()
}

async fn long_ago(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    let held = ann.lock("door").await;
    let waiting = bob.queue_up("door").await;
    ann.freeze("gate", LockKind::Mutex, "new locks").await;

    let (none, hour) = (Duration::ZERO, Duration::from_secs(60 * 60));
    assert_eq!(examined_at(fixture, &bob, none, none).await, [""; 0]);
    let told = examined_at(fixture, &bob, hour * 25, none).await;
    assert_eq!(told.len(), 2, "{told:?}");
    assert_eq!(told[0], "gate has been frozen for 25 hours: new locks");
    assert!(told[1].contains("door") && told[1].ends_with("and 1 waits"), "{told:?}");
    let told = examined_at(fixture, &bob, none, hour).await;
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("by a clock that is ") && told[0].contains("ahead of this machine's"), "{told:?}");

    assert_eq!(soon("the thaw", ann.keeper.admin().thaw("gate")).await.expect("it is thawed").len(), 1);
    release(held).await;
    release(granted(waiting).await).await;
}
