//! A decorator of a backend: it passes everything on, counts, and can make every call yield.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use lockkeeper_core::{
    AdminBackend, Backend, BoxFuture, Capabilities, ConnectionNumber, ContenderId, ContenderInfo, Departure, Enqueued,
    Entry, Error, Expected, Extent, Finding, Follower, Freshness, QueueName, QueueView, Remnant, Request, Result,
    Scope, Scrutiny, Session, SessionBond, Ticket, Value, ValueVersion, Values, Withdrawal,
};

/// When a tapped call is answered.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Pace {
    /// As soon as the backend answers.
    Prompt,
    /// Never at the first poll: each answer is pending exactly once more than the backend makes it. So every await of a
    /// recipe really suspends, and the future can be dropped there.
    YieldOnce,
}

/// A decorator of a backend that changes only the pace, and counts what recipes ask for.
#[derive(Clone, Debug)]
pub struct Tap {
    inner: Arc<dyn Backend>,
    capabilities: Capabilities,
    pace: Pace,
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    sent: AtomicU64,
    joins: AtomicU64,
    waits: AtomicU64,
    departures: AtomicU64,
    changes: AtomicU64,
    looks: AtomicU64,
}

impl Tap {
    /// Taps a backend.
    pub fn new(inner: Arc<dyn Backend>, pace: Pace) -> Self {
        let mut capabilities = *inner.capabilities();
        // At a slower pace no answer comes at once, and the caller is polled before and after.
        capabilities.answers_at_once &= pace == Pace::Prompt;
        Self { inner, capabilities, pace, counts: Arc::default() }
    }

    /// Returns how many requests of any kind were sent, openings of sessions among them.
    pub fn sent(&self) -> u64 {
        self.counts.sent.load(Ordering::SeqCst)
    }

    /// Returns how many joins were sent.
    pub fn joins(&self) -> u64 {
        self.counts.joins.load(Ordering::SeqCst)
    }

    /// Returns how many waits for a departure were begun.
    pub fn waits(&self) -> u64 {
        self.counts.waits.load(Ordering::SeqCst)
    }

    /// Returns how many waits for a departure were answered: how many wake-ups there were.
    pub fn departures(&self) -> u64 {
        self.counts.departures.load(Ordering::SeqCst)
    }

    /// Returns how many waits for a change of a queue were answered.
    pub fn changes(&self) -> u64 {
        self.counts.changes.load(Ordering::SeqCst)
    }

    /// Returns how many looks at a queue were asked for, without the views that come with a place.
    pub fn looks(&self) -> u64 {
        self.counts.looks.load(Ordering::SeqCst)
    }

    /// Counts a request, and returns its answer at this pace.
    fn paced<T: 'static>(&self, answer: BoxFuture<T>) -> BoxFuture<T> {
        self.counts.sent.fetch_add(1, Ordering::SeqCst);
        match self.pace {
            Pace::Prompt => answer,
            Pace::YieldOnce => Box::pin(YieldOnce { answer, yielded: false }),
        }
    }
}

#[deny(clippy::missing_trait_methods)]
impl Backend for Tap {
    fn service(&self) -> String {
        self.inner.service()
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn session(&self) -> BoxFuture<Result<Arc<dyn Session>>> {
        let (opening, tap) = (self.inner.session(), self.clone());
        self.paced(Box::pin(async move {
            let inner = opening.await?;
            let session: Arc<dyn Session> = Arc::new(TapSession { inner, tap });
            Ok(session)
        }))
    }

    fn admin(&self) -> &dyn AdminBackend {
        self
    }

    fn trouble(&self) -> Option<Error> {
        self.inner.trouble()
    }

    fn close(&self) -> BoxFuture<Result<()>> {
        self.paced(self.inner.close())
    }
}

#[deny(clippy::missing_trait_methods)]
impl AdminBackend for Tap {
    fn inspect(&self, queue: &QueueName) -> BoxFuture<Result<Vec<ContenderInfo>>> {
        self.paced(self.inner.admin().inspect(queue))
    }

    fn queues(&self, prefix: &str) -> BoxFuture<Result<Vec<QueueName>>> {
        self.paced(self.inner.admin().queues(prefix))
    }

    fn follow(&self, scope: &Scope) -> Option<Follower> {
        self.inner.admin().follow(scope)
    }

    fn tidy(&self) -> BoxFuture<()> {
        self.paced(self.inner.admin().tidy())
    }

    fn examine(&self, scrutiny: Scrutiny) -> BoxFuture<Result<Vec<Finding>>> {
        // What a keeper looks for by itself belongs to no call.
        match scrutiny {
            Scrutiny::Brief => self.inner.admin().examine(scrutiny),
            _ => self.paced(self.inner.admin().examine(scrutiny)),
        }
    }

    fn remnants(&self, unused_for: Duration) -> BoxFuture<Result<Vec<Remnant>>> {
        self.paced(self.inner.admin().remnants(unused_for))
    }

    fn remove(&self, remnant: &Remnant) -> BoxFuture<Result<bool>> {
        self.paced(self.inner.admin().remove(remnant))
    }

    fn after_restore(&self) -> BoxFuture<Result<Finding>> {
        self.paced(self.inner.admin().after_restore())
    }

    fn limit_session_timeout(&self, timeout_max: Duration) -> BoxFuture<Result<()>> {
        self.paced(self.inner.admin().limit_session_timeout(timeout_max))
    }

    fn set_up(&self) -> BoxFuture<Result<()>> {
        self.paced(self.inner.admin().set_up())
    }

    fn set_up_text(&self) -> Option<String> {
        self.inner.admin().set_up_text()
    }
}

struct TapSession {
    inner: Arc<dyn Session>,
    tap: Tap,
}

#[deny(clippy::missing_trait_methods)]
impl Session for TapSession {
    fn bond(&self) -> &SessionBond {
        self.inner.bond()
    }

    fn is_held_up(&self, queue: &QueueName) -> bool {
        self.inner.is_held_up(queue)
    }

    fn outwait_dead(&self, queue: &QueueName) -> BoxFuture<bool> {
        self.tap.paced(self.inner.outwait_dead(queue))
    }

    fn view(&self, queue: &QueueName, freshness: Freshness, extent: Extent<'_>) -> BoxFuture<Result<QueueView>> {
        self.tap.counts.looks.fetch_add(1, Ordering::SeqCst);
        self.tap.paced(self.inner.view(queue, freshness, extent))
    }

    fn departure(
        &self,
        queue: &QueueName,
        mine: Option<&ContenderId>,
        ahead: &ContenderId,
        seen: ConnectionNumber,
    ) -> BoxFuture<Result<Departure>> {
        let (answer, counts) = (self.inner.departure(queue, mine, ahead, seen), self.tap.counts.clone());
        counts.waits.fetch_add(1, Ordering::SeqCst);
        self.tap.paced(Box::pin(async move {
            let answer = answer.await;
            counts.departures.fetch_add(1, Ordering::SeqCst);
            answer
        }))
    }

    fn hears_of(&self, contender: &ContenderId) -> bool {
        self.inner.hears_of(contender)
    }

    fn enqueue(&self, queue: &QueueName, entries: Vec<Entry>) -> BoxFuture<Result<Vec<Enqueued>>> {
        self.tap.counts.joins.fetch_add(entries.len() as u64, Ordering::SeqCst);
        self.tap.paced(self.inner.enqueue(queue, entries))
    }

    fn enqueue_one(&self, queue: &QueueName, entry: Entry) -> BoxFuture<Result<Enqueued>> {
        self.tap.counts.joins.fetch_add(1, Ordering::SeqCst);
        self.tap.paced(self.inner.enqueue_one(queue, entry))
    }

    fn changed(&self, queue: &QueueName, seen: &QueueView) -> BoxFuture<Result<QueueView>> {
        let (answer, counts) = (self.inner.changed(queue, seen), self.tap.counts.clone());
        self.tap.paced(Box::pin(async move {
            let answer = answer.await;
            counts.changes.fetch_add(1, Ordering::SeqCst);
            answer
        }))
    }

    fn request(&self, queue: &QueueName, contender: &ContenderId, request: Request) -> BoxFuture<Result<bool>> {
        self.tap.paced(self.inner.request(queue, contender, request))
    }

    fn values(&self) -> &dyn Values {
        self
    }

    fn withdraw(&self, queue: &QueueName, ticket: Ticket) -> Withdrawal {
        Withdrawal::under_way(self.tap.paced(Box::pin(self.inner.withdraw(queue, ticket))))
    }

    fn keep(&self, queue: &QueueName, ticket: Ticket) {
        self.inner.keep(queue, ticket);
    }

    fn close(&self) -> BoxFuture<Result<()>> {
        self.tap.paced(self.inner.close())
    }
}

#[deny(clippy::missing_trait_methods)]
impl Values for TapSession {
    fn get(&self, queue: &QueueName) -> BoxFuture<Result<Option<Value>>> {
        self.tap.paced(self.inner.values().get(queue))
    }

    fn set(
        &self,
        queue: &QueueName,
        expected: Expected,
        value: Option<Arc<[u8]>>,
    ) -> BoxFuture<Result<Option<ValueVersion>>> {
        self.tap.paced(self.inner.values().set(queue, expected, value))
    }

    fn until_changed(&self, queue: &QueueName, seen: Option<ValueVersion>) -> BoxFuture<Result<Option<Value>>> {
        self.tap.paced(self.inner.values().until_changed(queue, seen))
    }
}

impl fmt::Debug for TapSession {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("TapSession").field(&self.inner).finish()
    }
}

struct YieldOnce<T> {
    answer: BoxFuture<T>,
    yielded: bool,
}

impl<T> Future for YieldOnce<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        if !self.yielded {
            self.yielded = true;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.answer.as_mut().poll(context)
    }
}
