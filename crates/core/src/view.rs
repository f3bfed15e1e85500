//! What a view of a queue shows.

use std::sync::{Arc, OnceLock};

use crate::contender::{Contender, ContenderId, Mode};
use crate::view_index::{INDEXED_MIN, Index};

/// The connection on which something was seen. What was seen on one connection proves nothing on another.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ConnectionNumber(pub u64);

/// How fresh a view must be.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "each backend answers every one")]
pub enum Freshness {
    /// It shows all writes, of every client, that were acknowledged before the call, or a later state.
    Latest,
    /// It is of a session that stands in the queue and was just told of a departure there. It shows that departure, and
    /// every contender that is ahead of us or was a moment ago. Where that is cheaper, it may leave out the contenders
    /// that joined since, behind us.
    AfterDeparture,
}

/// What a mutex is to a read/write lock of the same name.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "the decision is complete over it")]
pub enum MutexRole {
    /// The exclusive side of it: both are one lock with one queue. This holds for every name of our own.
    #[default]
    Writer,
    /// Another kind of lock, which never waits in the same queue. This holds for a path that is shared with other
    /// clients, whose mutexes and read/write locks do not see each other.
    Stranger,
}

/// A queue as it stood at one moment, first contender first.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct QueueView {
    /// The connection that the view was seen on.
    pub connection: ConnectionNumber,
    /// The contenders in their order; permits are in no order.
    pub contenders: Arc<[Contender]>,
    /// What a contender asks for in a queue of the same lock that belongs to another kind of lock: a permit, seen from
    /// the queue of a mutex, or the reverse.
    pub elsewhere: Option<Mode>,
    /// What a mutex is in this queue to a read/write lock.
    pub mutex_role: MutexRole,
    /// The mode in which candidates appear here: that of a mutex where an election is laid out as one.
    pub candidate: Mode,
    /// All copies share it, as they share the contenders.
    pub(crate) index: Arc<OnceLock<Index>>,
}

impl QueueView {
    /// Makes the view of a queue on a name of our own, whose lock is not used as another kind.
    pub fn new(connection: ConnectionNumber, contenders: impl Into<Arc<[Contender]>>) -> Self {
        let (mutex_role, candidate) = (MutexRole::default(), Mode::Candidate);
        let (contenders, index) = (contenders.into(), Arc::default());
        Self { connection, contenders, elsewhere: None, mutex_role, candidate, index }
    }

    /// Returns how many contenders stand ahead of this one; `None` if it does not stand in the queue.
    pub fn position(&self, id: &ContenderId) -> Option<usize> {
        match self.index() {
            Some(index) => index.position(id),
            None => self.contenders.iter().position(|contender| contender.id == *id),
        }
    }

    /// Returns the first mode of this kind that a contender asks for.
    pub fn first_mode(&self, is_meant: impl Fn(Mode) -> bool) -> Option<Mode> {
        match self.index() {
            Some(index) => index.modes().find(|&mode| is_meant(mode)),
            None => self.contenders.iter().map(|contender| contender.mode).find(|&mode| is_meant(mode)),
        }
    }

    /// Returns the index of a queue that is long enough for one.
    fn index(&self) -> Option<&Index> {
        if self.contenders.len() < INDEXED_MIN {
            return None;
        }
        let index = self.index.get_or_init(|| Index::new(self.contenders.clone()));
        // The field `contenders` is public, so it may have been replaced since.
        index.is_of(&self.contenders).then_some(index)
    }
}
