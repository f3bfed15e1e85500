//! What the parts of a session's queues share: the session below, and our own entries.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{BoxFuture, ContenderId, Error, ErrorKind, Operation, QueueName, Result};
use lockkeeper_session::Failure;
use tokio::sync::{Notify, oneshot};

use crate::queue::entries::Entries;
use crate::queue::place::Place;
use crate::queue::tail::Tails;
use crate::rpc::{Answer, Call};
use crate::session::{Core, Link};

/// How often a look is tried again after a lost connection; each attempt waits for the next connection.
const LOOK_ATTEMPTS_MAX: u32 = 4;

/// What the parts of a session's queues share. Holding it does not keep the session alive.
pub(super) struct Inner {
    pub(super) core: Arc<Core>,
    entries: Mutex<Entries>,
    tails: Mutex<Tails>,
    /// The places to be watched, and from when on; the first is looked at first.
    unwatched: Mutex<VecDeque<(BootInstant, Arc<Place>)>>,
    /// Wakes the guard.
    pub(super) kick: Notify,
    /// The connection on which a departure was told last.
    told_on: AtomicU64,
}

impl Inner {
    pub(super) fn new(core: Arc<Core>) -> Self {
        Self {
            core,
            entries: Mutex::default(),
            tails: Mutex::default(),
            unwatched: Mutex::default(),
            kick: Notify::new(),
            told_on: AtomicU64::new(0),
        }
    }

    /// No code panics while the entries are locked, so a panic elsewhere leaves them whole.
    pub(super) fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nothing panics while the tails are locked.
    pub(super) fn tails(&self) -> MutexGuard<'_, Tails> {
        self.tails.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn unwatched(&self) -> MutexGuard<'_, VecDeque<(BootInstant, Arc<Place>)>> {
        self.unwatched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finds the place of a contender of ours.
    pub(super) fn place_of(&self, queue: &QueueName, id: &ContenderId) -> Option<Arc<Place>> {
        self.entries().find(queue, id).cloned()
    }

    /// Notes that a departure was told on this connection.
    pub(super) fn told_on(&self, connection: u64) {
        self.told_on.store(connection, Ordering::SeqCst);
    }

    /// Whether the member behind this connection has told the last departure, and so has applied it.
    pub(super) fn has_told(&self, link: &Link) -> bool {
        self.told_on.load(Ordering::SeqCst) == link.number
    }

    /// Refuses a call under a session that is lost, or on a lock whose name the service has no place for.
    pub(super) fn check(&self, operation: Operation, queue: &QueueName) -> Result<()> {
        if let Some(why) = self.core.layout.refusal(queue) {
            return Err(Error::permanent(ErrorKind::InvalidName, operation, why).at(queue));
        }
        self.core.life.check(operation).map_err(|error| error.at(queue))
    }

    pub(super) fn fail(&self, failure: Failure, operation: Operation, is_write: bool, queue: &QueueName) -> Error {
        self.core.fail(failure, operation, is_write).at(queue)
    }

    pub(super) fn over(&self, operation: Operation, queue: &QueueName) -> Error {
        self.core.life.over(operation).at(queue)
    }

    /// Runs something behind all earlier calls on the same lock: it is begun now, whether or not its answer is awaited.
    pub(super) fn run<T: Send + 'static>(
        self: &Arc<Self>,
        operation: Operation,
        queue: &QueueName,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> BoxFuture<Result<T>> {
        let (job, answer) = self.answered(operation, queue, work);
        self.core.run(queue, job);
        answer
    }

    /// Runs a look behind all earlier calls on the same lock: it is begun now, whether or not its answer is awaited.
    pub(super) fn run_look<T: Send + 'static>(
        self: &Arc<Self>,
        operation: Operation,
        queue: &QueueName,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> BoxFuture<Result<T>> {
        let (job, answer) = self.answered(operation, queue, work);
        self.core.run_look(queue, job);
        answer
    }

    /// Parts work from its answer: the work goes on without a caller, and a caller hears if the work cannot go on.
    fn answered<T: Send + 'static>(
        self: &Arc<Self>,
        operation: Operation,
        queue: &QueueName,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> (impl Future<Output = ()> + Send + 'static, BoxFuture<Result<T>>) {
        let (answer, answered) = oneshot::channel();
        let job = async move {
            // The caller may have gone.
            let _ = answer.send(work.await);
        };
        let (inner, queue) = (self.clone(), queue.clone());
        (job, Box::pin(async move { answered.await.unwrap_or_else(|_| Err(inner.over(operation, &queue))) }))
    }

    /// Looks over the present connection, or over the next ones if that fails.
    pub(super) async fn look<C: Call<Answer: Answer>>(
        &self,
        operation: Operation,
        request: impl Fn(&Link) -> Look<C>,
    ) -> Result<(Arc<Link>, C::Answer), Failure> {
        let deadline = self.core.life.deadline();
        let mut attempt = 1;
        loop {
            let link = self.core.life.next_link_until(deadline).await?;
            let answer = match request(&link) {
                Look::Quorum(request) => self.core.ask(&link, request, operation, deadline).await,
                Look::Member(request) => self.core.send(&link, request, operation, deadline).await,
            };
            match answer {
                Ok(answer) => return Ok((link, answer)),
                Err(failure) if failure.is_passing() && attempt < LOOK_ATTEMPTS_MAX => {
                    attempt += 1;
                    self.core.after(&failure, &link, deadline).await;
                }
                Err(failure) => return Err(failure),
            }
        }
    }
}

/// Who answers a look.
#[derive(Debug)]
pub(super) enum Look<C> {
    /// A quorum: it shows everything that was acknowledged to any client before.
    Quorum(C),
    /// The member that we are connected to, from what it has applied.
    Member(C),
}

impl fmt::Debug for Inner {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Inner").field(&self.core).finish()
    }
}
