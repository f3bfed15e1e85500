//! First come, first served, and no waiter woken without need: contenders behind a holder are served in the order in
//! which they joined.

use std::collections::VecDeque;

use lockkeeper_core::Modes;
use lockkeeper_recipes::Handoff;

use crate::ask::{Ask, Held, LOCK};
use crate::case::{Case, using};
use crate::fixture::Fixture;
use crate::party::{Party, Waiting, enter_all, give_back, granted};

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
    ];
    let books = vec![
        Case::with("readers and writers are served in the order they joined", (3, READERS_AND_WRITERS), served),
        Case::new("8 writers and the 16 readers behind them are each woken once", herd_woken_once),
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

/// A holder, and the waiters behind it.
pub(crate) struct Queue {
    pub(crate) parties: Vec<Party>,
    holder: Held,
    waiting: VecDeque<(Ask, Waiting<Held>)>,
    /// Whether each that was asked for is a contender, and goes with its release.
    is_counted: bool,
}

impl Queue {
    /// Has the first of these granted, and the others wait for theirs, of so many clients in turn.
    pub(crate) async fn form(fixture: &dyn Fixture, clients: usize, asks: &[Ask]) -> Self {
        let parties = enter_all(fixture, clients).await;
        let holder = parties[0].take(asks[0]).await;
        let mut waiting = VecDeque::with_capacity(asks.len());
        for (party, &ask) in parties.iter().cycle().zip(asks).skip(1) {
            waiting.push_back((ask, party.queue_up_as(ask).await));
        }
        assert!(waiting.iter().all(|(_, waiting)| !waiting.is_finished()), "what is asked for is held by the first");
        // Who is granted permits leaves its place among the waiters in the background.
        let is_counted = fixture.handoff() == Handoff::Strict && !matches!(asks[0], Ask::Permits(..));
        Self { parties, holder, waiting, is_counted }
    }

    /// Has the waiters at these positions give up.
    pub(crate) async fn leave(&mut self, leaves: impl Fn(usize) -> bool) {
        let mut at = 0..;
        self.waiting.retain(|(_, waiting)| {
            let leaves = at.next().is_some_and(&leaves);
            if leaves {
                waiting.abort();
            }
            !leaves
        });
        self.parties[0].until_contenders(LOCK, 1 + self.waiting.len()).await;
    }

    /// Has all served, one after the other, or those together that do not exclude one another.
    pub(crate) async fn serve(self) {
        self.serve_and_check(|_| ()).await;
    }

    /// As [`serve`](Self::serve), where each may be woken once, by the release of the one ahead.
    pub(crate) async fn serve_waking_each_once(self) {
        let taps: Vec<_> = self.parties.iter().map(|party| party.tap.clone()).collect();
        let woken = || taps.iter().map(|tap| tap.departures()).sum::<u64>();
        assert_eq!(woken(), 0, "no waiter is woken while no contender leaves");
        self.serve_and_check(|served| assert_eq!(woken(), served, "wake-ups for {served} grants")).await;
    }

    async fn serve_and_check(mut self, check: impl Fn(u64)) {
        let (mut last_token, mut served) = (self.holder.token(), 0);
        give_back(self.holder).await;
        while let Some((ask, next)) = self.waiting.pop_front() {
            let mut together = vec![granted(next).await];
            while self.waiting.front().is_some_and(|(other, _)| !ask.excludes(*other)) {
                let (_, next) = self.waiting.pop_front().expect("there is one");
                together.push(granted(next).await);
            }
            served += together.len() as u64;
            check(served);
            assert!(self.waiting.iter().all(|(_, other)| !other.is_finished()), "one further behind was served too");
            assert!(together.iter().all(Held::is_held));
            if self.is_counted {
                assert_eq!(self.parties[0].contenders(LOCK).await, self.waiting.len() + together.len());
            }
            for held in together {
                assert!(held.token() > last_token, "{} after {last_token}", held.token());
                last_token = held.token();
                give_back(held).await;
            }
        }
    }
}
