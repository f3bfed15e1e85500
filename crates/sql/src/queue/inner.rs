//! What the parts of a session's queues share: the session below, and our own entries.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lockkeeper_core::{ContenderId, Error, Operation, QueueName, Result};
use lockkeeper_session::{Entries, Failure, Link as _};

use crate::queue::change::Watches;
use crate::queue::place::Place;
use crate::queue::rows::Answer;
use crate::session::{Core, Link, Make};
use crate::statement::{Argument, Statement, part_number};

/// What the parts of a session's queues share. Holding it does not keep the session alive.
pub(super) struct Inner {
    pub(super) core: Arc<Core>,
    entries: Mutex<Entries<Place>>,
    pub(super) watches: Watches,
}

/// What was answered, and the connection over which it was.
pub(super) type Answered = (Arc<Link>, Answer);

impl Inner {
    pub(super) fn new(core: Arc<Core>) -> Self {
        Self { core, entries: Mutex::default(), watches: Watches::default() }
    }

    /// No code panics while the entries are locked, so a panic elsewhere leaves them whole.
    pub(super) fn entries(&self) -> MutexGuard<'_, Entries<Place>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finds the place of a contender of ours.
    pub(super) fn place_of(&self, queue: &QueueName, id: &ContenderId) -> Option<Arc<Place>> {
        self.entries().find(queue, id).cloned()
    }

    /// Refuses a call under a session that is lost.
    pub(super) fn check(&self, operation: Operation, queue: &QueueName) -> Result<()> {
        self.core.life.check(operation).map_err(|error| error.at(queue))
    }

    pub(super) fn fail(&self, failure: Failure, operation: Operation, is_write: bool, queue: &QueueName) -> Error {
        self.core.life.fail(failure, operation, is_write).at(queue)
    }

    pub(super) fn over(&self, operation: Operation, queue: &QueueName) -> Error {
        self.core.life.over(operation).at(queue)
    }

    /// Makes the call of one statement.
    pub(super) fn run(&self, statement: Statement, operation: Operation) -> Make<Answered> {
        // A call does not keep the session's parts for longer than they live.
        let core = Arc::downgrade(&self.core);
        Arc::new(move |link: &Arc<Link>| {
            let Some(core) = core.upgrade() else {
                return Box::pin(std::future::ready(Err(Failure::session_gone())));
            };
            let (asking, link) = (core.ask(link, statement.clone(), operation), link.clone());
            Box::pin(async move { Ok((link, Answer::read(asking.await?)?)) })
        })
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Inner").field(&self.core).finish()
    }
}

/// How a statement names a queue: its name, and its part.
pub(super) fn named(queue: &QueueName) -> [Argument; 2] {
    [Argument::Text(queue.as_str().to_owned()), Argument::Int(part_number(queue.part()))]
}

/// Ends the use of a connection that is not the session's any more: another one has taken over.
pub(super) fn stale(link: &Link) -> Failure {
    link.shut();
    Failure::superseded()
}
