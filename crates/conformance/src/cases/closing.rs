//! Keepers that are closed, or dropped; and requests that can never be granted, and holds that are over: refused with
//! their kind of error, and nothing is left held.

use std::time::Duration;

use lockkeeper_core::{Advice, ENTRIES_MAX, Error, ErrorKind, LossReason, Modes, Wait};
use lockkeeper_recipes::Permits;

use crate::case::Case;
use crate::fixture::{Fault, FaultKind, Fixture};
use crate::journal::is_joined;
use crate::party::{Party, granted, parties, release, release_all};
use crate::waiting::{SOON, at_most, soon};

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

pub(super) fn refusals() -> Vec<Case> {
    vec![
        Case::new("a semaphore of no permits is refused when it is made", no_permits).uses(Modes::SEMAPHORE),
        Case::new("asking for no permit, or for more than there are, is refused at once", can_never_fit)
            .uses(Modes::SEMAPHORE),
        Case::new("guards of every kind used after their session's end say that they are lost", used_after_loss)
            .given_back()
            .uses(Modes::MUTEX.with(Modes::READ_WRITE).with(Modes::SEMAPHORE))
            .needs(&[FaultKind::ExpireSession]),
    ]
}

fn assert_invalid(error: Option<Error>) {
    let error = error.expect("it can never be granted");
    assert_eq!((error.kind(), error.advice()), (ErrorKind::InvalidRequest, Advice::Permanent), "{error}");
}

async fn no_permits(fixture: &dyn Fixture) {
    let ann = Party::enter(fixture).await;
    assert_invalid(ann.keeper.semaphore("pool", 0).err());
    for counter in ["", "a\nb"] {
        let error = ann.keeper.semaphore("pool", Permits::Counter(counter.to_owned())).err();
        assert_eq!(error.map(|error| error.kind()), Some(ErrorKind::InvalidName), "{counter:?}");
    }
}

async fn can_never_fit(fixture: &dyn Fixture) {
    let ann = Party::enter(fixture).await;
    let few = ann.semaphore("pool", 3);
    let many = ann.semaphore("lake", u32::MAX);
    let one_too_many = ENTRIES_MAX as u32 + 1;
    for (semaphore, wanted) in [(&few, 0), (&few, 4), (&few, u32::MAX), (&many, one_too_many), (&many, u32::MAX)] {
        assert_invalid(soon("the refusal", semaphore.acquire_many(wanted)).await.err());
        assert_invalid(soon("the refusal", semaphore.acquire_many_within(wanted, Wait::No)).await.err());
        let long = Duration::from_secs(3600);
        assert_invalid(soon("the refusal", semaphore.acquire_many_within(wanted, Wait::AtMost(long))).await.err());
    }
    assert_eq!((ann.tap.joins(), ann.journal.count(is_joined)), (0, 0), "the service need not be asked");
    let all = soon("the answer", few.acquire_many_within(3, Wait::No)).await.expect("it does not fail");
    release_all(all.expect("all are free")).await;
}

async fn used_after_loss(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    let mutex = ann.lock("door").await;
    let (reader, writer) = (ann.read("book").await, ann.write("page").await);
    let permit = soon("the grant", ann.semaphore("pool", 1).acquire()).await.expect("it is granted");
    ann.inflict(Fault::ExpireSession).await;
    for hold in [mutex.hold(), reader.hold(), writer.hold(), permit.hold()] {
        soon("the loss", hold.lost()).await;
        assert!(!hold.is_held() && hold.safe_for() == Some(Duration::ZERO));
    }
    // Others hold what was lost; the end of the lost guards takes nothing from them.
    let others = (bob.lock("door").await, bob.write("book").await, bob.write("page").await);
    let other = soon("the grant", bob.semaphore("pool", 1).acquire()).await.expect("it is granted");
    let errors = [
        soon("the release", mutex.release()).await.err(),
        soon("the release", reader.release()).await.err(),
        soon("the refusal", writer.downgrade()).await.err(),
        soon("the release", permit.release()).await.err(),
    ];
    for error in errors {
        let error = error.expect("it was lost");
        assert!(matches!(error.kind(), ErrorKind::Lost(_)), "{error:?}");
    }
    assert!(others.0.hold().is_held() && others.1.hold().is_held() && others.2.hold().is_held());
    assert!(other.hold().is_held());
    for lock in ["door", "book", "page", "pool"] {
        assert_eq!(bob.contenders(lock).await, 1, "{lock}");
    }
}
