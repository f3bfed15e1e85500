//! Tasks that wait for each other over a memory service, and what two looks say of them.

use std::any::Any;
use std::sync::Arc;

use lockkeeper::Keeper;
use lockkeeper::clock::Clock;
use lockkeeper::follow::Scope;
use lockkeeper::testing::{MemoryService, TestClock};
use lockkeeper_conformance::until;
use lockkeeper_monitor::{
    AheadRole, CONFIRM_AFTER, Certainty, Confirmation, DeadlockVerdict, Dependence, Judged, find, look,
};
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
        assert_eq!(judged.verdict, DeadlockVerdict::Known);
        judged
    }
}

/// Each link: the lock, what the one ahead does, and what joins it with the next.
fn chain(judged: &Judged) -> Vec<(&str, AheadRole, Dependence)> {
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

/// What a task asks for.
#[derive(Clone, Copy, Debug)]
enum Asks {
    Mutex,
    Share,
    All,
    Permit(u32),
}

/// What it was granted, until it is dropped.
async fn take(keeper: &Keeper, lock: &str, asks: Asks) -> Box<dyn Any + Send> {
    match asks {
        Asks::Mutex => Box::new(keeper.mutex(lock).unwrap().lock().await.unwrap()),
        Asks::Share => Box::new(keeper.rw_lock(lock).unwrap().read().await.unwrap()),
        Asks::All => Box::new(keeper.rw_lock(lock).unwrap().write().await.unwrap()),
        Asks::Permit(permits) => Box::new(keeper.semaphore(lock, permits).unwrap().acquire().await.unwrap()),
    }
}

/// One task has the first and then asks for the mutex, and another one for both in the opposite order.
#[tokio::test(start_paused = true)]
async fn two_tasks_over_a_read_write_lock_or_one_permit_and_a_mutex_are_known_and_another_permit_is_enough() {
    for (lock, held, wanted, state) in [
        ("book", Asks::Share, Asks::All, Some(AheadRole::Holds)),
        ("gate", Asks::Permit(1), Asks::Permit(1), Some(AheadRole::HasPermit(1))),
        ("gate", Asks::Permit(2), Asks::Permit(2), None),
    ] {
        let scene = Scene::new();
        let of_ann = [(lock, held), ("door", Asks::Mutex)];
        for (keeper, [first, second]) in [(&scene.ann, of_ann), (&scene.bob, [("door", Asks::Mutex), (lock, wanted)])] {
            let (keeper, both_hold) = (keeper.clone(), Arc::clone(&scene.both_hold));
            tokio::spawn(async move {
                let _first = take(&keeper, first.0, first.1).await;
                both_hold.wait().await;
                let _second = take(&keeper, second.0, second.1).await;
                std::future::pending::<()>().await;
            });
        }
        scene.until_contenders([("door", 2), (lock, 2)]).await;
        let Some(state) = state else {
            // Both have a permit, and one of them waits for the mutex of the other, which works.
            assert_eq!(scene.judged().await.len(), 0);
            continue;
        };
        let found = scene.the_one().await;
        assert_eq!(found.deadlock.certainty, Certainty::SameTask);
        assert_closed(&found);
        let mut expected = [("door", AheadRole::Holds, Dependence::Task), (lock, state, Dependence::Task)];
        expected.sort_by_key(|&(lock, ..)| lock);
        assert_eq!(chain(&found), expected);
    }
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
    assert_eq!(said, [(DeadlockVerdict::Possible, Certainty::SameProcess)], "{judged:#?}");
}
