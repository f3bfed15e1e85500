//! Keepers that are closed, or dropped.

use std::time::Duration;

use lockkeeper_core::{Advice, ErrorKind, LossReason, Modes};

use crate::case::Case;
use crate::fixture::{Fault, FaultKind, Fixture};
use crate::party::{Party, granted, parties, release};
use crate::polls::at_most;
use crate::waiting::{SOON, soon};

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("closing a keeper ends its holds for good", ends_holds),
        Case::new("closing a keeper refuses its waiters", refuses_waiters).strict(),
        Case::new("nothing can be locked through a closed keeper or its clones", locks_no_more),
        Case::new("closing a keeper takes effect even if it is never polled", takes_effect_at_once),
        Case::new("closing a keeper that is out of reach refuses its waiters", out_of_reach)
            .given_back()
            .needs(&[FaultKind::Cut]),
        Case::new(
            "a drained keeper refuses its waiters, grants nothing more and waits for what is given back",
            drained,
        )
        .uses(Modes::READ_WRITE),
        Case::new("dropping a keeper and all that came of it ends its session", dropped).strict(),
    ]
}

async fn ends_holds(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    let guard = ann.lock("door").await;
    let waiting = bob.queue_up("door").await;
    soon("the close", ann.keeper.close()).await.expect("the service is told");
    assert!(!guard.hold().is_held());
    assert_eq!(soon("the loss", guard.hold().lost()).await, LossReason::Closed);
    let next = granted(waiting).await;
    let error = soon("the release", guard.release()).await.expect_err("the hold was lost");
    assert_eq!(error.kind(), ErrorKind::Lost(LossReason::Closed));
    assert!(next.hold().is_held());
    release(next).await;
}

async fn drained(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    let (first, second) = (ann.lock("door").await, ann.read("book").await);
    let busy = bob.lock("busy").await;
    let waiting = ann.queue_up("busy").await;
    assert_eq!(ann.keeper.holds().len(), 3);
    assert!(ann.mutex("door").is_held_here() && !ann.mutex("busy").is_held_here());
    let held = soon("the end of the drain", ann.keeper.drain(Duration::ZERO)).await;
    let names: Vec<_> = held.iter().map(|own| own.lock.as_str()).collect();
    assert_eq!(names, ["door", "book"]);
    let error = soon("the refusal", waiting).await.expect("the task does not panic").expect_err("it is drained");
    assert_eq!((error.kind(), error.advice()), (ErrorKind::Closed, Advice::Permanent));
    let error = soon("the refusal", ann.mutex("window").try_lock()).await.expect_err("it is drained");
    assert_eq!(error.kind(), ErrorKind::Closed);
    bob.until_contenders("busy", 1).await;
    release(busy).await;
    let draining = tokio::spawn(ann.keeper.drain(SOON));
    release(first).await;
    assert!(second.hold().is_held() && !draining.is_finished());
    release(second).await;
    let left = soon("the end of the drain", draining).await.expect("the task does not panic");
    assert!(left.is_empty() && ann.keeper.holds().is_empty(), "{left:?}");
    bob.until_contenders("door", 0).await;
    bob.until_contenders("book", 0).await;
    soon("the close", ann.keeper.close()).await.expect("the service is told");
}

async fn refuses_waiters(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    let guard = ann.lock("door").await;
    let waiting = [bob.queue_up("door").await, bob.queue_up("door").await];
    soon("the close", bob.keeper.close()).await.expect("the service is told");
    for waiter in waiting {
        let outcome = soon("the refusal", waiter).await.expect("the task does not panic");
        let error = outcome.expect_err("the keeper was closed");
        assert_eq!(error.kind(), ErrorKind::Closed);
        assert_eq!(error.advice(), Advice::Permanent);
    }
    ann.until_contenders("door", 1).await;
    release(guard).await;
}

async fn locks_no_more(fixture: &dyn Fixture) {
    let ann = Party::enter(fixture).await;
    let (mutex, clone) = (ann.mutex("door"), ann.keeper.clone());
    release(ann.lock("door").await).await;
    soon("the close", ann.keeper.close()).await.expect("the service is told");
    soon("closing again", clone.close()).await.expect("closing twice is no error");
    let refused = [
        soon("the refusal", mutex.lock()).await.err(),
        soon("the refusal", mutex.try_lock()).await.err(),
        soon("the refusal", mutex.lock_timeout(Duration::from_secs(9))).await.err(),
        soon("the refusal", ann.mutex("window").lock()).await.err(),
        soon("the refusal", clone.mutex("door").expect("a name").lock()).await.err(),
    ];
    for error in refused {
        assert_eq!(error.map(|error| error.kind()), Some(ErrorKind::Closed));
    }
}

async fn takes_effect_at_once(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    let guard = ann.lock("door").await;
    let waiting = bob.queue_up("door").await;
    drop(ann.keeper.close());
    release(granted(waiting).await).await;
    assert!(!guard.hold().is_held());
}

async fn out_of_reach(fixture: &dyn Fixture) {
    let ann = Party::enter(fixture).await;
    release(ann.lock("door").await).await;
    ann.inflict(Fault::Cut).await;
    let mutex = ann.mutex("door");
    let mut waiting = Box::pin(mutex.lock());
    assert!(at_most(1, &mut waiting).await.is_none(), "there can be no answer yet");
    drop(ann.keeper.close());
    let outcome = soon("the refusal", waiting).await;
    assert_eq!(outcome.expect_err("the keeper was closed").kind(), ErrorKind::Closed);
    ann.inflict(Fault::Heal).await;
}

async fn dropped(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    let guard = ann.lock("door").await;
    let waiting = ann.queue_up("door").await;
    waiting.abort();
    drop(waiting.await);
    drop(guard);
    drop(ann);
    bob.until_contenders("door", 0).await;
    release(bob.lock("door").await).await;
}
