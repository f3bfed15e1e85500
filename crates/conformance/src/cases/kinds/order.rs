//! First come, first served, and no waiter woken without need.

use lockkeeper_core::Modes;

use crate::asking::Ask;
use crate::case::{Case, using};
use crate::fixture::Fixture;
use crate::queue::Queue;

const WAITERS: usize = 10;

/// As in the herd that Curator's users have measured: this many writers wait, and behind them this many readers.
const WRITERS: usize = 8;
const READERS_BEHIND: usize = 16;

/// How many tasks wait on one mutex of one process.
const TASKS: usize = 32;

/// Clients, and what they ask for in turn, the first as the holder.
type Line = (usize, &'static [Ask]);

pub(super) fn cases() -> Vec<Case> {
    let both = Modes::MUTEX.with(Modes::READ_WRITE);
    let mutexes = vec![
        Case::with("20 contenders are served in the order they joined", (4, &[Ask::Mutex; 21][..]), served),
        Case::with(
            "a release wakes the next waiter and no other",
            (WAITERS, &[Ask::Mutex; 1 + WAITERS][..]),
            woken_once,
        ),
        Case::new("32 tasks on one mutex of one keeper cost one join and one wake-up each", costs_one_each),
        Case::new("waiters of one client pass the lock on without a look at the queue", passed_on_without_a_look),
        Case::with("a waiter cancelled in the middle disturbs no other", |at| at == 4, leaving),
        // The second waiter waits for the first, not for the holder: it has to look again when the first goes.
        Case::with("the waiter just behind the holder can go and the others still get the lock", |at| at == 0, leaving),
        Case::with("every other waiter goes and the rest are served in order", |at| at % 2 == 0, leaving),
    ];
    let books = vec![
        Case::with("readers and writers are served in the order they joined", (3, READERS_AND_WRITERS), served),
        Case::new("8 writers and the 16 readers behind them are each woken once", herd_woken_once),
        Case::new("readers behind a writer of the same client share without a look", shared_without_a_look),
    ];
    let strict = [using(Modes::MUTEX, mutexes), using(Modes::READ_WRITE, books)].concat();
    let others = vec![
        Case::with("a mutex, writers and readers of one name are served in the order they joined", (3, MIXED), served)
            .uses(both),
        // Each waits for the nearest one ahead that excludes it, whichever of the two kinds that is.
        Case::with("a mutex, a writer and a reader in one line are each woken once", (3, ALL_WOKEN), woken_once)
            .uses(both),
        Case::with(
            "waiters for permits are served in the order they joined",
            (4, &[Ask::Permits(1, 1); 13][..]),
            served,
        )
        .uses(Modes::SEMAPHORE),
    ];
    [strict.into_iter().map(Case::strict).collect(), others].concat()
}

const READERS_AND_WRITERS: &[Ask] = &[Ask::Write, Ask::Read, Ask::Write, Ask::Read, Ask::Read, Ask::Write];
const MIXED: &[Ask] = &[Ask::Mutex, Ask::Read, Ask::Mutex, Ask::Write, Ask::Mutex, Ask::Read, Ask::Read];
const ALL_WOKEN: &[Ask] = &[Ask::Mutex, Ask::Write, Ask::Mutex, Ask::Read, Ask::Read];

async fn served(fixture: &dyn Fixture, (clients, asks): Line) {
    Queue::form(fixture, clients, asks).await.serve().await;
}

async fn woken_once(fixture: &dyn Fixture, (clients, asks): Line) {
    Queue::form(fixture, clients, asks).await.serve_waking_each_once().await;
}

/// CURATOR-716: there, each hand-off woke every task of the process.
async fn costs_one_each(fixture: &dyn Fixture) {
    let queue = Queue::form(fixture, 1, &[Ask::Mutex; 1 + TASKS]).await;
    let tap = queue.parties[0].tap.clone();
    assert_eq!(tap.joins(), 1 + TASKS as u64);
    queue.serve_waking_each_once().await;
    assert_eq!(tap.joins(), 1 + TASKS as u64);
}

/// Each waits for a contender that its own client knows to be the first.
async fn passed_on_without_a_look(fixture: &dyn Fixture) {
    let queue = Queue::form(fixture, 1, &[Ask::Mutex; 1 + WAITERS]).await;
    let ann = queue.parties[0].clone();
    // One that has its place and does not wait yet looks if the place ahead goes meanwhile.
    ann.until_waits(WAITERS as u64).await;
    queue.serve().await;
    assert_eq!(ann.tap.looks(), 0, "looks for {WAITERS} hand-offs");
}

/// A writer may leave a reader in its place, so a caller that asks to write behind one looks; a reader need not.
async fn shared_without_a_look(fixture: &dyn Fixture) {
    let asks = [vec![Ask::Write; 2], vec![Ask::Read; WAITERS]].concat();
    let queue = Queue::form(fixture, 1, &asks).await;
    let ann = queue.parties[0].clone();
    // What is known of the queue is shared by those that wait, so all of them wait first.
    ann.until_waits(1 + WAITERS as u64).await;
    queue.serve().await;
    assert!(ann.tap.looks() <= 1, "{} looks for one writer and {WAITERS} readers", ann.tap.looks());
}

/// A reader waits for the nearest writer ahead. If it watched the oldest, every reader would wake at every writer's
/// release.
async fn herd_woken_once(fixture: &dyn Fixture) {
    let asks = [vec![Ask::Write; 1 + WRITERS], vec![Ask::Read; READERS_BEHIND]].concat();
    Queue::form(fixture, 4, &asks).await.serve_waking_each_once().await;
}

/// Some of the waiters give up.
async fn leaving(fixture: &dyn Fixture, leaves: fn(usize) -> bool) {
    let mut queue = Queue::form(fixture, 4, &[Ask::Mutex; 1 + WAITERS]).await;
    queue.leave(leaves).await;
    queue.serve().await;
}
