//! First come, first served, and no waiter woken without need.

use lockkeeper_core::Modes;

use crate::asking::Ask;
use crate::case::{Case, using};
use crate::fixture::Fixture;
use crate::queue::Queue;

const WAITERS: usize = 10;
const READERS: usize = 20;

/// As in the herd that Curator's users have measured: this many writers wait, and behind them this many readers.
const WRITERS: usize = 8;
const READERS_BEHIND: usize = 16;

/// How many tasks wait on one mutex of one process.
const TASKS: usize = 32;

pub(super) fn cases() -> Vec<Case> {
    let mutexes = vec![
        Case::new("20 contenders are served in the order they joined", async |fixture| {
            Queue::form(fixture, 4, &[Ask::Mutex; 21]).await.serve().await;
        }),
        Case::new("a release wakes the next waiter and no other", async |fixture| {
            Queue::form(fixture, WAITERS, &[Ask::Mutex; 1 + WAITERS]).await.serve_waking_each_once().await;
        }),
        Case::new("32 tasks on one mutex of one keeper cost one join and one wake-up each", costs_one_each),
        Case::new("waiters of one client pass the lock on without a look at the queue", passed_on_without_a_look),
        Case::new("a waiter cancelled in the middle disturbs no other", async |fixture| {
            leaving(fixture, |at| at == 4).await;
        }),
        // The second waiter waits for the first, not for the holder: it has to look again when the first goes.
        Case::new("the waiter just behind the holder can go and the others still get the lock", async |fixture| {
            leaving(fixture, |at| at == 0).await;
        }),
        Case::new("every other waiter goes and the rest are served in order", async |fixture| {
            leaving(fixture, |at| at % 2 == 0).await;
        }),
    ];
    let books = vec![
        Case::new("readers and writers are served in the order they joined", async |fixture| {
            let asks = [Ask::Write, Ask::Read, Ask::Write, Ask::Read, Ask::Read, Ask::Write];
            Queue::form(fixture, 3, &asks).await.serve().await;
        }),
        Case::new("8 writers and the 16 readers behind them are each woken once", herd_woken_once),
        Case::new("readers behind a writer of the same client share without a look", shared_without_a_look),
    ];
    let strict = [using(Modes::MUTEX, mutexes), using(Modes::READ_WRITE, books)].concat();
    let strict = strict.into_iter().map(Case::strict).collect();
    let readers = Case::new("readers that wait for the same writer are all let in by its release", async |fixture| {
        let asks = [vec![Ask::Write], vec![Ask::Read; READERS]].concat();
        Queue::form(fixture, 3, &asks).await.serve().await;
    });
    let mixed = vec![
        Case::new("a mutex, writers and readers of one name are served in the order they joined", async |fixture| {
            let (mutex, write, read) = (Ask::Mutex, Ask::Write, Ask::Read);
            Queue::form(fixture, 3, &[mutex, read, mutex, write, mutex, read, read]).await.serve().await;
        }),
        // Each waits for the nearest one ahead that excludes it, whichever of the two kinds that is.
        Case::new("a mutex, a writer and a reader in one line are each woken once", async |fixture| {
            let asks = [Ask::Mutex, Ask::Write, Ask::Mutex, Ask::Read, Ask::Read];
            Queue::form(fixture, 3, &asks).await.serve_waking_each_once().await;
        }),
    ];
    let permits = Case::new("waiters for permits are served in the order they joined", async |fixture| {
        Queue::form(fixture, 4, &[Ask::Permits(1, 1); 13]).await.serve().await;
    });
    [
        strict,
        vec![readers.uses(Modes::READ_WRITE)],
        using(Modes::MUTEX.with(Modes::READ_WRITE), mixed),
        vec![permits.uses(Modes::SEMAPHORE)],
    ]
    .concat()
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
