//! The contenders of a session: which of them a new connection takes over, which of them each beat asks for, and what
//! is heard of them.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard, PoisonError};

use lockkeeper_core::Ticket;
use tokio::sync::{Notify, mpsc};

/// How many contenders one beat asks for: each costs the server a look.
const ASKED_MAX: usize = 64;

/// What is heard of a contender of ours.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum News {
    /// It stood, and is gone.
    Missing(Ticket),
    /// It was broken.
    Broken(Ticket),
    /// It is asked to give up, in these words.
    Asked(Ticket, String),
}

/// All contenders of a session, for all that is known.
#[derive(Debug, Default)]
pub(crate) struct Roll {
    state: Mutex<State>,
    /// Told when the first of them stands.
    begun: Notify,
}

#[derive(Debug, Default)]
struct State {
    by_ticket: BTreeMap<Ticket, Known>,
    /// How many of them are not only expected.
    standing: usize,
    /// The one that was asked for last.
    last: Option<Ticket>,
    tell: Option<mpsc::UnboundedSender<News>>,
}

/// What is known of a contender.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Known {
    /// Its join is under way: a new connection keeps it, and no beat asks for it.
    Expected,
    /// It stands.
    Stands {
        /// Whether it has stood when [`Roll::has_lasting`] was asked last.
        is_lasting: bool,
    },
}

impl Roll {
    /// Tells what is heard of contenders. Each kind of news may come more than once.
    pub(crate) fn told(&self) -> mpsc::UnboundedReceiver<News> {
        let (tell, told) = mpsc::unbounded_channel();
        self.state().tell = Some(tell);
        told
    }

    /// Notes that a join of this contender is about to be sent: a new connection must not remove what it stored.
    pub(crate) fn expect(&self, ticket: Ticket) {
        self.state().by_ticket.entry(ticket).or_insert(Known::Expected);
    }

    /// Notes that a contender stands.
    pub(crate) fn add(&self, ticket: Ticket) {
        let mut state = self.state();
        let before = state.by_ticket.insert(ticket, Known::Stands { is_lasting: false });
        if !matches!(before, Some(Known::Stands { .. })) {
            state.standing += 1;
            if state.standing == 1 {
                self.begun.notify_one();
            }
        }
    }

    /// Notes that a contender is withdrawn, or belongs to the session no more. A new connection removes what is left of
    /// it.
    pub(crate) fn remove(&self, ticket: Ticket) {
        let mut state = self.state();
        if let Some(Known::Stands { .. }) = state.by_ticket.remove(&ticket) {
            state.standing -= 1;
        }
    }

    /// Whether no contender stands.
    pub(super) fn is_empty(&self) -> bool {
        self.state().standing == 0
    }

    /// Waits until a contender stands.
    pub(super) async fn until_standing(&self) {
        while self.is_empty() {
            self.begun.notified().await;
        }
    }

    /// Whether a contender stands now that stood at the last such question.
    pub(super) fn has_lasting(&self) -> bool {
        let mut has_lasting = false;
        for known in self.state().by_ticket.values_mut() {
            if let Known::Stands { is_lasting } = known {
                has_lasting |= std::mem::replace(is_lasting, true);
            }
        }
        has_lasting
    }

    /// Returns all that a new connection keeps: those that stand and those whose join is under way.
    pub(super) fn kept(&self) -> Vec<Ticket> {
        self.state().by_ticket.keys().copied().collect()
    }

    /// Returns the next ones to ask for: they take turns.
    pub(super) fn next(&self) -> Vec<Ticket> {
        let mut state = self.state();
        let behind = state.last.map_or(Bound::Unbounded, Bound::Excluded);
        let State { by_ticket, standing, .. } = &*state;
        let in_turn = by_ticket.range((behind, Bound::Unbounded)).chain(by_ticket);
        let in_turn = in_turn.filter(|(_, known)| **known != Known::Expected).map(|(ticket, _)| *ticket);
        let taken: Vec<_> = in_turn.take((*standing).min(ASKED_MAX)).collect();
        state.last = taken.last().copied();
        taken
    }

    /// Whether one of these stood, for all that was known.
    pub(super) fn has_standing<'a>(&self, mut tickets: impl Iterator<Item = &'a Ticket>) -> bool {
        let state = self.state();
        tickets.any(|ticket| matches!(state.by_ticket.get(ticket), Some(Known::Stands { .. })))
    }

    /// Tells that these of the tickets stand no more; one that is withdrawn meanwhile is no loss.
    pub(super) fn tell_missing(&self, tickets: impl IntoIterator<Item = Ticket>) {
        let state = self.state();
        for ticket in tickets {
            if let Some(Known::Stands { .. }) = state.by_ticket.get(&ticket) {
                state.tell(News::Missing(ticket));
            }
        }
    }

    /// Tells what was heard of a contender of ours.
    pub(super) fn tell(&self, news: News) {
        self.state().tell(news);
    }

    /// Nothing panics while it is locked.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn tell(&self, news: News) {
        if let Some(tell) = &self.tell {
            // The session may have ended.
            let _ = tell.send(news);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticket(bits: u128) -> Ticket {
        Ticket::from_bits(bits)
    }

    fn bits(tickets: Vec<Ticket>) -> Vec<u128> {
        tickets.into_iter().map(Ticket::bits).collect()
    }

    #[test]
    fn contenders_take_turns_to_be_asked_for() {
        let roll = Roll::default();
        assert!(roll.next().is_empty());
        (0..100).for_each(|bits| roll.add(ticket(bits)));
        assert_eq!(bits(roll.next()), (0..64).collect::<Vec<_>>());
        assert_eq!(bits(roll.next()), (64..100).chain(0..28).collect::<Vec<_>>());
        (1..100).for_each(|bits| roll.remove(ticket(bits)));
        assert_eq!((bits(roll.next()), bits(roll.next())), (vec![0], vec![0]));
    }

    #[test]
    fn one_whose_join_is_under_way_is_kept_and_not_asked_for() {
        let roll = Roll::default();
        let mut told = roll.told();
        roll.expect(ticket(1));
        roll.add(ticket(2));
        assert_eq!(bits(roll.kept()), [1, 2]);
        assert_eq!(bits(roll.next()), [2]);
        roll.tell_missing([ticket(1), ticket(2), ticket(3)]);
        assert_eq!(told.try_recv(), Ok(News::Missing(ticket(2))));
        assert!(told.try_recv().is_err());
        roll.expect(ticket(2));
        assert_eq!(bits(roll.next()), [2], "what stands is not expected again");
        roll.add(ticket(1));
        roll.remove(ticket(2));
        assert_eq!(bits(roll.kept()), [1]);
    }

    #[test]
    fn a_hold_lasts_from_the_second_question_on() {
        let roll = Roll::default();
        roll.add(ticket(1));
        assert!(!roll.has_lasting());
        roll.remove(ticket(1));
        roll.add(ticket(2));
        assert!(!roll.has_lasting());
        assert!(roll.has_lasting() && !roll.is_empty());
        roll.remove(ticket(2));
        assert!(!roll.has_lasting() && roll.is_empty());
    }
}
