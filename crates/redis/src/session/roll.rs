//! The contenders of a session, some of which each renewal asks for: it finds what was deleted by hand.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard, PoisonError};

use lockkeeper_core::Ticket;
use tokio::sync::mpsc;

/// How many contenders one renewal asks for: each costs the server two looks.
const ASKED_MAX: usize = 64;

/// Where a contender stands, as the script of renewals asks for it: part, name and member.
pub(crate) type Where = [String; 3];

/// All contenders of a session, for all that is known.
#[derive(Debug, Default)]
pub(crate) struct Roll {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    by_ticket: BTreeMap<Ticket, Where>,
    /// The one that was asked for last.
    last: Option<Ticket>,
    tell: Option<mpsc::UnboundedSender<Ticket>>,
}

impl Roll {
    /// Tells of contenders that renewals find to be gone: each once at most a renewal.
    pub(crate) fn told(&self) -> mpsc::UnboundedReceiver<Ticket> {
        let (tell, told) = mpsc::unbounded_channel();
        self.state().tell = Some(tell);
        told
    }

    pub(crate) fn add(&self, ticket: Ticket, place: Where) {
        self.state().by_ticket.insert(ticket, place);
    }

    pub(crate) fn remove(&self, ticket: Ticket) {
        self.state().by_ticket.remove(&ticket);
    }

    /// Returns the next ones to ask for: they take turns.
    pub(super) fn next(&self) -> Vec<Where> {
        let mut state = self.state();
        let behind = state.last.map_or(Bound::Unbounded, Bound::Excluded);
        let State { by_ticket, .. } = &*state;
        let in_turn = by_ticket.range((behind, Bound::Unbounded)).chain(by_ticket);
        let count = by_ticket.len().min(ASKED_MAX);
        let taken: Vec<_> = in_turn.take(count).map(|(ticket, place)| (*ticket, place.clone())).collect();
        state.last = taken.last().map(|(ticket, _)| *ticket);
        drop(state);
        taken.into_iter().map(|(_, place)| place).collect()
    }

    pub(super) fn tell(&self, gone: Ticket) {
        if let Some(tell) = &self.state().tell {
            // The session may have ended.
            let _ = tell.send(gone);
        }
    }

    /// Nothing panics while it is locked.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contenders_take_turns_to_be_asked_for() {
        let roll = Roll::default();
        assert!(roll.next().is_empty());
        for bits in 0..100 {
            roll.add(Ticket::from_bits(bits), [bits.to_string(), String::new(), String::new()]);
        }
        let asked = |roll: &Roll| roll.next().into_iter().map(|[bits, ..]| bits.parse().unwrap()).collect::<Vec<u32>>();
        assert_eq!(asked(&roll), (0..64).collect::<Vec<_>>());
        assert_eq!(asked(&roll), (64..100).chain(0..28).collect::<Vec<_>>());
        for bits in 1..100 {
            roll.remove(Ticket::from_bits(bits));
        }
        assert_eq!((asked(&roll), asked(&roll)), (vec![0], vec![0]));
    }
}
