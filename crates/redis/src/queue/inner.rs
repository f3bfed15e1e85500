//! What the parts of a session's queues share: the session below, and our own entries.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lockkeeper_core::{ContenderId, Error, ErrorKind, Operation, QueueName, Result};
use lockkeeper_session::{Entries, Failure};
use redis::Value;

use crate::answers::only;
use crate::connection::{Flight, answer};
use crate::queue::guard::Young;
use crate::queue::place::Place;
use crate::script::Script;
use crate::session::{Core, Link, Make};

/// What the parts of a session's queues share. Holding it does not keep the session alive.
pub(super) struct Inner {
    pub(super) core: Arc<Core>,
    entries: Mutex<Entries<Place>>,
    pub(super) young: Young,
}

/// What a look shows, and the connection over which it was answered.
pub(super) type Looked<T> = (Arc<Link>, T);

impl Inner {
    pub(super) fn new(core: Arc<Core>) -> Self {
        Self { core, entries: Mutex::default(), young: Young::default() }
    }

    /// No code panics while the entries are locked, so a panic elsewhere leaves them whole.
    pub(super) fn entries(&self) -> MutexGuard<'_, Entries<Place>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finds the place of a contender of ours.
    pub(super) fn place_of(&self, queue: &QueueName, id: &ContenderId) -> Option<Arc<Place>> {
        self.entries().find(queue, id).cloned()
    }

    /// Refuses a call for a name that no lock can have, or under a session that is lost.
    pub(super) fn check(&self, operation: Operation, queue: &QueueName) -> Result<()> {
        if let Some(why) = self.core.layout.refusal(queue) {
            return Err(Error::permanent(ErrorKind::InvalidName, operation, why).at(queue));
        }
        self.core.life.check(operation).map_err(|error| error.at(queue))
    }

    pub(super) fn fail(&self, failure: Failure, operation: Operation, is_write: bool, queue: &QueueName) -> Error {
        self.core.life.fail(failure, operation, is_write).at(queue)
    }

    pub(super) fn over(&self, operation: Operation, queue: &QueueName) -> Error {
        self.core.life.over(operation).at(queue)
    }

    /// Makes the call of one script.
    pub(super) fn run(&self, script: Script, arguments: Vec<Vec<u8>>, operation: Operation) -> Make<Looked<Value>> {
        // A call does not keep the session's parts for longer than they live.
        let core = Arc::downgrade(&self.core);
        Arc::new(move |link: &Arc<Link>| {
            let Some(core) = core.upgrade() else {
                return Box::pin(std::future::ready(Err(Failure::session_gone())));
            };
            let script = core.layout.script(script);
            let flight = Flight::new().script(script, &[core.layout.base()], &arguments[..]);
            let (asking, link) = (core.fly(link, flight, operation), link.clone());
            Box::pin(async move { Ok((link, answer(only(asking.await?)?, script.name)?)) })
        })
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Inner").field(&self.core).finish()
    }
}

/// The arguments of a script.
pub(super) fn arguments<const N: usize>(texts: [&str; N]) -> Vec<Vec<u8>> {
    texts.into_iter().map(|text| text.as_bytes().to_vec()).collect()
}
