//! All waits of a session, for the departure of a contender and for the change of a queue or its value, each as its
//! caller has it.
//!
//! What ends them: what the server tells, a look at all that are due, a beat's answer, or a named lock that is free.
//! All end with the connection.

mod handoff_rate;
mod wait_table;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use lockkeeper_core::clock::{BootInstant, Clock};
use lockkeeper_core::{FencingToken, QueueName, Ticket};
use lockkeeper_session::Link as _;
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};

use crate::engine::WakeMethod;
use crate::look::SqlLink;
use crate::session::waits::wait_table::{WaitNumber, WaitTable};
use crate::statement::part_number;

pub(super) use handoff_rate::{COUNTED_MAX, ListenPause, WaitLine};
pub(crate) use wait_table::WaitEnd;
pub(super) use wait_table::WakeState;

/// A wait under way. Dropping it ends it.
pub(crate) struct WaitHandle {
    end: oneshot::Receiver<WaitEnd>,
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
    /// Notified when a wait begins, or another is to be looked at, for each of those who serve waits.
    looks: Notify,
    named_locks: Notify,
    listener: Notify,
}

impl Waits {
    /// Begins with no connection. `seed` spreads its looks. A wait needs no look if the session has listened
    /// for `settled_after`: what was asked before that is answered or refused by then.
    pub(crate) fn new(clock: Arc<dyn Clock>, seed: u64, settled_after: Duration) -> Self {
        let table = Mutex::new(WaitTable::new(seed, settled_after));
        let kept = Kept { table, looks: Notify::new(), named_locks: Notify::new(), listener: Notify::new() };
        Self { clock, kept: Arc::new(kept) }
    }

    /// Does something with the table of the waits, at this moment.
    pub(crate) fn on_table<T>(&self, act: impl FnOnce(&mut WaitTable, BootInstant) -> T) -> T {
        let mut table = self.kept.table.lock();
        act(&mut table, self.clock.now())
    }

    /// Begins to wait until a contender departs that was seen over this connection, this many behind the one that
    /// holds or is granted first; for the contender with this token of this queue, or for an onlooker.
    pub(crate) fn departure(
        &self,
        link: &SqlLink,
        ahead: Ticket,
        nearness: usize,
        line: Option<(QueueName, FencingToken)>,
    ) -> WaitHandle {
        self.begin(link, Some(ahead), |table, now, tell| table.depart(ahead, nearness, line, now, tell))
    }

    /// Begins to wait until a contender departs that was seen over this connection, or seems to stay.
    pub(crate) fn departure_if_dead(&self, link: &SqlLink, of: Ticket) -> WaitHandle {
        self.begin(link, Some(of), |table, now, tell| table.depart_if_dead(of, now, tell))
    }

    /// Begins to wait until a queue or its value may have changed. It is to begin before the look with which the
    /// caller compares.
    pub(crate) fn change(&self, link: &SqlLink, queue: &QueueName) -> WaitHandle {
        let queue = (queue.as_str().to_owned(), part_number(queue.part()));
        self.begin(link, None, |table, now, tell| table.change(queue, now, tell))
    }

    fn begin(
        &self,
        link: &SqlLink,
        ahead: Option<Ticket>,
        note: impl FnOnce(&mut WaitTable, BootInstant, oneshot::Sender<WaitEnd>) -> WaitNumber,
    ) -> WaitHandle {
        let (tell, end) = oneshot::channel();
        let mut table = self.kept.table.lock();
        let number = if table.link == Some(link.number) && !link.is_over() {
            note(&mut table, self.clock.now(), tell)
        } else {
            let _ = tell.send(WaitEnd::ConnectionOver);
            0
        };
        drop(table);
        self.kept.notify();
        WaitHandle { end, kept: self.kept.clone(), clock: self.clock.clone(), ahead, number }
    }

    /// Begins with a connection.
    pub(crate) fn attach(&self, link: &SqlLink) {
        let telling = match link.connection.wake_method {
            WakeMethod::Notified => WakeState::Soon,
            WakeMethod::NamedLocks | WakeMethod::Polled => WakeState::Looks,
        };
        self.kept.table.lock().attach(link.number, telling, link.connection.wake_method == WakeMethod::NamedLocks);
    }

    /// Notes that a contender has departed: it was told so, or is not there.
    pub(crate) fn departed(&self, ticket: Ticket) {
        self.on_table(|table, now| table.departed(ticket, now));
        // The named lock of another one may be next.
        self.kept.notify();
    }

    /// Notes that a contender of our own is gone, by an answer over this connection.
    pub(crate) fn left(&self, link: &SqlLink, ticket: Ticket) {
        let is_present = self.kept.table.lock().link == Some(link.number);
        if is_present {
            self.departed(ticket);
        }
    }

    /// Notes that the server tells this session nothing, though it should.
    pub(crate) fn mark_unnotified(&self) {
        tracing::debug!(target: "lockkeeper", "the connection does not listen as it should: waits are looked at");
        self.tell_by(|_| WakeState::Looks);
    }

    /// Says how waits are told from now on.
    pub(super) fn tell_by(&self, telling: impl FnOnce(BootInstant) -> WakeState) {
        self.on_table(|table, now| table.tell_by(telling(now), now));
        self.kept.looks.notify_one();
    }

    /// Notes that the named lock of a contender was free, though the contender may stand.
    pub(super) fn opened(&self, ticket: Ticket) {
        self.on_table(|table, now| table.opened(ticket, now));
        self.kept.looks.notify_one();
    }

    /// Waits until a look may be due at another time.
    pub(super) async fn until_looks_change(&self) {
        self.kept.looks.notified().await;
    }

    pub(super) async fn until_named_locks_change(&self) {
        self.kept.named_locks.notified().await;
    }

    pub(super) async fn while_so(&self, is_so: impl Fn(&WaitTable) -> bool + Send) {
        while is_so(&self.kept.table.lock()) {
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

impl Future for WaitHandle {
    type Output = WaitEnd;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<WaitEnd> {
        // What is not told any more ended with its connection.
        Pin::new(&mut self.end).poll(context).map(|end| end.unwrap_or(WaitEnd::ConnectionOver))
    }
}

impl Drop for WaitHandle {
    fn drop(&mut self) {
        self.kept.table.lock().forget(self.ahead, self.number, self.clock.now());
        self.kept.notify();
    }
}
