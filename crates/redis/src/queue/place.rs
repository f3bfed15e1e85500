//! One of our own contenders, once it is stored: where it stands. What became of it is in its bond.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{ContenderId, PlaceBond, QueueName, Ticket};
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
    /// The task that watches the plain lock that it took, if it took one.
    plain_watcher: Mutex<Option<AbortHandle>>,
}

impl Place {
    pub(super) fn new(queue: QueueName, member: Member, placed_at: BootInstant, bond: PlaceBond) -> Self {
        Self {
            queue,
            id: member.id(),
            member,
            placed_at,
            bond,
            watcher: Mutex::default(),
            plain_watcher: Mutex::default(),
        }
    }

    /// Has a task watch its plain lock, unless one does already.
    pub(super) fn watch_plain_by(&self, spawn: impl FnOnce() -> AbortHandle) {
        let mut present = locked(&self.plain_watcher);
        if self.bond.stands() && present.is_none() {
            *present = Some(spawn());
        }
    }

    /// Has this task watch it in place of another one.
    pub(super) fn watch_by(&self, watcher: Option<AbortHandle>) {
        let mut present = locked(&self.watcher);
        if let Some(before) = std::mem::replace(&mut *present, watcher) {
            before.abort();
        }
    }
}

impl lockkeeper_session::Place for Place {
    fn ticket_in(id: &ContenderId) -> Option<Ticket> {
        Member::of(id).map(|member| member.ticket)
    }

    fn queue(&self) -> &QueueName {
        &self.queue
    }

    fn id(&self) -> &ContenderId {
        &self.id
    }

    fn ticket(&self) -> Ticket {
        self.member.ticket
    }

    fn placed_at(&self) -> BootInstant {
        self.placed_at
    }

    fn bond(&self) -> &PlaceBond {
        &self.bond
    }

    fn outlives_session(&self) -> bool {
        self.member.session.is_none()
    }

    fn withdraw(&self) {
        self.bond.leave();
        self.watch_by(None);
        if let Some(watcher) = locked(&self.plain_watcher).take() {
            watcher.abort();
        }
    }
}

/// Nothing panics while one of these is locked.
fn locked(watcher: &Mutex<Option<AbortHandle>>) -> MutexGuard<'_, Option<AbortHandle>> {
    watcher.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Place").field(&self.id).finish()
    }
}
