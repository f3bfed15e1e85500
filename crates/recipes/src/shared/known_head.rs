//! This process's knowledge of the first contender of a queue, from all its contenders there.
//!
//! A waiter keeps no list, so the departure of the one ahead proves its turn only if it saw that one first in the
//! queue. But the one ahead may be another contender of this process, which has learnt since that it is first, or a
//! third contender may have seen it first. A contender that once stood first never stands behind another one
//! afterwards, since none joins ahead of others. So an entry is never taken back, and a forgotten one costs a list.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Weak};

use lockkeeper_core::{ConnectionNumber, ContenderId, QueueName, QueueView, Session};
use parking_lot::Mutex;

/// How many contenders that were seen first are remembered for each queue: usually the last one is needed, and one or
/// two before it while answers are read late.
const FIRSTS_MAX: usize = 4;

/// How many queues are remembered before those in which no contender of ours waits any more are forgotten.
const QUEUES_MIN: usize = 64;

/// The contenders that were seen first in a queue, on one connection.
#[derive(Debug)]
struct Firsts {
    connection: ConnectionNumber,
    seen: VecDeque<ContenderId>,
}

impl Firsts {
    /// Notes that no contender stands ahead of this one. What was seen on an earlier connection does not count any
    /// more.
    fn note(&mut self, connection: ConnectionNumber, first: &ContenderId) {
        if connection < self.connection || (connection == self.connection && self.seen.contains(first)) {
            return;
        }
        if connection > self.connection {
            self.connection = connection;
            self.seen.clear();
        }
        if self.seen.len() == FIRSTS_MAX {
            self.seen.pop_front();
        }
        self.seen.push_back(first.clone());
    }

    fn has(&self, connection: ConnectionNumber, id: &ContenderId) -> bool {
        connection == self.connection && self.seen.contains(id)
    }
}

/// What is known of one queue under one session, shared by all our waiters there.
#[derive(Debug)]
pub(crate) struct KnownHead {
    session: Arc<dyn Session>,
    firsts: Mutex<Firsts>,
}

impl KnownHead {
    fn new(session: Arc<dyn Session>) -> Self {
        let firsts = Mutex::new(Firsts { connection: ConnectionNumber(0), seen: VecDeque::new() });
        Self { session, firsts }
    }

    /// Notes what a view shows.
    pub(crate) fn note_view(&self, view: &QueueView) {
        if let Some(first) = view.contenders.first() {
            self.note(view.connection, &first.id);
        }
    }

    /// Notes that no contender stands ahead of this one.
    pub(crate) fn note(&self, connection: ConnectionNumber, first: &ContenderId) {
        self.firsts.lock().note(connection, first);
    }

    /// Whether it is known, from this connection, that no contender stood ahead of this one.
    pub(crate) fn is_first(&self, connection: ConnectionNumber, id: &ContenderId) -> bool {
        self.firsts.lock().has(connection, id)
    }
}

/// What a keeper knows of the queues in which its contenders wait.
#[derive(Debug, Default)]
pub(crate) struct KnownHeads {
    queues: Mutex<HeadsByQueue>,
}

#[derive(Debug, Default)]
struct HeadsByQueue {
    by_name: BTreeMap<QueueName, Weak<KnownHead>>,
    /// How many there were when those without waiters were forgotten last.
    kept: usize,
}

impl KnownHeads {
    /// Returns what is known of a queue under a session, while any waiter keeps it.
    pub(crate) fn of(&self, queue: &QueueName, session: &Arc<dyn Session>) -> Arc<KnownHead> {
        // Dropped after the lock is released: it may be the last reference to its session.
        let known;
        let mut queues = self.queues.lock();
        known = queues.by_name.get(queue).and_then(Weak::upgrade);
        if let Some(head) = &known
            && Arc::ptr_eq(&head.session, session)
        {
            return head.clone();
        }
        if queues.by_name.len() >= QUEUES_MIN.max(2 * queues.kept) {
            queues.by_name.retain(|_, head| head.strong_count() > 0);
            queues.kept = queues.by_name.len();
        }
        let head = Arc::new(KnownHead::new(session.clone()));
        queues.by_name.insert(queue.clone(), Arc::downgrade(&head));
        head
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keeper::Keeper;

    fn id(name: &str) -> ContenderId {
        ContenderId::new(name)
    }

    fn firsts() -> Firsts {
        Firsts { connection: ConnectionNumber(1), seen: VecDeque::new() }
    }

    #[test]
    fn a_contender_that_was_seen_first_is_known_on_that_connection_alone() {
        let mut firsts = firsts();
        firsts.note(ConnectionNumber(1), &id("a"));
        firsts.note(ConnectionNumber(1), &id("b"));
        assert!(firsts.has(ConnectionNumber(1), &id("a")) && firsts.has(ConnectionNumber(1), &id("b")));
        assert!(!firsts.has(ConnectionNumber(2), &id("b")) && !firsts.has(ConnectionNumber(1), &id("c")));
        firsts.note(ConnectionNumber(2), &id("c"));
        firsts.note(ConnectionNumber(1), &id("d"));
        assert!(firsts.has(ConnectionNumber(2), &id("c")));
        assert!(
            !firsts.has(ConnectionNumber(1), &id("d")) && !firsts.has(ConnectionNumber(2), &id("d")),
            "seen too long ago"
        );
    }

    #[test]
    fn the_last_few_are_remembered_and_no_more() {
        let mut firsts = firsts();
        for number in 0..100 {
            firsts.note(ConnectionNumber(1), &id(&number.to_string()));
            firsts.note(ConnectionNumber(1), &id(&number.to_string()));
        }
        assert_eq!(firsts.seen.len(), FIRSTS_MAX);
        assert!(firsts.has(ConnectionNumber(1), &id("99")) && firsts.has(ConnectionNumber(1), &id("96")));
    }

    #[tokio::test]
    async fn what_one_session_saw_says_nothing_under_the_next_and_goes_with_the_last_waiter() {
        let (ann, bob) = (Keeper::memory(), Keeper::memory());
        let (one, other) = (ann.shared.session().await.unwrap(), bob.shared.session().await.unwrap());
        let (known_heads, queue) = (KnownHeads::default(), QueueName::new("door").unwrap());
        let head = known_heads.of(&queue, &one);
        head.note(ConnectionNumber(1), &id("a"));
        assert!(known_heads.of(&queue, &one).is_first(ConnectionNumber(1), &id("a")));
        assert!(!known_heads.of(&queue, &other).is_first(ConnectionNumber(1), &id("a")));
        drop(head);
        assert!(!known_heads.of(&queue, &one).is_first(ConnectionNumber(1), &id("a")));
    }

    #[tokio::test]
    async fn queues_without_waiters_are_forgotten() {
        let keeper = Keeper::memory();
        let session = keeper.shared.session().await.unwrap();
        let known_heads = KnownHeads::default();
        for number in 0..10 * QUEUES_MIN {
            drop(known_heads.of(&QueueName::new(&number.to_string()).unwrap(), &session));
        }
        assert!(known_heads.queues.lock().by_name.len() <= QUEUES_MIN);
    }
}
