//! State that the calls of one session share: the session below, our own claims, and what is known of long queues.

use std::collections::VecDeque;
use std::sync::Arc;

use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{BoxFuture, QueueName, Ticket};
use lockkeeper_session::{Effect, Failure, Mutex};
use tokio::sync::{Notify, oneshot};

use crate::queue::claims::Claims;
use crate::queue::place::Place;
use crate::queue::tail::Tails;
use crate::session::{Core, Link, Removal};

/// What the calls of one session share. Holding it does not keep the session alive.
pub(super) struct Inner {
    pub(super) core: Arc<Core>,
    pub(super) claims: Mutex<Claims>,
    pub(super) tails: Mutex<Tails>,
    /// The places to be watched, and from when on; the first is looked at first.
    pub(super) unwatched: Mutex<VecDeque<(BootInstant, Arc<Place>)>>,
    /// Wakes the guard.
    pub(super) kick: Notify,
    told: Mutex<Told>,
}

/// What a member has told last.
#[derive(Clone, Copy, Debug, Default)]
struct Told {
    /// The number of the connection.
    link: u64,
    /// The revision of the departure that was told.
    revision: i64,
}

impl Inner {
    pub(super) fn new(core: Arc<Core>) -> Self {
        Self {
            core,
            claims: Mutex::default(),
            tails: Mutex::default(),
            unwatched: Mutex::default(),
            kick: Notify::new(),
            told: Mutex::default(),
        }
    }

    /// Gives up the claim of a ticket, if it has one. The slot of a contender that is gone is taken again.
    pub(super) fn end_claim(&self, ticket: Ticket, is_gone: bool) {
        let had_one = self.claims.lock().end(ticket, is_gone);
        if had_one {
            self.core.remove_dependent();
        }
    }

    /// Notes that a departure at this revision was told on this connection.
    pub(super) fn note_told(&self, link: &Link, revision: i64) {
        *self.told.lock() = Told { link: link.number, revision };
    }

    /// Returns the revision of the last departure, if the member behind this connection has told it.
    pub(super) fn told(&self, link: &Link) -> Option<i64> {
        let told = *self.told.lock();
        (told.link == link.number).then_some(told.revision)
    }

    /// Runs something behind all earlier calls on the same lock: it is begun now, whether or not its answer is awaited.
    pub(super) fn run<T: Send + 'static>(
        &self,
        queue: &QueueName,
        work: impl Future<Output = Result<T, Failure>> + Send + 'static,
    ) -> BoxFuture<Result<T, Failure>> {
        let (job, answer) = answered(work);
        self.core.lanes.run(queue, None, job);
        answer
    }

    /// Runs a removal likewise, which the one before it may do too.
    pub(super) fn run_removal<T: Send + 'static>(
        &self,
        queue: &QueueName,
        removal: Arc<Removal>,
        work: impl Future<Output = Result<T, Failure>> + Send + 'static,
    ) -> BoxFuture<Result<T, Failure>> {
        let (job, answer) = answered(work);
        self.core.lanes.run(queue, Some(removal), job);
        answer
    }

    /// Runs a look behind all earlier calls on the same lock: it is begun now, whether or not its answer is awaited.
    pub(super) fn run_look<T: Send + 'static>(
        &self,
        queue: &QueueName,
        work: impl Future<Output = Result<T, Failure>> + Send + 'static,
    ) -> BoxFuture<Result<T, Failure>> {
        let (job, answer) = answered(work);
        self.core.lanes.run_look(queue, job);
        answer
    }
}

/// Parts work from its answer: the work goes on without a caller, and a caller hears if the work cannot go on.
fn answered<T: Send + 'static>(
    work: impl Future<Output = Result<T, Failure>> + Send + 'static,
) -> (impl Future<Output = ()> + Send + 'static, BoxFuture<Result<T, Failure>>) {
    let (give, given) = oneshot::channel();
    let job = async move {
        // The caller may have gone.
        let _ = give.send(work.await);
    };
    let answer = async move { given.await.unwrap_or_else(|_| Err(Failure::broken(Effect::Unknown))) };
    (job, Box::pin(answer))
}
