//! Remnants of users: they are listed and removed beside those who use the service, and none of them loses by it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use lockkeeper_core::{Modes, RemnantKind};
use lockkeeper_recipes::LockKind;

use crate::case::Case;
use crate::fixture::Fixture;
use crate::party::{Party, enter_all, granted, parties, release};
use crate::waiting::soon;

/// How many clients come and go, and how often each of them does.
const CLIENTS: usize = 4;
const ROUNDS: usize = 12;

/// How many locks they use: few, so that each is empty now and then, and in use again at once.
const LOCKS: usize = 3;

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("what lives, is frozen or has a value is no remnant, and outlives the removal of all", spares)
            .uses(Modes::MUTEX),
        Case::new("remnants are removed while clients come and go, and none of these loses its lock", beside_others)
            .uses(Modes::MUTEX),
    ]
}

/// Removes all that is found, and returns how much there was of each kind but empty queues.
async fn remove_all(party: &Party) -> Vec<(RemnantKind, String)> {
    let found = soon("the remnants", party.keeper.admin().remnants(Duration::ZERO)).await.expect("they are listed");
    for remnant in &found {
        soon("the removal", party.keeper.admin().remove_remnant(remnant)).await.expect("it is removed or left");
    }
    let contenders = found.into_iter().filter(|remnant| remnant.kind != RemnantKind::Empty);
    contenders.map(|remnant| (remnant.kind, remnant.place)).collect()
}

async fn spares(fixture: &dyn Fixture) {
    let [ann, bob, eve] = parties(fixture).await;
    let held = ann.lock("door").await;
    let waiting = bob.queue_up("door").await;
    ann.freeze("gate", LockKind::Mutex, "new locks").await;
    let value = ann.keeper.shared_value("number").expect("the name is valid");
    soon("the write", value.set(b"7")).await.expect("it is written");
    release(bob.lock("left").await).await;

    for _ in 0..2 {
        assert_eq!(remove_all(&eve).await, []);
    }
    assert!(held.hold().is_held() && !waiting.is_finished());
    let shown = eve.shown("gate").await;
    assert_eq!(shown.iter().map(|shown| shown.frozen.as_deref()).collect::<Vec<_>>(), [Some("new locks")]);
    let read = soon("the value", value.get()).await.expect("it can be read").expect("it is there");
    assert_eq!(&*read.bytes, b"7");
    release(held).await;
    release(granted(waiting).await).await;
    release(eve.lock("left").await).await;
    assert_eq!(soon("the thaw", eve.keeper.admin().thaw("gate")).await.expect("it is thawed").len(), 1);
    soon("the removal", value.remove()).await.expect("it is removed");
}

async fn beside_others(fixture: &dyn Fixture) {
    let eve = Party::enter(fixture).await;
    let (left, inside) = (Arc::new(AtomicU64::new(CLIENTS as u64)), Arc::new(<[AtomicBool; LOCKS]>::default()));
    let mut clients = Vec::new();
    for (number, party) in enter_all(fixture, CLIENTS).await.into_iter().enumerate() {
        let (left, inside) = (left.clone(), inside.clone());
        clients.push(tokio::spawn(async move {
            for round in 0..ROUNDS {
                let lock = (number + round) % LOCKS;
                let guard = party.lock(&format!("door-{lock}")).await;
                assert!(!inside[lock].swap(true, Ordering::SeqCst), "another one is inside");
                tokio::task::yield_now().await;
                assert!(guard.hold().is_held(), "round {round}: {:?}", guard.hold());
                inside[lock].store(false, Ordering::SeqCst);
                release(guard).await;
            }
            left.fetch_sub(1, Ordering::SeqCst);
        }));
    }
    while left.load(Ordering::SeqCst) > 0 && clients.iter().any(|client| !client.is_finished()) {
        // One that is just leaving may be seen as one that has ended; none stands without a session.
        let contenders = remove_all(&eve).await;
        assert!(contenders.iter().all(|(kind, _)| *kind == RemnantKind::Dead), "{contenders:?}");
        tokio::task::yield_now().await;
    }
    for client in clients {
        soon("a client", client).await.expect("it was granted its lock in each round");
    }
}
