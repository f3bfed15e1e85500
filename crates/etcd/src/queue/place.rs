//! One of our own contenders, once it is stored: where it stands, and what became of it.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{ContenderId, FencingToken, LossReason, QueueName, Revocation, Ticket};
use tokio::sync::watch;

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
    fate: watch::Sender<Fate>,
    revocation: watch::Sender<Option<Revocation>>,
    is_withdrawn: AtomicBool,
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
}

/// What became of a contender.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Fate {
    /// It is there, for all that is known.
    Stands,
    /// It is gone, not by us, and it is not known why.
    Gone,
    /// It is gone, and this is why.
    GoneFor(LossReason),
}

impl Place {
    pub(super) fn new(parts: Parts) -> Self {
        let Parts { queue, ticket, key, id, name, created, token, placed_at, outlives_session, beside } = parts;
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
            fate: watch::Sender::new(Fate::Stands),
            revocation: watch::Sender::new(None),
            is_withdrawn: AtomicBool::new(false),
            watch: Mutex::default(),
        }
    }

    /// Notes that it is gone, unless we are leaving ourselves; returns whether that was unknown.
    pub(super) fn remove(&self) -> bool {
        let go = |fate: &mut Fate| {
            let was_unknown = *fate == Fate::Stands;
            if was_unknown {
                *fate = Fate::Gone;
            }
            was_unknown
        };
        !self.is_withdrawn() && self.fate.send_if_modified(go)
    }

    /// Notes why it is gone.
    pub(super) fn remove_for(&self, reason: LossReason) {
        self.fate.send_replace(Fate::GoneFor(reason));
    }

    pub(super) fn fate(&self) -> Fate {
        *self.fate.borrow()
    }

    pub(super) fn is_removed(&self) -> bool {
        self.fate() != Fate::Stands
    }

    /// Says why it is gone; `None` while it stands, or that is not known.
    pub(super) fn loss(&self) -> Option<LossReason> {
        match self.fate() {
            Fate::Stands | Fate::Gone => None,
            Fate::GoneFor(reason) => Some(reason),
        }
    }

    /// Notes a request to give up.
    pub(super) fn revoke(&self, revocation: Revocation) {
        self.revocation.send_if_modified(|known| {
            let was_unknown = known.as_ref() != Some(&revocation);
            *known = Some(revocation);
            was_unknown
        });
    }

    /// Waits until a request to give up arrives.
    pub(super) async fn revoked(&self) -> Revocation {
        let mut revocation = self.revocation.subscribe();
        loop {
            if let Some(revocation) = revocation.borrow_and_update().clone() {
                return revocation;
            }
            if revocation.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Notes that we are leaving it ourselves.
    pub(super) fn withdraw(&self) {
        self.is_withdrawn.store(true, Ordering::Release);
        drop(self.swap_watch(None));
    }

    pub(super) fn is_withdrawn(&self) -> bool {
        self.is_withdrawn.load(Ordering::Acquire)
    }

    /// Waits until another client deletes it.
    pub(super) fn removal(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut fate = self.fate.subscribe();
        async move {
            if fate.wait_for(|&fate| fate != Fate::Stands).await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Whether it is gone, and it is not known why.
    pub(super) fn is_unexplained(&self) -> bool {
        self.fate() == Fate::Gone
    }

    /// Waits until it is known why it is gone.
    pub(super) async fn reason(&self) -> LossReason {
        let mut fate = self.fate.subscribe();
        loop {
            if let Fate::GoneFor(reason) = *fate.borrow_and_update() {
                return reason;
            }
            if fate.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
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
