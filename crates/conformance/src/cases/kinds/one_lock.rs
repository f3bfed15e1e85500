//! A mutex is the exclusive side of the read/write lock of its name: one lock, one queue.

use std::time::Duration;

use crate::case::Case;
use crate::fixture::Fixture;
use crate::party::{Party, enter_all, granted, in_vain, release, release_all};
use crate::waiting::soon;

/// How long a caller waits that must not be granted anything.
const IN_VAIN: Duration = Duration::from_millis(200);

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("a mutex excludes the writer and the readers of its name, and they exclude it", exclude_one_another)
            .given_back(),
        Case::new("a mutex, writers and readers of one name are served in the order they joined", in_order),
        Case::new("a mutex, a writer and a reader in one line are each woken once", woken_once),
        Case::new("a downgrade beside a waiting mutex keeps it out until the share is given back", downgrade),
        Case::new("a mutex that gives up lets in the readers behind it", mutex_gives_up),
        Case::new("tokens grow over the mutexes, writers and readers of one name", tokens_grow),
    ]
}

async fn exclude_one_another(fixture: &dyn Fixture) {
    let (ann, bob) = (Party::enter(fixture).await, Party::enter(fixture).await);
    let guard = ann.lock("book").await;
    for other in [&ann, &bob] {
        let rw_lock = other.rw_lock("book");
        let reading = soon("the answer", rw_lock.try_read()).await.expect("busy is no error");
        let writing = soon("the answer", rw_lock.try_write()).await.expect("busy is no error");
        assert!(reading.is_none() && writing.is_none());
    }
    assert!(in_vain(async || bob.rw_lock("book").read_timeout(IN_VAIN).await).await);
    assert!(in_vain(async || bob.rw_lock("book").write_timeout(IN_VAIN).await).await);
    assert!(guard.hold().is_held());
    release(guard).await;
    let reader = bob.read("book").await;
    assert!(ann.try_lock("book").await.is_none(), "a reader has it");
    assert!(in_vain(async || ann.mutex("book").lock_timeout(IN_VAIN).await).await);
    release(reader).await;
    let writer = bob.write("book").await;
    assert!(ann.try_lock("book").await.is_none(), "a writer has it");
    release(writer).await;
    release(ann.try_lock("book").await.expect("the lock is free")).await;
    ann.until_contenders("book", 0).await;
}

async fn in_order(fixture: &dyn Fixture) {
    let parties = enter_all(fixture, 3).await;
    let holder = parties[0].lock("book").await;
    let first = parties[1].queue_up_to_read("book").await;
    let second = parties[2].queue_up("book").await;
    let third = parties[0].queue_up_to_write("book").await;
    let fourth = parties[1].queue_up("book").await;
    let fifth = parties[2].queue_up_to_read("book").await;
    let sixth = parties[0].queue_up_to_read("book").await;
    assert_eq!(parties[0].contenders("book").await, 7);
    release(holder).await;
    let reading = granted(first).await;
    assert!(!second.is_finished() && !fifth.is_finished() && !sixth.is_finished());
    release(reading).await;
    let locked = granted(second).await;
    assert!(!third.is_finished() && !fourth.is_finished());
    release(locked).await;
    let writing = granted(third).await;
    assert!(!fourth.is_finished() && !fifth.is_finished());
    release(writing).await;
    let locked = granted(fourth).await;
    assert!(!fifth.is_finished() && !sixth.is_finished());
    release(locked).await;
    release_all(vec![granted(fifth).await, granted(sixth).await]).await;
}

/// Each waits for the nearest one ahead that excludes it, whichever of the two kinds that is.
async fn woken_once(fixture: &dyn Fixture) {
    let parties = enter_all(fixture, 3).await;
    let wake_ups = || parties.iter().map(|party| party.tap.departures()).sum::<u64>();
    let holder = parties[0].lock("book").await;
    let writer = parties[1].queue_up_to_write("book").await;
    let mutex = parties[2].queue_up("book").await;
    let readers = [parties[0].queue_up_to_read("book").await, parties[1].queue_up_to_read("book").await];
    assert_eq!(wake_ups(), 0, "no waiter is woken while no contender leaves");
    release(holder).await;
    let writing = granted(writer).await;
    assert_eq!(wake_ups(), 1);
    release(writing).await;
    let locked = granted(mutex).await;
    assert_eq!(wake_ups(), 2);
    release(locked).await;
    for reader in readers {
        release(granted(reader).await).await;
    }
    assert_eq!(wake_ups(), 4);
}

/// The mutex just behind the writer is told of its departure; the share in the writer's place must keep that mutex out.
async fn downgrade(fixture: &dyn Fixture) {
    let (ann, bob, eve) = (Party::enter(fixture).await, Party::enter(fixture).await, Party::enter(fixture).await);
    for _ in 0..5 {
        let writer = ann.write("book").await;
        let near = eve.queue_up_to_read("book").await;
        let next = bob.queue_up("book").await;
        let behind = eve.queue_up_to_read("book").await;
        let reader = soon("the share", writer.downgrade()).await.expect("the lock was held");
        let near = granted(near).await;
        ann.until_contenders("book", 4).await;
        release(near).await;
        // Only the share is ahead of the mutex now. A waiter that was told of a departure has looked again by then.
        assert!(in_vain(async || bob.mutex("book").lock_timeout(IN_VAIN).await).await);
        assert!(!next.is_finished(), "a queued mutex came in beside a reader");
        assert!(!behind.is_finished(), "a reader passed a queued mutex");
        assert!(reader.hold().is_held());
        release(reader).await;
        let locked = granted(next).await;
        assert!(!behind.is_finished());
        release(locked).await;
        release(granted(behind).await).await;
    }
    // And with no contender in between.
    for _ in 0..5 {
        let writer = ann.write("book").await;
        let next = bob.queue_up("book").await;
        let reader = soon("the share", writer.downgrade()).await.expect("the lock was held");
        ann.until_contenders("book", 2).await;
        assert!(in_vain(async || eve.mutex("book").lock_timeout(IN_VAIN).await).await);
        assert!(!next.is_finished(), "a queued mutex came in beside the writer's own share");
        release(reader).await;
        release(granted(next).await).await;
    }
}

async fn mutex_gives_up(fixture: &dyn Fixture) {
    let (ann, bob, eve) = (Party::enter(fixture).await, Party::enter(fixture).await, Party::enter(fixture).await);
    let reader = ann.read("book").await;
    let mutex = bob.mutex("book");
    let ask = |time| {
        let mutex = mutex.clone();
        async move { mutex.lock_timeout(time).await }
    };
    let waiting = bob.queue_up_for_a_while(ask).await;
    let behind = eve.queue_up_to_read("book").await;
    assert!(soon("the end of the timeout", granted(waiting)).await.is_none());
    let second = granted(behind).await;
    assert!(reader.hold().is_held() && second.hold().is_held());
    release(reader).await;
    release(second).await;
}

async fn tokens_grow(fixture: &dyn Fixture) {
    let (ann, bob) = (Party::enter(fixture).await, Party::enter(fixture).await);
    let mut tokens = Vec::new();
    for _ in 0..3 {
        let guard = ann.lock("book").await;
        tokens.push(guard.fencing_token());
        release(guard).await;
        let reader = bob.read("book").await;
        tokens.push(reader.fencing_token());
        release(reader).await;
        let writer = ann.write("book").await;
        tokens.push(writer.fencing_token());
        release(writer).await;
    }
    assert!(tokens.windows(2).all(|pair| pair[0] < pair[1]), "{tokens:?}");
}
