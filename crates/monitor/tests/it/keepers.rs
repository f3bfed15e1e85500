//! Tasks and owner keys that wait for each other over a memory service, and what two looks say of them.

use std::sync::Arc;

use lockkeeper::clock::Clock;
use lockkeeper::follow::Scope;
use lockkeeper::testing::{MemoryService, TestClock};
use lockkeeper::{Keeper, OwnerKey};
use lockkeeper_conformance::until;
use lockkeeper_monitor::{Ahead, CONFIRM_AFTER, Certainty, Confirmation, Joined, Judged, Verdict, WayOut, find, look};
use tokio::sync::Barrier;

/// A service, an onlooker, and two clients.
struct Scene {
    clock: Arc<dyn Clock>,
    onlooker: Keeper,
    ann: Keeper,
    bob: Keeper,
    /// Where both have what they hold, before either waits.
    both_hold: Arc<Barrier>,
}

impl Scene {
    fn new() -> Self {
        let clock: Arc<dyn Clock> = Arc::new(TestClock::new());
        let service = MemoryService::new(Arc::clone(&clock));
        let [onlooker, ann, bob] = [(); 3].map(|()| service.keeper());
        Self { clock, onlooker, ann, bob, both_hold: Arc::new(Barrier::new(2)) }
    }

    /// Waits until each of these locks has so many contenders.
    async fn until_contenders(&self, locks: [(&str, usize); 2]) {
        for (lock, count) in locks {
            let is_so = async || self.onlooker.contenders(lock).await.unwrap().len() == count;
            until("the contenders", is_so).await;
        }
    }

    /// Looks twice, and says what the second look shows.
    async fn judged(&self) -> Vec<Judged> {
        let mut confirmation = Confirmation::default();
        let mut judged = Vec::new();
        for pause in [None, Some(CONFIRM_AFTER)] {
            if let Some(pause) = pause {
                tokio::time::sleep(pause).await;
            }
            let snapshot = look(&self.onlooker, &*self.clock, &Scope::default()).await.unwrap();
            judged = confirmation.judge(&snapshot, find(&snapshot));
        }
        judged
    }

    /// The one deadlock, which must be known.
    async fn the_one(&self) -> Judged {
        let mut judged = self.judged().await;
        assert_eq!(judged.len(), 1, "{judged:#?}");
        let judged = judged.remove(0);
        assert_eq!(judged.verdict, Verdict::Known);
        judged
    }
}

/// Each link: the lock, what the one ahead does, and what joins it with the next.
fn chain(judged: &Judged) -> Vec<(&str, Ahead, Joined)> {
    let mut chain: Vec<_> =
        judged.deadlock.chain.iter().map(|link| (link.lock.as_str(), link.state, link.joined)).collect();
    chain.sort_by_key(|&(lock, ..)| lock);
    chain
}

/// Asserts that in each lock's link the waiter is of the flow of the one that is ahead in the other's.
fn assert_closed(judged: &Judged) {
    let chain = &judged.deadlock.chain;
    assert_eq!(chain.len(), 2, "{chain:#?}");
    for (link, next) in [(&chain[0], &chain[1]), (&chain[1], &chain[0])] {
        assert!(link.ahead.caller.flow.is_some());
        assert_eq!(link.ahead.caller.flow, next.waiter.caller.flow, "{chain:#?}");
        assert_ne!(link.ahead.caller.flow, link.waiter.caller.flow, "{chain:#?}");
    }
}

#[tokio::test(start_paused = true)]
async fn two_owner_keys_that_lock_in_opposite_orders() {
    let scene = Scene::new();
    for (keeper, locks) in [(&scene.ann, ["door", "gate"]), (&scene.bob, ["gate", "door"])] {
        let [first, second] = locks.map(|lock| keeper.mutex(lock).unwrap());
        let both_hold = Arc::clone(&scene.both_hold);
        tokio::spawn(async move {
            let owner = OwnerKey::new();
            let _first = owner.lock(&first).await.unwrap();
            both_hold.wait().await;
            // Another task, so that it is the key that they have in common.
            tokio::spawn(async move { owner.lock(&second).await.map(drop) }).await.unwrap().unwrap();
        });
    }
    scene.until_contenders([("door", 2), ("gate", 2)]).await;
    let found = scene.the_one().await;
    assert_eq!(found.deadlock.certainty, Certainty::SameOwner);
    assert_closed(&found);
    let by_key = |lock| (lock, Ahead::Holds, Joined::OwnerKey);
    assert_eq!(chain(&found), [by_key("door"), by_key("gate")]);
    assert!(matches!(found.deadlock.way_out, WayOut::Revoke { .. }), "{found:?}");
}

#[tokio::test(start_paused = true)]
async fn two_tasks_over_a_read_write_lock() {
    let scene = Scene::new();
    let (book, door) = (scene.ann.rw_lock("book").unwrap(), scene.ann.mutex("door").unwrap());
    let both_hold = Arc::clone(&scene.both_hold);
    tokio::spawn(async move {
        let _book = book.read().await.unwrap();
        both_hold.wait().await;
        door.lock().await.map(drop).unwrap();
    });
    let (book, door) = (scene.bob.rw_lock("book").unwrap(), scene.bob.mutex("door").unwrap());
    let both_hold = Arc::clone(&scene.both_hold);
    tokio::spawn(async move {
        let _door = door.lock().await.unwrap();
        both_hold.wait().await;
        book.write().await.map(drop).unwrap();
    });
    scene.until_contenders([("door", 2), ("book", 2)]).await;
    let found = scene.the_one().await;
    assert_eq!(found.deadlock.certainty, Certainty::SameTask);
    assert_closed(&found);
    assert_eq!(chain(&found), [("book", Ahead::Holds, Joined::Task), ("door", Ahead::Holds, Joined::Task)]);
}

/// Has one task take a permit and then the mutex, and another one both in the opposite order.
async fn permit_and_mutex(scene: &Scene, permits: u32) {
    let (gate, door) = (scene.ann.semaphore("gate", permits).unwrap(), scene.ann.mutex("door").unwrap());
    let both_hold = Arc::clone(&scene.both_hold);
    tokio::spawn(async move {
        let _permit = gate.acquire().await.unwrap();
        both_hold.wait().await;
        door.lock().await.map(drop).unwrap();
    });
    let (gate, door) = (scene.bob.semaphore("gate", permits).unwrap(), scene.bob.mutex("door").unwrap());
    let both_hold = Arc::clone(&scene.both_hold);
    tokio::spawn(async move {
        let _door = door.lock().await.unwrap();
        both_hold.wait().await;
        let _permit = gate.acquire().await.unwrap();
        std::future::pending::<()>().await;
    });
}

#[tokio::test(start_paused = true)]
async fn one_permit_and_one_mutex() {
    let scene = Scene::new();
    permit_and_mutex(&scene, 1).await;
    scene.until_contenders([("door", 2), ("gate", 2)]).await;
    let found = scene.the_one().await;
    assert_eq!(found.deadlock.certainty, Certainty::SameTask);
    assert_closed(&found);
    assert_eq!(chain(&found), [("door", Ahead::Holds, Joined::Task), ("gate", Ahead::HasPermit(1), Joined::Task)]);
}

#[tokio::test(start_paused = true)]
async fn another_permit_is_enough_for_none() {
    let scene = Scene::new();
    permit_and_mutex(&scene, 2).await;
    // Both have a permit, and one of them waits for the mutex of the other, which works.
    scene.until_contenders([("door", 2), ("gate", 2)]).await;
    let judged = scene.judged().await;
    assert!(judged.is_empty(), "{judged:#?}");
}

#[tokio::test(start_paused = true)]
async fn tasks_that_hold_and_tasks_that_wait_are_no_deadlock_of_their_process() {
    let scene = Scene::new();
    // Of each client one task holds, and another one waits for what the other client holds.
    for (keeper, locks) in [(&scene.ann, ["door", "gate"]), (&scene.bob, ["gate", "door"])] {
        let [held, wanted] = locks.map(|lock| keeper.mutex(lock).unwrap());
        let both_hold = Arc::clone(&scene.both_hold);
        tokio::spawn(async move {
            let _held = held.lock().await.unwrap();
            both_hold.wait().await;
            tokio::spawn(async move { wanted.lock().await.map(drop) });
            std::future::pending::<()>().await;
        });
    }
    scene.until_contenders([("door", 2), ("gate", 2)]).await;
    let judged = scene.judged().await;
    let said: Vec<_> = judged.iter().map(|judged| (judged.verdict, judged.deadlock.certainty)).collect();
    assert_eq!(said, [(Verdict::Possible, Certainty::SameProcess)], "{judged:#?}");
}
