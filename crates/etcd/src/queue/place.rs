//! One of our own contenders, once it is stored: where it stands. What became of it is in its bond.

use std::fmt;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, PoisonError};

use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{ContenderId, FencingToken, PlaceBond, QueueName, Ticket};

use crate::layout::{Name, Position};
use crate::rpc::Watch;

/// A contender of ours that is stored.
pub(super) struct Place {
    pub(super) queue: QueueName,
    pub(super) ticket: Ticket,
    pub(super) key: Vec<u8>,
    pub(super) id: ContenderId,
    pub(super) name: Name,
    /// The revision at which it was created.
    pub(super) created: i64,
    pub(super) position: Position,
    pub(super) token: FencingToken,
    pub(super) placed_at: BootInstant,
    /// Whether it stays when the session ends.
    pub(super) outlives_session: bool,
    /// Counts those that stand beside this one, or beside the one that this one stands beside.
    pub(super) beside: Arc<AtomicU32>,
    /// What became of it.
    pub(super) bond: PlaceBond,
    watch: Mutex<Option<Watch>>,
}

/// What a place is made of.
pub(super) struct Parts {
    pub(super) queue: QueueName,
    pub(super) ticket: Ticket,
    pub(super) key: Vec<u8>,
    pub(super) id: ContenderId,
    pub(super) name: Name,
    pub(super) created: i64,
    pub(super) token: FencingToken,
    pub(super) placed_at: BootInstant,
    pub(super) outlives_session: bool,
    pub(super) beside: Arc<AtomicU32>,
    pub(super) bond: PlaceBond,
}

impl Place {
    pub(super) fn new(parts: Parts) -> Self {
        let Parts { queue, ticket, key, id, name, created, token, placed_at, outlives_session, beside, bond } = parts;
        Self {
            queue,
            ticket,
            key,
            id,
            position: name.position(created),
            name,
            created,
            token,
            placed_at,
            outlives_session,
            beside,
            bond,
            watch: Mutex::default(),
        }
    }

    /// Notes that we are leaving it ourselves.
    pub(super) fn withdraw(&self) {
        self.bond.leave();
        drop(self.swap_watch(None));
    }

    /// Whether it is being watched.
    pub(super) fn is_watched(&self) -> bool {
        self.watch.lock().unwrap_or_else(PoisonError::into_inner).as_ref().is_some_and(Watch::is_live)
    }

    /// Keeps a watch on it in place of another one, which is returned: it ends when it is dropped.
    pub(super) fn swap_watch(&self, watch: Option<Watch>) -> Option<Watch> {
        std::mem::replace(&mut *self.watch.lock().unwrap_or_else(PoisonError::into_inner), watch)
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Place").field(&self.id).finish()
    }
}
