//! The events that observers receive.

use lockkeeper_core::LossReason;
use lockkeeper_recipes::Event;

use crate::asking::Ask;
use crate::case::Case;
use crate::fixture::{Fault, FaultKind, Fixture};
use crate::party::{Party, granted, parties, release};
use crate::waiting::soon;

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("an observer hears of the join, the grant and the release, in order", in_order).strict(),
        Case::new("an observer hears how many stood ahead", how_many_ahead).strict(),
        Case::new("an observer hears of a lock that was not acquired", not_acquired),
        Case::new("an observer hears once that a session was opened, and that it was closed", session_closed),
        Case::new("an observer hears once of each hold that ends with a session, though no holder asks", session_lost)
            .needs(&[FaultKind::ExpireSession]),
        Case::new("an observer hears that a session is in jeopardy, and that this is over", jeopardy)
            .needs(&[FaultKind::Cut])
            .outlives_sessions(),
    ]
}

async fn in_order(fixture: &dyn Fixture) {
    let ann = Party::enter(fixture).await;
    let guard = ann.lock("door").await;
    let (contender, expected) = (guard.hold().contender().clone(), guard.fencing_token());
    assert_eq!(ann.journal.kinds(), ["joined", "granted"]);
    release(guard).await;
    assert_eq!(ann.journal.kinds(), ["joined", "granted", "released"]);
    for event in &ann.journal.events() {
        match event {
            Event::Joined { lock, contender: joined, ahead } => {
                assert_eq!((lock.as_str(), joined, *ahead), ("door", &contender, 0));
            }
            Event::Granted { lock, token, .. } => assert_eq!((lock.as_str(), *token), ("door", expected)),
            Event::Released { lock, token, lost, .. } => {
                assert_eq!((lock.as_str(), *token, *lost), ("door", expected, None));
            }
            Event::SessionOpened { .. } | Event::Weakened { .. } => {}
            other => panic!("{other:?}"),
        }
    }
    drop(ann.lock("door").await);
    assert_eq!(ann.journal.kinds()[3..], ["joined", "granted", "released"]);
}

async fn how_many_ahead(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
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
    let [ann, bob] = parties(fixture).await;
    let guard = ann.lock("door").await;
    assert!(bob.try_lock("door").await.is_none());
    assert_eq!(bob.journal.kinds(), ["not acquired"]);
    let (waiting, asked_for) = bob.queue_up_in_vain(Ask::Mutex).await;
    assert!(soon("the end of the timeout", granted(waiting)).await.is_none());
    let kinds = bob.journal.kinds();
    assert_eq!(kinds[kinds.len() - 2..], ["joined", "not acquired"]);
    if let Some(Event::NotAcquired { lock, waited }) = bob.journal.events().last() {
        assert!(lock.as_str() == "door" && *waited >= asked_for, "{lock} after {waited:?}");
    }
    release(guard).await;
}

fn is_opened(event: &Event) -> bool {
    matches!(event, Event::SessionOpened { .. })
}

async fn session_closed(fixture: &dyn Fixture) {
    let ann = Party::enter(fixture).await;
    for _ in 0..2 {
        release(ann.lock("door").await).await;
    }
    let opened = ann.journal.events().into_iter().find(is_opened);
    let Some(Event::SessionOpened { service, timeout }) = opened else {
        panic!("{:?}", ann.journal);
    };
    assert_eq!(service, ann.keeper.service());
    assert!(timeout.is_none_or(|timeout| !timeout.is_clipped()), "{timeout:?}");
    soon("the end of the session", ann.keeper.close()).await.expect("it is closed");
    let is_closed = |event: &Event| matches!(event, Event::SessionLost { reason: LossReason::Closed, .. });
    ann.journal.until_count("the closing", 1, is_closed).await;
    assert_eq!((ann.journal.count(is_opened), ann.journal.count(is_closed)), (1, 1));
}

async fn session_lost(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    let guards = (ann.lock("door").await, ann.lock("window").await);
    ann.inflict(Fault::ExpireSession).await;
    let is_lost = |event: &Event| matches!(event, Event::Lost { .. });
    ann.journal.until_count("the losses", 2, is_lost).await;
    let is_over = |event: &Event| matches!(event, Event::SessionLost { .. });
    assert_eq!(ann.journal.count(is_over), 1);
    assert!(!guards.0.hold().is_held());
    soon("the release", guards.0.release()).await.expect_err("the hold was lost");
    drop(guards.1);
    assert_eq!((ann.journal.count(is_lost), ann.journal.count(is_over)), (2, 1));
    release(bob.lock("door").await).await;
    assert_eq!(bob.journal.count(is_lost), 0);
}

async fn jeopardy(fixture: &dyn Fixture) {
    let ann = Party::enter(fixture).await;
    let guard = ann.lock("door").await;
    ann.inflict(Fault::Cut).await;
    let is_danger = |event: &Event| matches!(event, Event::Jeopardy { safe_for: Some(_), .. });
    ann.journal.until_count("the jeopardy", 1, is_danger).await;
    ann.inflict(Fault::Heal).await;
    let is_over = |event: &Event| matches!(event, Event::JeopardyOver { .. });
    ann.journal.until_count("the end of the jeopardy", 1, is_over).await;
    assert_eq!((ann.journal.count(is_danger), ann.journal.count(is_over)), (1, 1));
    assert!(guard.hold().is_held());
    release(guard).await;
}
