//! First come, first served, and no waiter woken without need.

use lockkeeper_core::Modes;

use crate::case::Case;
use crate::fixture::Fixture;
use crate::party::{Party, Waiting, enter_all, granted, release};

const CONTENDERS: usize = 20;
const KEEPERS: usize = 4;
const WAITERS: usize = 10;

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("20 contenders are served in the order they joined", in_order).strict(),
        Case::new("a release wakes the next waiter and no other", wakes_the_next).strict(),
        Case::new("waiters of one client pass the lock on without a look at the queue", passed_on_without_a_look)
            .strict(),
        Case::new("readers behind a writer of the same client share without a look", shared_without_a_look)
            .strict()
            .uses(Modes::READ_WRITE),
        Case::new("a waiter cancelled in the middle disturbs no other", cancelled_in_the_middle).strict(),
        Case::new("the waiter just behind the holder can go and the others still get the lock", first_waiter_goes)
            .strict(),
        Case::new("every other waiter goes and the rest are served in order", every_other_goes).strict(),
    ]
}

/// Queues `count` contenders, one after the other, over all parties in turn.
async fn queue_up(parties: &[Party], count: usize) -> Vec<Waiting> {
    let mut waiting = Vec::with_capacity(count);
    for party in parties.iter().cycle().take(count) {
        waiting.push(party.queue_up("line").await);
    }
    waiting
}

/// Takes the grants one after the other. While a lock is held, the waiter behind it must not be granted.
async fn served_in_order(onlooker: &Party, mut waiting: Vec<Waiting>) {
    let mut last_token = None;
    waiting.reverse();
    while let Some(next) = waiting.pop() {
        let guard = granted(next).await;
        assert!(waiting.iter().all(|other| !other.is_finished()), "a waiter further behind was served too");
        assert_eq!(onlooker.contenders("line").await, waiting.len() + 1);
        assert!(Some(guard.fencing_token()) > last_token, "tokens follow the order");
        last_token = Some(guard.fencing_token());
        release(guard).await;
    }
}

async fn in_order(fixture: &dyn Fixture) {
    let parties = enter_all(fixture, KEEPERS).await;
    let holder = parties[0].lock("line").await;
    let waiting = queue_up(&parties, CONTENDERS).await;
    parties[0].until_contenders("line", CONTENDERS + 1).await;
    release(holder).await;
    served_in_order(&parties[0], waiting).await;
}

/// Each release answers one wait for a departure: that of the next in line.
async fn wakes_the_next(fixture: &dyn Fixture) {
    let parties = enter_all(fixture, WAITERS).await;
    let holder = parties[0].lock("line").await;
    let mut waiting = queue_up(&parties, WAITERS).await;
    let wake_ups = || parties.iter().map(|party| party.tap.departures()).sum::<u64>();
    assert_eq!(wake_ups(), 0, "no waiter is woken while no contender leaves");
    release(holder).await;
    waiting.reverse();
    let mut releases = 1;
    while let Some(next) = waiting.pop() {
        let guard = granted(next).await;
        assert_eq!(wake_ups(), releases, "wake-ups after {releases} releases");
        release(guard).await;
        releases += 1;
    }
    assert_eq!(wake_ups(), WAITERS as u64);
}

/// Each waits for a contender that its own client knows to be the first.
async fn passed_on_without_a_look(fixture: &dyn Fixture) {
    let ann = Party::enter(fixture).await;
    let holder = ann.lock("line").await;
    let waiting = queue_up(std::slice::from_ref(&ann), WAITERS).await;
    // One that has its place and does not wait yet looks if the place ahead goes meanwhile.
    ann.until_waits(WAITERS as u64).await;
    release(holder).await;
    served_in_order(&ann, waiting).await;
    assert_eq!(ann.tap.looks(), 0, "looks for {WAITERS} hand-offs");
}

/// A writer may leave a reader in its place, so a caller that asks to write behind one looks; a reader need not.
async fn shared_without_a_look(fixture: &dyn Fixture) {
    let ann = Party::enter(fixture).await;
    let first = ann.write("records").await;
    let second = ann.queue_up_to_write("records").await;
    let mut readers = Vec::new();
    for _ in 0..WAITERS {
        readers.push(ann.queue_up_to_read("records").await);
    }
    // What is known of the queue is shared by those that wait, so all of them wait first.
    ann.until_waits(1 + WAITERS as u64).await;
    release(first).await;
    let second = granted(second).await;
    assert!(readers.iter().all(|reader| !reader.is_finished()), "a writer holds");
    release(second).await;
    for reader in readers {
        release(granted(reader).await).await;
    }
    assert!(ann.tap.looks() <= 1, "{} looks for one writer and {WAITERS} readers", ann.tap.looks());
}

async fn cancelled_in_the_middle(fixture: &dyn Fixture) {
    let parties = enter_all(fixture, 3).await;
    let holder = parties[0].lock("line").await;
    let mut waiting = queue_up(&parties, 3).await;
    waiting.remove(1).abort();
    parties[0].until_contenders("line", 3).await;
    release(holder).await;
    served_in_order(&parties[0], waiting).await;
}

/// The second waiter waits for the first, not for the holder: it has to look again when the first goes.
async fn first_waiter_goes(fixture: &dyn Fixture) {
    let parties = enter_all(fixture, 3).await;
    let holder = parties[0].lock("line").await;
    let mut waiting = queue_up(&parties, 3).await;
    waiting.remove(0).abort();
    parties[0].until_contenders("line", 3).await;
    assert!(waiting.iter().all(|other| !other.is_finished()), "the holder still holds");
    release(holder).await;
    served_in_order(&parties[0], waiting).await;
}

async fn every_other_goes(fixture: &dyn Fixture) {
    let parties = enter_all(fixture, KEEPERS).await;
    let holder = parties[0].lock("line").await;
    let waiting = queue_up(&parties, WAITERS).await;
    let mut staying = Vec::new();
    for (number, contender) in waiting.into_iter().enumerate() {
        if number % 2 == 0 {
            contender.abort();
        } else {
            staying.push(contender);
        }
    }
    parties[0].until_contenders("line", 1 + staying.len()).await;
    release(holder).await;
    served_in_order(&parties[0], staying).await;
}
