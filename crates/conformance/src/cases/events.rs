//! What observers hear.

use std::time::Duration;

use lockkeeper_core::Event;

use crate::case::Case;
use crate::fixture::Fixture;
use crate::party::{Party, granted, release, soon};

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("an observer hears of the join, the grant and the release, in order", in_order),
        Case::new("an observer hears how many stood ahead", how_many_ahead),
        Case::new("an observer hears of a lock that was not had", not_acquired),
    ]
}

async fn in_order(fixture: &dyn Fixture) {
    let ann = Party::enter(fixture).await;
    let guard = ann.lock("door").await;
    let (contender, expected) = (guard.hold().contender().clone(), guard.fencing_token());
    assert_eq!(ann.journal.kinds(), ["joined", "granted"]);
    release(guard).await;
    assert_eq!(ann.journal.kinds(), ["joined", "granted", "released"]);
    for event in &*ann.journal.events() {
        match event {
            Event::Joined { lock, contender: joined, ahead } => {
                assert_eq!((lock.as_str(), joined, *ahead), ("door", &contender, 0));
            }
            Event::Granted { lock, token, .. } => assert_eq!((lock.as_str(), *token), ("door", expected)),
            Event::Released { lock, token, lost, .. } => {
                assert_eq!((lock.as_str(), *token, *lost), ("door", expected, None));
            }
            other => panic!("{other:?}"),
        }
    }
    drop(ann.lock("door").await);
    assert_eq!(ann.journal.kinds()[3..], ["joined", "granted", "released"]);
}

async fn how_many_ahead(fixture: &dyn Fixture) {
    let (ann, bob) = (Party::enter(fixture).await, Party::enter(fixture).await);
    let guard = ann.lock("door").await;
    let waiting = [bob.queue_up("door").await, bob.queue_up("door").await];
    let ahead: Vec<_> = bob
        .journal
        .events()
        .iter()
        .filter_map(|event| match event {
            Event::Joined { ahead, .. } => Some(*ahead),
            _ => None,
        })
        .collect();
    assert_eq!(ahead, [1, 2]);
    release(guard).await;
    for waiter in waiting {
        release(granted(waiter).await).await;
    }
}

async fn not_acquired(fixture: &dyn Fixture) {
    let (ann, bob) = (Party::enter(fixture).await, Party::enter(fixture).await);
    let guard = ann.lock("door").await;
    assert!(bob.try_lock("door").await.is_none());
    assert_eq!(bob.journal.kinds(), ["not acquired"]);
    let timeout = Duration::from_millis(500);
    let outcome = soon("the end of the timeout", bob.mutex("door").lock_timeout(timeout)).await;
    assert!(outcome.expect("a timeout is no error").is_none());
    assert_eq!(bob.journal.kinds()[1..], ["joined", "not acquired"]);
    if let Some(Event::NotAcquired { lock, waited }) = bob.journal.events().last() {
        assert!(lock.as_str() == "door" && *waited >= timeout, "{lock} after {waited:?}");
    }
    release(guard).await;
}
