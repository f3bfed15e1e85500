//! A wait as its caller has it, and the place where all of them are kept.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use lockkeeper_core::clock::{BootInstant, Clock};
use lockkeeper_core::{FencingToken, QueueName, Ticket};
use lockkeeper_session::Link as _;
use lockkeeper_session::Mutex;
use tokio::sync::{Notify, oneshot};

use crate::engine::WakeMethod;
use crate::session::Link;
use crate::session::waits::handoff_rate::ListenPause;
use crate::session::waits::wait_table::{Line, NextNamedLock, Telling, WaitNumber, WaitTable};
use crate::statement::part_number;

/// How a wait ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Wake {
    /// The contender is gone.
    Departed,
    /// What is waited for may have changed.
    Look,
    /// The connection is over; what happened since is not known.
    ConnectionOver,
}

/// A wait under way. Dropping it ends it.
pub(crate) struct Told {
    end: oneshot::Receiver<Wake>,
    kept: Arc<Kept>,
    clock: Arc<dyn Clock>,
    /// The contender that is waited for; `None` for a change.
    ahead: Option<Ticket>,
    number: WaitNumber,
}

/// All waits of a session.
pub(crate) struct Waits {
    clock: Arc<dyn Clock>,
    kept: Arc<Kept>,
}

struct Kept {
    table: Mutex<WaitTable>,
    /// Told when a wait begins, or another is to be looked at, for each of those who serve waits.
    looks: Notify,
    named_locks: Notify,
    listener: Notify,
}

impl Waits {
    /// Begins with no connection. `seed` spreads its looks. A wait needs no look if the session has listened
    /// for `settled_after`: what was asked before that is answered or refused by then.
    pub(in crate::session) fn new(clock: Arc<dyn Clock>, seed: u64, settled_after: Duration) -> Self {
        let table = Mutex::new(WaitTable::new(seed, settled_after));
        let kept = Kept { table, looks: Notify::new(), named_locks: Notify::new(), listener: Notify::new() };
        Self { clock, kept: Arc::new(kept) }
    }

    /// Begins to wait until a contender departs that was seen over this connection, this many behind the one that
    /// holds or is granted first; for the contender with this token of this queue, or for an onlooker.
    pub(crate) fn departure(
        &self,
        link: &Link,
        ahead: Ticket,
        nearness: usize,
        line: Option<(QueueName, FencingToken)>,
    ) -> Told {
        self.begin(link, Some(ahead), |table, now, tell| table.depart(ahead, nearness, line, now, tell))
    }

    /// Begins to wait until a queue or its value may have changed. It is to begin before the look with which the
    /// caller compares.
    pub(crate) fn change(&self, link: &Link, queue: &QueueName) -> Told {
        let queue = (queue.as_str().to_owned(), part_number(queue.part()));
        self.begin(link, None, |table, now, tell| table.change(queue, now, tell))
    }

    fn begin(
        &self,
        link: &Link,
        ahead: Option<Ticket>,
        note: impl FnOnce(&mut WaitTable, BootInstant, oneshot::Sender<Wake>) -> WaitNumber,
    ) -> Told {
        let (tell, end) = oneshot::channel();
        let mut table = self.kept.table.lock();
        let number = if table.link == Some(link.number) && !link.is_over() {
            note(&mut table, self.clock.now(), tell)
        } else {
            let _ = tell.send(Wake::ConnectionOver);
            0
        };
        drop(table);
        self.kept.notify();
        Told { end, kept: self.kept.clone(), clock: self.clock.clone(), ahead, number }
    }

    /// Whether nothing is waited for.
    pub(in crate::session) fn is_empty(&self) -> bool {
        self.kept.table.lock().is_empty()
    }

    /// Begins with a connection.
    pub(in crate::session) fn attach(&self, link: &Link) {
        let telling = match link.connection.wake_method {
            WakeMethod::Notified => Telling::Soon,
            WakeMethod::NamedLocks | WakeMethod::Polled => Telling::Looks,
        };
        self.kept.table.lock().attach(link.number, telling, link.connection.wake_method == WakeMethod::NamedLocks);
    }

    /// Ends all waits with their connection.
    pub(in crate::session) fn detach(&self) {
        self.kept.table.lock().end();
    }

    /// Notes that a contender has departed: it was told so, or is not there.
    pub(in crate::session) fn departed(&self, ticket: Ticket) {
        self.kept.table.lock().departed(ticket, self.clock.now());
        // The named lock of another one may be next.
        self.kept.notify();
    }

    /// Notes that a contender of our own is gone, by an answer over this connection.
    pub(crate) fn left(&self, link: &Link, ticket: Ticket) {
        let is_present = self.kept.table.lock().link == Some(link.number);
        if is_present {
            self.departed(ticket);
        }
    }

    /// Notes that a queue or its value may have changed.
    pub(super) fn changed(&self, name: &str, part: i64) {
        self.kept.table.lock().changed(name, part);
    }

    /// Returns the contenders that the next beat asks for.
    pub(in crate::session) fn next_awaited(&self) -> Vec<Ticket> {
        self.kept.table.lock().next_awaited()
    }

    /// Whether the server tells this session of departures, for all that is known.
    pub(in crate::session) fn is_told(&self) -> bool {
        matches!(self.kept.table.lock().telling, Telling::Told { .. })
    }

    /// Whether the server has no reason to stop telling this session.
    pub(in crate::session) fn must_be_told(&self) -> bool {
        let table = self.kept.table.lock();
        matches!(table.telling, Telling::Told { .. }) && !table.may_rest
    }

    /// Notes that the server tells this session nothing, though it should.
    pub(in crate::session) fn deafen(&self) {
        tracing::debug!(target: "lockkeeper", "the connection does not listen as it should: waits are looked at");
        self.tell_by(|_| Telling::Looks);
    }

    /// Says how waits are told from now on.
    pub(super) fn tell_by(&self, telling: impl FnOnce(BootInstant) -> Telling) {
        let now = self.clock.now();
        self.kept.table.lock().tell_by(telling(now), now);
        self.kept.looks.notify_one();
    }

    /// When a look is due next.
    pub(super) fn next_due(&self) -> Option<BootInstant> {
        self.kept.table.lock().next_due()
    }

    /// Takes what is to be looked at now.
    pub(super) fn take_due(&self) -> Vec<Ticket> {
        self.kept.table.lock().take_due(self.clock.now())
    }

    /// Notes that a look at these failed.
    pub(super) fn look_again(&self, tickets: &[Ticket]) {
        self.kept.table.lock().look_again(tickets, self.clock.now());
    }

    pub(super) fn next_named_lock(&self) -> NextNamedLock {
        self.kept.table.lock().next_named_lock(self.clock.now())
    }

    pub(super) fn opened(&self, ticket: Ticket) {
        self.kept.table.lock().opened(ticket, self.clock.now());
        self.kept.looks.notify_one();
    }

    /// Waits until a look may be due at another time.
    pub(super) async fn until_looks_change(&self) {
        self.kept.looks.notified().await;
    }

    /// Waits until another named lock may be next.
    pub(super) async fn until_named_locks_change(&self) {
        self.kept.named_locks.notified().await;
    }

    /// Waits until something is waited for.
    pub(super) async fn until_begun(&self) {
        while self.is_empty() {
            self.kept.listener.notified().await;
        }
    }
}

/// What a session that is told needs to know of waits that are far from their turns.
impl Waits {
    /// Waits until the first wait may be far.
    pub(super) async fn until_far(&self) {
        while self.kept.table.lock().far().is_none() {
            self.kept.listener.notified().await;
        }
    }

    /// Returns the first wait if it may be far.
    pub(super) fn far(&self) -> Option<Line> {
        self.kept.table.lock().far()
    }

    /// Returns the first wait if it was counted, and was far.
    pub(super) fn counted_far(&self) -> Option<Line> {
        self.kept.table.lock().counted_far()
    }

    /// Begins to count how many stand ahead of a wait; returns with how many of them the session may rest, if it may.
    pub(super) fn count(&self, line: &Line) -> Option<usize> {
        let mut table = self.kept.table.lock();
        table.handoff_rate.count(line);
        let far = table.handoff_rate.far(self.clock.now());
        table.may_rest = far.is_some();
        far
    }

    /// Notes how many stood ahead of it when that was asked; returns how long the session may rest.
    pub(super) fn counted(&self, line: &Line, ahead: usize, at: BootInstant) -> ListenPause {
        self.kept.table.lock().counted(line, ahead, at)
    }

    /// Whether the queue of the waits moves so quickly that a session rests which is far from its turn.
    pub(super) fn is_quick(&self) -> bool {
        self.kept.table.lock().handoff_rate.far(self.clock.now()).is_some()
    }

    /// Whether there are waits, and none of them comes before this one.
    pub(super) fn are_behind(&self, line: &Line) -> bool {
        self.kept.table.lock().are_behind(line)
    }

    /// Notes whether the session rests now.
    pub(super) fn rests(&self, rests: bool) {
        let mut table = self.kept.table.lock();
        table.may_rest = false;
        if rests {
            table.telling = Telling::Soon;
        }
    }

    /// Waits until nothing waits behind this wait or at its place, or another one comes before it.
    pub(super) async fn until_before(&self, line: &Line) {
        while self.are_behind(line) {
            self.kept.listener.notified().await;
        }
    }
}

impl Kept {
    fn notify(&self) {
        self.looks.notify_one();
        self.named_locks.notify_one();
        self.listener.notify_one();
    }
}

impl Future for Told {
    type Output = Wake;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Wake> {
        // What is not told any more ended with its connection.
        Pin::new(&mut self.end).poll(context).map(|end| end.unwrap_or(Wake::ConnectionOver))
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        self.kept.table.lock().forget(self.ahead, self.number, self.clock.now());
        self.kept.notify();
    }
}
