//! A shared counter: set, compared and set, and watched.

use std::sync::Arc;

use lockkeeper_core::{Advice, ErrorKind, Expected};
use lockkeeper_recipes::{Count, SharedCounter};
use tokio::task::yield_now;

use crate::case::Case;
use crate::fixture::{Fault, FaultKind, Fixture};
use crate::party::{Party, enter_all, parties};
use crate::polls::at_most;
use crate::speaker::{Speaker, line};
use crate::waiting::soon;

pub(super) fn cases() -> Vec<Case> {
    let cutting = |case: Case| case.needs(&[FaultKind::Cut]);
    vec![
        Case::new("a counter that was never set reads 0, and of several first writers one succeeds", first_set),
        Case::new("a counter is set only as it was seen, also by another client", as_seen),
        Case::new("each of several clients sees every change of a counter that it waits for", seen_by_all),
        Case::new("a counter incremented by comparing and setting loses no increment", incremented),
        Case::new("a counter is laid out as four bytes, the highest first", layout),
        cutting(Case::new(
            "a counter's change while cut off is told after healing, and a reconnection is not a change",
            cut_off,
        )),
    ]
}

fn counter(party: &Party) -> SharedCounter {
    party.keeper.shared_counter("number").expect("the name is valid")
}

async fn get(party: &Party) -> Count {
    soon("the number", counter(party).get()).await.expect("it can be read")
}

async fn set(party: &Party, number: i32) -> Count {
    soon("the answer", counter(party).set(number)).await.expect("it can be written")
}

async fn compare_and_set(party: &Party, seen: Count, number: i32) -> Option<Count> {
    soon("the answer", counter(party).compare_and_set(seen, number)).await.expect("it can be written")
}

async fn remove(party: &Party) {
    let value = party.keeper.shared_value("number").expect("the name is valid");
    soon("the answer", value.remove()).await.expect("it can be removed");
}

async fn first_set(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    let (unset, also_unset) = (get(&ann).await, get(&bob).await);
    assert_eq!((unset.number(), unset.version()), (0, None));
    assert!(compare_and_set(&ann, unset, 10).await.is_some());
    assert!(compare_and_set(&bob, also_unset, 20).await.is_none(), "another was first");
    assert_eq!((get(&ann).await.number(), get(&bob).await.number()), (10, 10));
    remove(&ann).await;
    assert_eq!(get(&bob).await, unset);
}

async fn as_seen(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    let mut seen = set(&ann, 0).await;
    let first = seen;
    for number in [1, 5, i32::MAX, i32::MIN, 10] {
        seen = compare_and_set(&ann, seen, number).await.expect("no other client has set it");
        assert_eq!((seen.number(), get(&bob).await), (number, seen));
    }
    assert!(compare_and_set(&ann, first, 7).await.is_none(), "it was in that state once");
    set(&bob, 88).await;
    assert!(compare_and_set(&ann, seen, 234).await.is_none(), "another has set it");
    let (of_ann, of_bob) = (get(&ann).await, get(&bob).await);
    assert!(compare_and_set(&bob, of_bob, 30).await.is_some());
    assert!(compare_and_set(&ann, of_ann, 40).await.is_none());
    let of_ann = get(&ann).await;
    assert!(compare_and_set(&ann, of_ann, 40).await.is_some());
    assert_eq!(get(&bob).await.number(), 40);
    remove(&ann).await;
}

async fn seen_by_all(fixture: &dyn Fixture) {
    const CHANGES: i32 = 30;
    let parties = enter_all(fixture, 5).await;
    let start = set(&parties[0], 0).await;
    let seen_by = Arc::new(tokio::sync::Barrier::new(parties.len()));
    let mut tasks = Vec::new();
    for party in &parties[1..] {
        let (counter, seen_by, mut seen) = (counter(party), seen_by.clone(), start);
        tasks.push(tokio::spawn(async move {
            for number in 1..=CHANGES {
                seen = counter.changed(seen).await.expect("it can be read");
                assert_eq!(seen.number(), number);
                seen_by.wait().await;
            }
        }));
    }
    let all = async {
        for number in 1..=CHANGES {
            set(&parties[0], number).await;
            seen_by.wait().await;
        }
        for task in tasks {
            task.await.expect("each has seen them all");
        }
    };
    soon("all changes", all).await;
    remove(&parties[0]).await;
}

async fn incremented(fixture: &dyn Fixture) {
    let parties = enter_all(fixture, 4).await;
    let mut tasks = Vec::new();
    for party in &parties {
        let counter = counter(party);
        tasks.push(tokio::spawn(async move {
            for _ in 0..10 {
                loop {
                    let seen = counter.get().await.expect("it can be read");
                    yield_now().await;
                    let next = counter.compare_and_set(seen, seen.number() + 1).await;
                    if next.expect("it can be written").is_some() {
                        break;
                    }
                }
            }
        }));
    }
    for task in tasks {
        soon("the increments", task).await.expect("the task does not panic");
    }
    assert_eq!(get(&parties[0]).await.number(), 40);
    remove(&parties[0]).await;
}

async fn layout(fixture: &dyn Fixture) {
    let (ann, eve) = (Party::enter(fixture).await, Speaker::enter(fixture).await);
    for (number, bytes) in [(1, [0, 0, 0, 1]), (-2, [255, 255, 255, 254]), (0x0102_0304, [1, 2, 3, 4])] {
        set(&ann, number).await;
        let value = soon("the value", eve.session.values().get(&line("number"))).await.expect("it can be read");
        assert_eq!(*value.expect("it was set").bytes, bytes);
    }
    let words = eve.session.values().set(&line("number"), Expected::Any, Some(b"seven".as_slice().into()));
    soon("the answer", words).await.expect("it can be written");
    let error = soon("the refusal", counter(&ann).get()).await.expect_err("it is not a counter");
    assert_eq!((error.kind(), error.advice()), (ErrorKind::InvalidRequest, Advice::Permanent), "{error}");
    remove(&ann).await;
}

async fn cut_off(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    let seen = set(&ann, 11).await;
    assert_eq!(get(&bob).await, seen);
    let counter = counter(&bob);
    let mut waiting = Box::pin(counter.changed(seen));
    assert!(at_most(1, &mut waiting).await.is_none());
    bob.inflict(Fault::Cut).await;
    bob.inflict(Fault::Heal).await;
    assert_eq!(get(&bob).await, seen);
    assert!(at_most(1, &mut waiting).await.is_none(), "it was not set");
    bob.inflict(Fault::Cut).await;
    set(&ann, 12).await;
    bob.inflict(Fault::Heal).await;
    let told = soon("the event", waiting).await.expect("a transient error is retried");
    assert_eq!(told.number(), 12);
    remove(&ann).await;
}
