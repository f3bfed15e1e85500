//! Tests of the worth of a turn when it is granted, and when the one before it is over.

use std::pin::pin;
use std::sync::{Arc, Mutex as StdMutex};
use std::task::{Context, Poll, Wake, Waker};

use lockkeeper_core::{Liveness, SafeUntil};

use crate::contend::local_queue::tests::{SECOND, local, waiting};
use crate::tests::{at_once, service};
use crate::{Handoff, Hold, Spawner};

/// Each turn is worth what a healthy holder has: renewals succeed, and no less is left than they keep it warned by.
#[tokio::test(start_paused = true)]
async fn no_turn_is_granted_of_a_place_whose_session_is_not_renewed_in_time() {
    let spawner = Spawner::new(|watch| drop(tokio::spawn(watch)));
    let keeper = service().keeper_builder().handoff(Handoff::sticky()).spawner(spawner).build();
    let mutex = keeper.mutex("door").unwrap();
    drop(mutex.lock().await.unwrap());
    let session = keeper.shared.kept_opener.present().unwrap();
    let bond = session.bond();
    let until = |seconds| SafeUntil::At(keeper.shared.clock.now().saturating_add(seconds * SECOND));
    bond.set_notice(5 * SECOND);
    for (turn, is_cut) in [(1, true), (2, false)] {
        if is_cut {
            bond.jeopardize(until(10));
        } else {
            bond.renew(until(4));
        }
        let next = waiting(&mutex).await;
        assert!(!next.is_finished(), "turn {turn} is granted of {:?}", bond.liveness());
        assert!(mutex.try_lock().await.unwrap().is_none());
        bond.renew(until(10));
        let guard = at_once("the turn", next).await.unwrap().unwrap();
        assert_eq!(guard.fencing_token().turn(), turn);
        assert!(matches!(guard.hold().liveness(), Liveness::Held { .. }));
    }
}

/// Notes what a hold says at the moment when the next task is woken.
struct Looks {
    before: Hold,
    seen: StdMutex<Option<bool>>,
}

impl Wake for Looks {
    fn wake(self: Arc<Self>) {
        *self.seen.lock().unwrap() = Some(self.before.is_held());
    }
}

#[tokio::test(start_paused = true)]
async fn a_hold_says_that_it_is_over_before_the_next_task_is_woken() {
    let keeper = local(&service());
    let mutex = keeper.mutex("door").unwrap();
    for is_dropped in [true, false] {
        let guard = mutex.lock().await.unwrap();
        let looks = Arc::new(Looks { before: guard.hold().clone(), seen: StdMutex::default() });
        let mut next = pin!(mutex.lock());
        let waker = Waker::from(looks.clone());
        let mut context = Context::from_waker(&waker);
        assert!(next.as_mut().poll(&mut context).is_pending());
        if is_dropped {
            drop(guard);
        } else {
            drop(guard.release());
        }
        assert_eq!(*looks.seen.lock().unwrap(), Some(false), "dropped: {is_dropped}");
        assert!(matches!(next.as_mut().poll(&mut context), Poll::Ready(Ok(_))));
    }
}
