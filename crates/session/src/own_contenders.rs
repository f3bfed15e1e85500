//! The contenders of a session: which of them a new connection takes over, which of them each renewal asks for, and
//! what is heard of them.

use std::collections::BTreeMap;
use std::ops::Bound;

use lockkeeper_core::Ticket;
use tokio::sync::{Notify, mpsc};

use parking_lot::Mutex;

/// How many contenders one renewal asks for: each costs the server a look or two.
const ASKED_MAX: usize = 64;

/// What is heard of a contender of ours.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum News {
    /// It stood, and is gone.
    Missing(Ticket),
    /// It was broken.
    Broken(Ticket),
    /// It is asked to give up, in these words.
    Asked(Ticket, String),
}

/// All contenders of a session, for all that is known, and where each stands.
#[derive(Debug)]
pub struct OwnContenders<W = ()> {
    state: Mutex<ContendersState<W>>,
    /// Told when the first of them stands.
    begun: Notify,
}

#[derive(Debug)]
struct ContendersState<W> {
    by_ticket: BTreeMap<Ticket, ContenderEntry<W>>,
    /// How many of them are not only expected.
    standing: usize,
    /// The one that was asked for last.
    last: Option<Ticket>,
    tell: Option<mpsc::UnboundedSender<News>>,
}

#[derive(Debug)]
enum ContenderEntry<W> {
    /// Its join is under way: a new connection keeps it, and no renewal asks for it.
    Expected,
    /// It stands.
    Stands {
        at: W,
        /// Whether it has stood when [`OwnContenders::has_lasting`] was asked last.
        is_lasting: bool,
    },
}

impl<W> Default for OwnContenders<W> {
    fn default() -> Self {
        let state = ContendersState { by_ticket: BTreeMap::new(), standing: 0, last: None, tell: None };
        Self { state: Mutex::new(state), begun: Notify::new() }
    }
}

impl<W: Clone> OwnContenders<W> {
    /// Tells what is heard of contenders. Each kind of news may come more than once.
    pub fn told(&self) -> mpsc::UnboundedReceiver<News> {
        let (tell, told) = mpsc::unbounded_channel();
        self.state.lock().tell = Some(tell);
        told
    }

    /// Notes that a join of this contender is about to be sent: a new connection must not remove what it stored.
    pub fn expect(&self, ticket: Ticket) {
        self.state.lock().by_ticket.entry(ticket).or_insert(ContenderEntry::Expected);
    }

    /// Notes that a contender stands.
    pub fn add(&self, ticket: Ticket, at: W) {
        let mut state = self.state.lock();
        let before = state.by_ticket.insert(ticket, ContenderEntry::Stands { at, is_lasting: false });
        if !matches!(before, Some(ContenderEntry::Stands { .. })) {
            state.standing += 1;
            if state.standing == 1 {
                self.begun.notify_one();
            }
        }
    }

    /// Notes that a contender is withdrawn, or belongs to the session no more. A new connection removes what is left of
    /// it.
    pub fn remove(&self, ticket: Ticket) {
        let mut state = self.state.lock();
        if let Some(ContenderEntry::Stands { .. }) = state.by_ticket.remove(&ticket) {
            state.standing -= 1;
        }
    }

    /// Whether no contender stands.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.state.lock().standing == 0
    }

    /// Waits until a contender stands.
    pub async fn until_standing(&self) {
        while self.is_empty() {
            self.begun.notified().await;
        }
    }

    /// Whether a contender stands now that stood at the last such question.
    pub fn has_lasting(&self) -> bool {
        let mut has_lasting = false;
        for known in self.state.lock().by_ticket.values_mut() {
            if let ContenderEntry::Stands { is_lasting, .. } = known {
                has_lasting |= std::mem::replace(is_lasting, true);
            }
        }
        has_lasting
    }

    /// Returns all that a new connection keeps: those that stand and those whose join is under way.
    pub fn kept(&self) -> Vec<Ticket> {
        self.state.lock().by_ticket.keys().copied().collect()
    }

    /// Returns the next ones to ask for, and where they stand: they take turns.
    pub fn next(&self) -> Vec<(Ticket, W)> {
        let mut state = self.state.lock();
        let behind = state.last.map_or(Bound::Unbounded, Bound::Excluded);
        let ContendersState { by_ticket, standing, .. } = &*state;
        let in_turn = by_ticket.range((behind, Bound::Unbounded)).chain(by_ticket);
        let standing_at = |(ticket, known): (&Ticket, &ContenderEntry<W>)| match known {
            ContenderEntry::Expected => None,
            ContenderEntry::Stands { at, .. } => Some((*ticket, at.clone())),
        };
        let taken: Vec<_> = in_turn.filter_map(standing_at).take((*standing).min(ASKED_MAX)).collect();
        state.last = taken.last().map(|(ticket, _)| *ticket);
        taken
    }

    /// Whether one of these stood, for all that was known.
    pub fn has_standing<'a>(&self, mut tickets: impl Iterator<Item = &'a Ticket>) -> bool {
        let state = self.state.lock();
        tickets.any(|ticket| matches!(state.by_ticket.get(ticket), Some(ContenderEntry::Stands { .. })))
    }

    /// Tells that these of the tickets stand no more; one that is withdrawn meanwhile is no loss.
    pub fn tell_missing(&self, tickets: impl IntoIterator<Item = Ticket>) {
        let state = self.state.lock();
        for ticket in tickets {
            if let Some(ContenderEntry::Stands { .. }) = state.by_ticket.get(&ticket) {
                state.tell(News::Missing(ticket));
            }
        }
    }

    /// Tells what was heard of a contender of ours.
    pub fn tell(&self, news: News) {
        self.state.lock().tell(news);
    }
}

impl<W> ContendersState<W> {
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

    fn kept(contenders: &OwnContenders) -> Vec<u128> {
        contenders.kept().into_iter().map(Ticket::bits).collect()
    }

    fn next(contenders: &OwnContenders) -> Vec<u128> {
        contenders.next().into_iter().map(|(ticket, ())| ticket.bits()).collect()
    }

    #[test]
    fn contenders_take_turns_to_be_asked_for() {
        let contenders = OwnContenders::<()>::default();
        assert!(contenders.next().is_empty());
        (0..100).for_each(|bits| contenders.add(ticket(bits), ()));
        assert_eq!(next(&contenders), (0..64).collect::<Vec<_>>());
        assert_eq!(next(&contenders), (64..100).chain(0..28).collect::<Vec<_>>());
        (1..100).for_each(|bits| contenders.remove(ticket(bits)));
        assert_eq!((next(&contenders), next(&contenders)), (vec![0], vec![0]));
    }

    #[test]
    fn one_whose_join_is_under_way_is_kept_and_not_asked_for() {
        let contenders = OwnContenders::<()>::default();
        let mut told = contenders.told();
        contenders.expect(ticket(1));
        contenders.add(ticket(2), ());
        assert_eq!(kept(&contenders), [1, 2]);
        assert_eq!(next(&contenders), [2]);
        contenders.tell_missing([ticket(1), ticket(2), ticket(3)]);
        assert_eq!(told.try_recv(), Ok(News::Missing(ticket(2))));
        assert!(told.try_recv().is_err());
        contenders.expect(ticket(2));
        assert_eq!(next(&contenders), [2], "what stands is not expected again");
        contenders.add(ticket(1), ());
        contenders.remove(ticket(2));
        assert_eq!(kept(&contenders), [1]);
    }

    #[test]
    fn a_hold_lasts_from_the_second_question_on() {
        let contenders = OwnContenders::<()>::default();
        contenders.add(ticket(1), ());
        assert!(!contenders.has_lasting());
        contenders.remove(ticket(1));
        contenders.add(ticket(2), ());
        assert!(!contenders.has_lasting());
        assert!(contenders.has_lasting() && !contenders.is_empty());
        contenders.remove(ticket(2));
        assert!(!contenders.has_lasting() && contenders.is_empty());
    }
}
