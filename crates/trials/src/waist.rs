//! Calls of the waist, without recipes: a session, and the queue `door` in which entries stand; what a call costs
//! behind very many others; and thousands of waits over one connection.
//!
//! # Panics
//!
//! All of these do if the service fails, or takes too long.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use libtest_mimic::Failed;
use lockkeeper_conformance::soon;
use lockkeeper_core::{
    Backend, Departure, Enqueued, Entry, Extent, Freshness, Mode, Owner, QueueName, Session, Ticket,
};
use lockkeeper_faults::{figures, long};
use tokio::sync::mpsc;

use crate::service::{Service, now};

/// How many places are taken in one call.
const AT_ONCE: usize = 500;

/// Opens a session.
pub async fn session(backend: &dyn Backend) -> Arc<dyn Session> {
    soon("a session", backend.session()).await.expect("a session")
}

/// The name of the queue.
pub fn door() -> QueueName {
    QueueName::new("door").expect("a name")
}

/// An entry for a mutex.
pub fn entry(ticket: Ticket) -> Entry {
    Entry::new(ticket, Mode::Mutex, Arc::new(Owner::new("somewhere", 1, "something")))
}

/// A ticket.
pub fn ticket() -> Ticket {
    Ticket::mint().expect("randomness")
}

/// Takes places with these tickets, in their order.
pub async fn join_all(session: &dyn Session, queue: &QueueName, tickets: &[Ticket]) -> Vec<Enqueued> {
    let mut places = Vec::new();
    for tickets in tickets.chunks(AT_ONCE) {
        let entries = tickets.iter().map(|&ticket| entry(ticket)).collect();
        places.extend(soon("the places", session.enqueue(queue, entries)).await.expect("places"));
    }
    places
}

/// The tickets in the queue, in their order.
pub async fn tickets(session: &dyn Session) -> Vec<Option<Ticket>> {
    let viewing = session.view(&door(), Freshness::Latest, Extent::Whole);
    let view = soon("a view", viewing).await.expect("a view");
    view.contenders.iter().map(|contender| contender.ticket).collect()
}

/// A call, and what it may cost.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// What is called.
    pub what: &'static str,
    /// In what its cost is told.
    pub unit: &'static str,
    /// How many stand ahead; in the plain run a tenth.
    pub ahead: u32,
    /// How often each is measured; the medians count.
    pub rounds: usize,
    /// How many times the cost behind none it may be. It counts in the long run, beside which nothing else runs.
    pub times_max: f64,
}

impl Cost {
    /// Measures the call behind so many and behind none, by turns.
    pub async fn compare(
        self,
        backend: &dyn Backend,
        measure: impl AsyncFn(&dyn Session, &QueueName, usize) -> Result<f64, Failed>,
    ) -> Result<(), Failed> {
        let (others, ours) = (session(backend).await, session(backend).await);
        let (long, free) = (QueueName::new("long")?, QueueName::new("free")?);
        let ahead = usize::try_from(long::rounds(self.ahead))?;
        let tickets: Vec<_> = (0..ahead).map(|_| ticket()).collect();
        join_all(&*others, &long, &tickets).await;
        let (mut behind_many, mut behind_none) = (Vec::new(), Vec::new());
        for _ in 0..self.rounds {
            behind_none.push(measure(&*ours, &free, 0).await?);
            behind_many.push(measure(&*ours, &long, ahead).await?);
        }
        let (behind_many, behind_none) = (median(behind_many), median(behind_none));
        let (Self { what, unit, times_max, .. }, times) = (self, behind_many / behind_none);
        figures::tell(&format!(
            "crowd: {what} behind {ahead} costs {behind_many:.1} {unit}, behind none {behind_none:.1}: {times:.2} times"
        ));
        let is_dear = times > times_max && long::is_asked_for();
        assert!(!is_dear, "{what} behind {ahead} costs {times:.2} times one behind none");
        others.close().await?;
        ours.close().await?;
        Ok(())
    }
}

fn median(mut costs: Vec<f64>) -> f64 {
    costs.sort_by(f64::total_cmp);
    costs[costs.len() / 2]
}

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
    let places = join_all(&*ann, &door(), &tickets).await;
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
    assert!(self::tickets(&*bob).await.is_empty(), "all have left");
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
