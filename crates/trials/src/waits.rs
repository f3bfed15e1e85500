//! Thousands of waits at once over one connection: each departure wakes one, soon.

use std::net::SocketAddr;
use std::time::Duration;

use lockkeeper_conformance::soon;
use lockkeeper_core::{Departure, Extent, Freshness};
use lockkeeper_faults::{figures, long};
use tokio::sync::mpsc;

use crate::waist::{self, door, session, ticket};
use crate::{Service, now};

/// How long the last one may take to show itself that is told too often.
const LOOKED_FOR: Duration = Duration::from_millis(300);

/// Has one client take places, and another one wait for each of them; then they are left one by one. Each departure is
/// told to the one wait for it; in the long run, in half of the cases within this time. The plain run has a tenth of
/// the waits.
pub async fn each_is_told(service: &Service, servers: &[SocketAddr], waits: u32, told_within_median: Duration) {
    let backends = ["ann", "bob"].map(|_| service.backend(servers, ""));
    let (ann, bob) = (session(&*backends[0]).await, session(&*backends[1]).await);
    let count = long::rounds(waits) as usize;
    let tickets: Vec<_> = (0..count).map(|_| ticket()).collect();
    let places = waist::join_all(&*ann, &door(), &tickets).await;
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
    assert!(waist::tickets(&*bob).await.is_empty(), "all have left");
    let (slowest, worst) = delays.iter().copied().enumerate().max_by_key(|&(_, delay)| delay).expect("some wait");
    delays.sort_unstable();
    let median = delays[count / 2];
    figures::tell(&format!(
        "waits: {count}, one told by each departure, after {median:?} (median), {worst:?} at most (number {slowest})"
    ));
    assert!(median <= told_within_median || !long::is_asked_for(), "{median:?}");
    for session in [ann, bob] {
        soon("the end", session.close()).await.expect("the end");
    }
}
