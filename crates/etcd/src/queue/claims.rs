//! Claims of our own contenders, from their joins until they are certainly gone: their names, and how far the joins
//! are.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use lockkeeper_core::Ticket;
use lockkeeper_session::Mutex;

use crate::layout::Name;
use crate::queue::tail::Tail;

/// What one contender of ours claims.
#[derive(Clone, Debug)]
pub(super) struct Claim {
    /// Its name in the first segment.
    pub(super) name: Name,
    pub(super) joining: Arc<Joining>,
}

/// How far a join is, shared by all of its entries.
#[derive(Debug, Default)]
pub(super) struct Joining {
    /// Whether it may have taken effect.
    was_sent: AtomicBool,
    /// The tail that the entries were sent to, or are to be sent to.
    tail: Mutex<Option<Tail>>,
    /// The revision at which they were created, once that was answered.
    created: OnceLock<i64>,
}

impl Joining {
    /// Notes that it is about to be sent; returns whether an attempt before may have taken effect.
    pub(super) fn send(&self) -> bool {
        self.was_sent.swap(true, Ordering::SeqCst)
    }

    /// Whether an attempt may have taken effect.
    pub(super) fn was_sent(&self) -> bool {
        self.was_sent.load(Ordering::SeqCst)
    }

    /// Notes that no attempt has taken effect.
    pub(super) fn note_unsent(&self) {
        self.was_sent.store(false, Ordering::SeqCst);
    }

    /// Returns the tail that the entries are sent to: the same each time, since an earlier attempt may have taken
    /// effect, until it is known that none has. At first it is the one that is known.
    pub(super) fn tail(&self, known: impl FnOnce() -> Tail) -> Tail {
        *self.tail.lock().get_or_insert_with(known)
    }

    /// Notes that no attempt has taken effect, since the tail was another one.
    pub(super) fn turn_to(&self, tail: Tail) {
        *self.tail.lock() = Some(tail);
    }

    pub(super) fn note_created(&self, created: i64) {
        self.created.get_or_init(|| created);
    }

    pub(super) fn created(&self) -> Option<i64> {
        self.created.get().copied()
    }
}

/// All claims of one session.
#[derive(Debug, Default)]
pub(super) struct Claims {
    by_ticket: BTreeMap<Ticket, Claim>,
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

impl Claims {
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

    /// Notes a claim before its join is sent.
    pub(super) fn begin(&mut self, ticket: Ticket, claim: Claim) {
        self.by_ticket.insert(ticket, claim);
    }

    /// Finds the claim of a ticket.
    pub(super) fn get(&self, ticket: Ticket) -> Option<&Claim> {
        self.by_ticket.get(&ticket)
    }

    /// Forgets a claim; returns whether there was one. Its slot is free if its contender is certainly gone, and cannot
    /// come any more.
    pub(super) fn end(&mut self, ticket: Ticket, is_gone: bool) -> bool {
        let ended = self.by_ticket.remove(&ticket);
        if let Some(claim) = &ended
            && is_gone
        {
            self.slots.free.insert(claim.name.slot);
        }
        ended.is_some()
    }
}

#[cfg(test)]
mod tests {
    use lockkeeper_core::Mode;

    use super::*;

    #[test]
    fn a_slot_is_taken_again_once_it_is_free_but_not_in_a_service_whose_data_went_back() {
        let mut claims = Claims::default();
        let take = |claims: &mut Claims, epoch| {
            let slot = claims.take_slot(epoch);
            let name = Name { mode: Mode::Mutex, segment: 0, lease: 1, slot, number: 0, beside: None };
            claims.begin(Ticket::from_bits(slot.into()), Claim { name, joining: Arc::default() });
            slot
        };
        let end = |claims: &mut Claims, slot: u32| claims.end(Ticket::from_bits(slot.into()), true);
        let taken: Vec<_> = (0..3).map(|_| take(&mut claims, 7)).collect();
        assert_eq!(taken, [0, 1, 2]);
        assert!(end(&mut claims, 1) && !end(&mut claims, 1));
        assert_eq!([take(&mut claims, 7), take(&mut claims, 7)], [1, 3]);
        end(&mut claims, 0);
        assert_eq!([take(&mut claims, 9), take(&mut claims, 9)], [4, 5]);
        end(&mut claims, 4);
        assert_eq!(take(&mut claims, 9), 4);
        assert!(claims.end(Ticket::from_bits(5), false));
        assert_eq!(take(&mut claims, 9), 6, "the name of one that stays is not taken again");
    }
}
