//! Observing a queue without joining it.

use std::time::Duration;

use lockkeeper_core::{Mode, QueueName, Wait};

use crate::case::Case;
use crate::fixture::Fixture;
use crate::party::{LONG, Party, granted, in_vain, parties, release};
use crate::waiting::soon;

const TIMEOUT: Duration = Duration::from_millis(100);
/// How far the clocks of two machines may be apart.
const CLOCKS_APART_MAX: Duration = Duration::from_secs(60);

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("contenders() shows the holder and the waiters in their order", shows_the_line),
        Case::new("contenders() shows their owners", shows_owners),
        Case::new("queues() names the locks in use in order and no others", names_queues),
        Case::new("until_vacant() answers at once for a free lock", vacant_at_once),
        Case::new("until_vacant() waits for the holder and all waiters and takes no part", vacant_after_all).strict(),
        Case::new("until_vacant() ends when its time is up", vacant_times_out),
    ]
}

async fn shows_the_line(fixture: &dyn Fixture) {
    let [ann, bob, eve] = parties(fixture).await;
    let guard = ann.lock("door").await;
    let (first, second) = (bob.queue_up("door").await, eve.queue_up("door").await);
    let contenders = eve.shown("door").await;
    let shown: Vec<_> = contenders.iter().map(|contender| contender.id.clone()).collect();
    assert!(contenders.iter().all(|contender| contender.mode == Mode::Mutex));
    assert_eq!(shown.len(), 3);
    assert_eq!(shown[0], *guard.hold().contender());
    release(guard).await;
    let guard = granted(first).await;
    assert_eq!(shown[1], *guard.hold().contender());
    release(guard).await;
    let guard = granted(second).await;
    assert_eq!(shown[2], *guard.hold().contender());
    release(guard).await;
}

async fn shows_owners(fixture: &dyn Fixture) {
    let ann = Party::enter(fixture).await;
    let before = fixture.clock().unix_time();
    let guard = ann.lock("door").await;
    let after = fixture.clock().unix_time();
    let contenders = ann.shown("door").await;
    let owner = contenders[0].owner.as_ref().expect("our own contender says who it is");
    assert_eq!(owner.pid, std::process::id());
    assert!(!owner.host.is_empty() && !owner.command.is_empty());
    let since = contenders[0].since_unix.expect("our own contender says since when");
    let about = before.saturating_sub(CLOCKS_APART_MAX)..=after + CLOCKS_APART_MAX;
    assert!(about.contains(&since), "it says that it joined at {since:?}, which is not within {about:?}");
    release(guard).await;
}

async fn names_queues(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    let mut guards = Vec::new();
    for name in ["reports/weekly", "reports/daily", "report", "backup"] {
        guards.push(ann.lock(name).await);
    }
    let named = async |prefix: &str| -> Vec<QueueName> {
        let queues = soon("the names", bob.keeper.admin().queues(prefix)).await;
        queues.expect("the queues are named")
    };
    let names = |names: &[&str]| -> Vec<QueueName> {
        let parsed = names.iter().map(|name| QueueName::new(name).expect("the name is valid"));
        parsed.collect()
    };
    assert_eq!(named("").await, names(&["backup", "report", "reports/daily", "reports/weekly"]));
    assert_eq!(named("reports/").await, names(&["reports/daily", "reports/weekly"]));
    assert_eq!(named("reports/daily").await, names(&["reports/daily"]));
    assert_eq!(named("x").await, names(&[]));
    for guard in guards {
        release(guard).await;
    }
}

async fn vacant_at_once(fixture: &dyn Fixture) {
    let ann = Party::enter(fixture).await;
    for wait in [Wait::No, Wait::Forever, Wait::AtMost(LONG)] {
        let vacant = soon("the answer", ann.keeper.until_vacant("door", wait)).await;
        assert!(vacant.expect("it can be asked").is_some(), "{wait:?}");
        release(ann.lock("door").await).await;
    }
}

async fn vacant_after_all(fixture: &dyn Fixture) {
    let [ann, bob, eve] = parties(fixture).await;
    let guard = ann.lock("door").await;
    let (first, second) = (bob.queue_up("door").await, bob.queue_up("door").await);
    let keeper = eve.keeper.clone();
    let onlooker = tokio::spawn(async move { keeper.until_vacant("door", Wait::AtMost(LONG)).await });
    release(guard).await;
    let guard = granted(first).await;
    assert_eq!(ann.contenders("door").await, 2, "an observer is not in the queue");
    release(guard).await;
    let guard = granted(second).await;
    assert!(!onlooker.is_finished(), "the lock is still held");
    release(guard).await;
    let vacant = soon("the event", onlooker).await.expect("the task does not panic");
    assert!(vacant.expect("it can be asked").is_some());
}

async fn vacant_times_out(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    let guard = ann.lock("door").await;
    let clock = fixture.clock();
    let start = clock.now();
    assert!(in_vain(async || bob.keeper.until_vacant("door", Wait::AtMost(TIMEOUT)).await).await);
    assert!(clock.now().saturating_duration_since(start) >= TIMEOUT);
    assert!(guard.hold().is_held());
    release(guard).await;
}
