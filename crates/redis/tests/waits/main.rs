//! Thousands of waits at once over one connection: each departure wakes one, soon. It is a separate binary, since it
//! has long rounds.

#[path = "../support/waist.rs"]
mod support;

use std::time::Duration;

use lockkeeper_core::clock::{BootInstant, Clock, SystemClock};
use lockkeeper_core::{Departure, Extent, Freshness};
use lockkeeper_faults::redis::Server;
use lockkeeper_faults::{figures, long};
use tokio::sync::mpsc;

use crate::support::{backend, can_run, door, entry, session, soon, ticket};

/// How many wait in the long run; the plain one has a tenth.
const WAITS: u32 = 20_000;

/// How many places are taken in one call.
const AT_ONCE: usize = 500;

/// How long after a departure was asked for the one behind it is told, at the median.
const TOLD_WITHIN_MEDIAN: Duration = Duration::from_millis(5);

/// How long the last one may take to show itself that is told too often.
const LOOKED_FOR: Duration = Duration::from_millis(300);

fn now() -> BootInstant {
    SystemClock.now()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_departure_is_told_to_the_one_wait_for_it_within_milliseconds() {
    if !can_run() {
        return;
    }
    let server = Server::standalone().await.expect("a server");
    let backends = ["ann", "bob"].map(|_| backend(server.address(), ""));
    let (ann, bob) = (session(&backends[0]).await, session(&backends[1]).await);
    let count = long::rounds(WAITS) as usize;
    let tickets: Vec<_> = (0..count).map(|_| ticket()).collect();
    let mut places = Vec::new();
    for tickets in tickets.chunks(AT_ONCE) {
        let entries = tickets.iter().map(|&ticket| entry(ticket)).collect();
        places.extend(soon("the places", ann.enqueue(&door(), entries)).await.expect("places"));
    }
    let seen = soon("a view", bob.view(&door(), Freshness::Latest, Extent::Whole)).await.expect("a view");
    assert_eq!(seen.contenders.len(), count);
    let (told, mut tellings) = mpsc::unbounded_channel();
    for (number, place) in places.iter().enumerate() {
        let waiting = bob.departure(&door(), None, &place.id, seen.connection);
        let told = told.clone();
        tokio::spawn(async move {
            let departure = waiting.await.expect("the session lives");
            told.send((number, departure, now())).expect("the test listens");
        });
    }
    // Behind all of their first looks, so that no departure waits for those.
    soon("a view", bob.view(&door(), Freshness::Latest, Extent::Around(None))).await.expect("a view");
    let mut delays = Vec::new();
    for (number, &ticket) in tickets.iter().enumerate() {
        let begun = now();
        let withdrawing = ann.withdraw(&door(), ticket);
        let (which, departure, at) = soon("the word", tellings.recv()).await.expect("all wait");
        assert_eq!((which, departure), (number, Departure::Gone));
        soon("the withdrawal", withdrawing).await.expect("it is withdrawn");
        delays.push(at.saturating_duration_since(begun));
    }
    assert!(tokio::time::timeout(LOOKED_FOR, tellings.recv()).await.is_err(), "none is told twice");
    let (slowest, worst) = delays.iter().copied().enumerate().max_by_key(|&(_, delay)| delay).expect("some wait");
    delays.sort_unstable();
    let median = delays[count / 2];
    figures::tell(&format!(
        "waits: {count}, one told by each departure, after {median:?} (median), {worst:?} at most (number {slowest})"
    ));
    assert!(median <= TOLD_WITHIN_MEDIAN, "{median:?}");
    for session in [ann, bob] {
        soon("the end", session.close()).await.expect("the end");
    }
}
