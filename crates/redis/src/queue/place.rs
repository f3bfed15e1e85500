//! One of our own contenders, once it is stored: where it stands. What became of it is in its bond.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{ContenderId, PlaceBond, QueueName};
use tokio::task::AbortHandle;

use crate::layout::Member;

/// A contender of ours that is stored.
pub(super) struct Place {
    pub(super) queue: QueueName,
    pub(super) id: ContenderId,
    pub(super) member: Member,
    pub(super) placed_at: BootInstant,
    /// What became of it.
    pub(super) bond: PlaceBond,
    /// The task that watches it.
    watcher: Mutex<Option<AbortHandle>>,
}

impl Place {
    pub(super) fn new(queue: QueueName, member: Member, placed_at: BootInstant, bond: PlaceBond) -> Self {
        Self { queue, id: member.id(), member, placed_at, bond, watcher: Mutex::default() }
    }

    /// Whether it stays when the session ends.
    pub(super) const fn outlives_session(&self) -> bool {
        self.member.session.is_none()
    }

    /// Notes that we are leaving it ourselves.
    pub(super) fn withdraw(&self) {
        self.bond.leave();
        self.watch_by(None);
    }

    /// Has this task watch it in place of another one.
    pub(super) fn watch_by(&self, watcher: Option<AbortHandle>) {
        let mut present = self.watcher.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(before) = std::mem::replace(&mut *present, watcher) {
            before.abort();
        }
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Place").field(&self.id).finish()
    }
}
