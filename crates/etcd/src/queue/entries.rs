//! Our own entries: which tickets are to be stored, and which are.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{ContenderId, QueueName, QueueView, Ticket};
use tokio::sync::watch;

use crate::layout::Name;
use crate::queue::around::Coverage;
use crate::queue::place::Place;
use crate::queue::tail::Tail;

/// An entry that is not known to be stored.
#[derive(Clone, Debug)]
pub(super) struct Joining {
    pub(super) queue: QueueName,
    /// Its name in the first segment.
    pub(super) name: Name,
    /// Whether it stays when the session ends.
    pub(super) outlives_session: bool,
    pub(super) progress: Arc<Progress>,
}

/// How far a join is, shared by all of its entries.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Whether it may have taken effect.
    was_sent: AtomicBool,
    withdrawn: watch::Sender<bool>,
    /// The tail that the entries were sent to, or are to be sent to.
    tail: Mutex<Option<Tail>>,
    /// The revision at which they were created, once that was answered.
    created: OnceLock<i64>,
}

impl Progress {
    pub(super) fn note_sent(&self) {
        self.was_sent.store(true, Ordering::SeqCst);
    }

    pub(super) fn note_unsent(&self) {
        self.was_sent.store(false, Ordering::SeqCst);
    }

    pub(super) fn was_sent(&self) -> bool {
        self.was_sent.load(Ordering::SeqCst)
    }

    /// Returns the tail that the entries are sent to: the same each time, since an earlier attempt may have taken
    /// effect, until it is known that none has. At first it is the one that is known.
    pub(super) fn tail(&self, known: impl FnOnce() -> Tail) -> Tail {
        *self.sent_to().get_or_insert_with(known)
    }

    /// Notes that no attempt has taken effect, since the tail was another one.
    pub(super) fn turn_to(&self, tail: Tail) {
        *self.sent_to() = Some(tail);
    }

    pub(super) fn note_created(&self, created: i64) {
        self.created.get_or_init(|| created);
    }

    pub(super) fn created(&self) -> Option<i64> {
        self.created.get().copied()
    }

    /// Nothing panics while it is locked, so a poisoned lock still guards consistent data.
    fn sent_to(&self) -> MutexGuard<'_, Option<Tail>> {
        self.tail.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until one of its entries is withdrawn.
    pub(super) async fn withdrawal(&self) {
        let mut withdrawn = self.withdrawn.subscribe();
        // The sender lives in what we hold.
        let _ = withdrawn.wait_for(|&is_withdrawn| is_withdrawn).await;
    }
}

/// One ticket, from before it is sent until it is withdrawn.
#[derive(Debug)]
pub(super) enum Entry {
    Joining(Joining),
    Placed {
        place: Arc<Place>,
        /// Whether its standing was handed out.
        is_standing: bool,
    },
}

impl Entry {
    fn queue(&self) -> &QueueName {
        match self {
            Self::Joining(joining) => &joining.queue,
            Self::Placed { place, .. } => &place.queue,
        }
    }
}

/// All entries of one session.
#[derive(Debug, Default)]
pub(super) struct Entries {
    by_ticket: BTreeMap<Ticket, Entry>,
    /// The tickets of those that are stored.
    tickets: BTreeMap<ContenderId, Ticket>,
    slots: Slots,
}

/// Which slots the names of new contenders may have.
#[derive(Debug, Default)]
struct Slots {
    free: BTreeSet<u32>,
    /// The first that was never taken.
    next: u32,
    /// Which state of the service they are free in: the revision at which the offset of tokens was written.
    epoch: i64,
}

impl Entries {
    /// Takes a slot for a new name. None that was taken before is free in a service whose data went back: what had it
    /// may have come back too.
    pub(super) fn take_slot(&mut self, epoch: i64) -> u32 {
        let Slots { free, next, epoch: present } = &mut self.slots;
        if *present != epoch {
            *present = epoch;
            free.clear();
        }
        free.pop_first().unwrap_or_else(|| {
            let slot = *next;
            // A session never has so many contenders that it begins again.
            *next = next.wrapping_add(1);
            slot
        })
    }

    /// Gives back the slot of a contender that is certainly gone, and cannot come any more.
    pub(super) fn free_slot(&mut self, slot: u32) {
        self.slots.free.insert(slot);
    }

    /// Notes a ticket before it is sent.
    pub(super) fn begin(&mut self, ticket: Ticket, joining: Joining) {
        self.by_ticket.insert(ticket, Entry::Joining(joining));
    }

    /// Notes what a ticket became; returns whether it is still wanted.
    pub(super) fn place(&mut self, ticket: Ticket, place: Arc<Place>) -> bool {
        let Some(entry) = self.by_ticket.get_mut(&ticket) else {
            return false;
        };
        self.tickets.insert(place.id.clone(), ticket);
        *entry = Entry::Placed { place, is_standing: false };
        true
    }

    /// Notes that a ticket's standing is handed out; returns whether it is still wanted.
    pub(super) fn stand(&mut self, ticket: Ticket) -> bool {
        match self.by_ticket.get_mut(&ticket) {
            Some(Entry::Placed { is_standing, .. }) => {
                *is_standing = true;
                true
            }
            _ => false,
        }
    }

    /// Forgets a ticket that is being withdrawn, or never took effect. It is marked as left by ourselves.
    pub(super) fn take(&mut self, ticket: Ticket) -> Option<Entry> {
        let entry = self.by_ticket.remove(&ticket)?;
        match &entry {
            Entry::Joining(joining) => drop(joining.progress.withdrawn.send_replace(true)),
            Entry::Placed { place, .. } => {
                self.tickets.remove(&place.id);
                place.withdraw();
            }
        }
        Some(entry)
    }

    /// Forgets a ticket of this queue that is being withdrawn.
    pub(super) fn take_from(&mut self, queue: &QueueName, ticket: Ticket) -> Option<Entry> {
        if self.by_ticket.get(&ticket)?.queue() != queue {
            return None;
        }
        self.take(ticket)
    }

    /// Forgets a place of this queue that outlives the session and stays; returns whether there was one.
    pub(super) fn keep(&mut self, queue: &QueueName, ticket: Ticket) -> bool {
        let outlives_session = match self.by_ticket.get(&ticket) {
            Some(Entry::Placed { place, .. }) => place.outlives_session,
            _ => false,
        };
        outlives_session && self.take_from(queue, ticket).is_some()
    }

    /// Finds the place of a contender of ours in a queue.
    pub(super) fn find(&self, queue: &QueueName, id: &ContenderId) -> Option<&Arc<Place>> {
        match self.by_ticket.get(self.tickets.get(id)?) {
            Some(Entry::Placed { place, .. }) if place.queue == *queue => Some(place),
            _ => None,
        }
    }

    /// Returns all places that may still stand.
    pub(super) fn standing(&self) -> Vec<Arc<Place>> {
        let place = |entry: &Entry| match entry {
            Entry::Placed { place, .. } if place.bond.stands() => Some(place.clone()),
            _ => None,
        };
        self.by_ticket.values().filter_map(place).collect()
    }

    /// Returns the places in a queue that are gone, and it is not known why.
    pub(super) fn unexplained(&self, queue: &QueueName) -> Vec<Arc<Place>> {
        let is_unexplained = |entry: &Entry| match entry {
            Entry::Placed { place, .. } if place.queue == *queue && place.bond.is_unexplained() => Some(place.clone()),
            _ => None,
        };
        self.by_ticket.values().filter_map(is_unexplained).collect()
    }

    /// Returns the places in a queue that are not in a view of it, which was asked for at `asked_at` and would show
    /// them.
    pub(super) fn missing(
        &self,
        queue: &QueueName,
        view: &QueueView,
        coverage: &Coverage,
        asked_at: BootInstant,
    ) -> Vec<Arc<Place>> {
        let is_missing = |entry: &Entry| match entry {
            Entry::Placed { place, .. }
                if place.queue == *queue && place.placed_at < asked_at && place.bond.stands() =>
            {
                (coverage.has(&place.name) && view.position(&place.id).is_none()).then(|| place.clone())
            }
            _ => None,
        };
        self.by_ticket.values().filter_map(is_missing).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_taken_again_once_it_is_free_but_not_in_a_service_whose_data_went_back() {
        let mut entries = Entries::default();
        let taken: Vec<_> = (0..3).map(|_| entries.take_slot(7)).collect();
        assert_eq!(taken, [0, 1, 2]);
        entries.free_slot(1);
        assert_eq!([entries.take_slot(7), entries.take_slot(7)], [1, 3]);
        entries.free_slot(0);
        assert_eq!([entries.take_slot(9), entries.take_slot(9)], [4, 5]);
        entries.free_slot(4);
        assert_eq!(entries.take_slot(9), 4);
    }
}
