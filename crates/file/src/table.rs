//! The work under way of a session: its places by their tickets, and the queues it has open.

use std::collections::BTreeMap;
use std::sync::Arc;

use lockkeeper_core::{Part, QueueName, Ticket};
use tokio::sync::oneshot;

use crate::gate::QueueGate;
use crate::pipe::Pipe;

/// How many locks' queues a session keeps open in which it has no place, so that locking again costs few system calls;
/// each keeps two file descriptors.
const IDLE_QUEUES_MAX: usize = 32;

/// One session's places and open queues.
#[derive(Debug, Default)]
pub(crate) struct PlaceTable {
    closed: bool,
    places: BTreeMap<Ticket, (QueueName, TablePlace)>,
    queues: BTreeMap<QueueName, QueueSlot>,
    /// The queues without a place, in the order in which they became so.
    idle: BTreeMap<u64, QueueName>,
    uses: u64,
}

#[derive(Debug)]
struct QueueSlot {
    gate: Arc<QueueGate>,
    places: usize,
    idle_since: Option<u64>,
}

#[derive(Debug)]
enum TablePlace {
    /// Its entry has done nothing yet.
    Waiting,
    /// Its entry is being made. Not empty if it was withdrawn meanwhile: then these wait for its undoing.
    Entering(Vec<oneshot::Sender<()>>),
    Standing(Arc<Pipe>),
    /// Not a place: a value is being written, and these wait for that.
    Writing(Vec<oneshot::Sender<()>>),
}

impl TablePlace {
    /// Tells whether the entry is being made, and still wanted.
    fn is_being_made(&self) -> bool {
        matches!(self, Self::Entering(reports) if reports.is_empty())
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Closed;

/// What is left to do for a withdrawal.
#[derive(Debug)]
pub(crate) enum WithdrawalStep {
    /// Nothing: it never came to be, and never will.
    Over,
    /// This session has no such place.
    Unknown,
    Leave(Arc<Pipe>),
    /// The maker of the entry undoes it and drops the other end.
    Undone(oneshot::Receiver<()>),
}

/// What is left to do for a closed session.
#[derive(Debug, Default)]
pub(crate) struct Remains {
    pub(crate) pipes: Vec<Arc<Pipe>>,
    pub(crate) undone: Vec<oneshot::Receiver<()>>,
    pub(crate) gates: Vec<Arc<QueueGate>>,
}

impl PlaceTable {
    /// Notes tickets and returns the gate of their lock.
    pub(crate) fn admit(&mut self, tickets: &[Ticket], queue: &QueueName) -> Result<Arc<QueueGate>, Closed> {
        self.note(tickets, queue, || TablePlace::Waiting)
    }

    /// Notes that a value is to be written under this ticket, and returns the gate of its lock.
    pub(crate) fn admit_write(&mut self, ticket: Ticket, queue: &QueueName) -> Result<Arc<QueueGate>, Closed> {
        self.note(&[ticket], queue, || TablePlace::Writing(Vec::new()))
    }

    fn note(
        &mut self,
        tickets: &[Ticket],
        queue: &QueueName,
        place: impl Fn() -> TablePlace,
    ) -> Result<Arc<QueueGate>, Closed> {
        if self.closed {
            return Err(Closed);
        }
        let lock = queue.with_part(Part::Line);
        let slot = self.queues.entry(lock.clone()).or_insert_with(|| QueueSlot {
            gate: Arc::new(QueueGate::new(lock.clone())),
            places: 0,
            idle_since: None,
        });
        slot.places += tickets.len();
        if let Some(since) = slot.idle_since.take() {
            self.idle.remove(&since);
        }
        for &ticket in tickets {
            self.places.insert(ticket, (queue.clone(), place()));
        }
        Ok(slot.gate.clone())
    }

    /// Begins to make an entry; `false` if it was withdrawn.
    pub(crate) fn begin(&mut self, ticket: Ticket) -> bool {
        match self.places.get_mut(&ticket) {
            Some((_, place @ TablePlace::Waiting)) => {
                *place = TablePlace::Entering(Vec::new());
                true
            }
            _ => false,
        }
    }

    /// Notes that an entry has to be made from the beginning once more.
    pub(crate) fn retreat(&mut self, ticket: Ticket) {
        if let Some((_, place)) = self.places.get_mut(&ticket)
            && place.is_being_made()
        {
            *place = TablePlace::Waiting;
        }
    }

    /// Notes that an entry was made; `false` if it was withdrawn meanwhile and must be undone, then forgotten.
    pub(crate) fn settle(&mut self, ticket: Ticket, pipe: &Arc<Pipe>) -> bool {
        match self.places.get_mut(&ticket) {
            Some((_, place)) if place.is_being_made() => {
                *place = TablePlace::Standing(pipe.clone());
                true
            }
            _ => false,
        }
    }

    /// Forgets a ticket whose entry was not made or was undone; returns a queue that is to be retired, if any.
    pub(crate) fn forget(&mut self, ticket: Ticket) -> Option<Arc<QueueGate>> {
        let (queue, _place) = self.places.remove(&ticket)?;
        self.release(&queue.with_part(Part::Line))
    }

    /// Withdraws a ticket; returns a queue that is to be retired as well, if any.
    pub(crate) fn withdraw(&mut self, queue: &QueueName, ticket: Ticket) -> (WithdrawalStep, Option<Arc<QueueGate>>) {
        match self.places.get_mut(&ticket).filter(|(place_of, _)| place_of == queue) {
            None => (WithdrawalStep::Unknown, None),
            Some((_, TablePlace::Entering(reports) | TablePlace::Writing(reports))) => {
                let (report, undone) = oneshot::channel();
                reports.push(report);
                (WithdrawalStep::Undone(undone), None)
            }
            Some((_, TablePlace::Waiting)) => (WithdrawalStep::Over, self.forget(ticket)),
            Some((_, TablePlace::Standing(pipe))) => {
                let pipe = pipe.clone();
                (WithdrawalStep::Leave(pipe), self.forget(ticket))
            }
        }
    }

    /// Forgets a place that outlives us and stays; returns a queue that is to be retired, if any.
    pub(crate) fn keep(&mut self, queue: &QueueName, ticket: Ticket) -> Option<Arc<QueueGate>> {
        match self.places.get(&ticket) {
            Some((place_of, TablePlace::Standing(pipe))) if place_of == queue && pipe.name().is_frozen => {
                self.forget(ticket)
            }
            _ => None,
        }
    }

    /// Tells whether something is still to be done, or was done, under this ticket.
    pub(crate) fn is_wanted(&self, ticket: Ticket) -> bool {
        self.places.contains_key(&ticket)
    }

    /// Tells whether what was asked of a queue waits for another process.
    pub(crate) fn is_held_up(&self, queue: &QueueName) -> bool {
        self.queues.get(&queue.with_part(Part::Line)).is_some_and(|slot| slot.gate.is_held_up())
    }

    /// Tells whether a place of ours stands under this ticket.
    pub(crate) fn stands(&self, ticket: Ticket) -> bool {
        matches!(self.places.get(&ticket), Some((_, TablePlace::Standing(_))))
    }

    /// Returns our pipe under this ticket, if it stands.
    pub(crate) fn pipe(&self, ticket: Ticket) -> Option<Arc<Pipe>> {
        match self.places.get(&ticket) {
            Some((_, TablePlace::Standing(pipe))) => Some(pipe.clone()),
            _ => None,
        }
    }

    /// Closes the session: nothing is admitted any more.
    pub(crate) fn close(&mut self) -> Remains {
        self.closed = true;
        let mut remains = Remains::default();
        let places: Vec<_> = self.places.iter().map(|(&ticket, (queue, _))| (ticket, queue.clone())).collect();
        for (ticket, queue) in places {
            let (leaving, retired) = self.withdraw(&queue, ticket);
            match leaving {
                WithdrawalStep::Over | WithdrawalStep::Unknown => {}
                // One that was frozen outlives us.
                WithdrawalStep::Leave(pipe) if pipe.name().is_frozen => {}
                WithdrawalStep::Leave(pipe) => remains.pipes.push(pipe),
                WithdrawalStep::Undone(undone) => remains.undone.push(undone),
            }
            remains.gates.extend(retired);
        }
        self.idle.clear();
        remains.gates.extend(std::mem::take(&mut self.queues).into_values().map(|slot| slot.gate));
        remains
    }

    /// Gives up the values that are still to be written, so that they never are; of a closed session.
    pub(crate) fn abandon_writes(&mut self) {
        self.places.retain(|_, (_, place)| !matches!(place, TablePlace::Writing(_)));
    }

    fn release(&mut self, lock: &QueueName) -> Option<Arc<QueueGate>> {
        let slot = self.queues.get_mut(lock)?;
        slot.places -= 1;
        if slot.places > 0 {
            return None;
        }
        self.uses += 1;
        slot.idle_since = Some(self.uses);
        self.idle.insert(self.uses, lock.clone());
        if self.idle.len() <= IDLE_QUEUES_MAX {
            return None;
        }
        let (_, oldest) = self.idle.pop_first()?;
        self.queues.remove(&oldest).map(|slot| slot.gate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(number: usize) -> QueueName {
        QueueName::new(&number.to_string()).unwrap()
    }

    fn ticket(bits: u128) -> Ticket {
        Ticket::from_bits(bits)
    }

    #[test]
    fn an_entry_withdrawn_before_it_began_is_never_made() {
        let mut table = PlaceTable::default();
        table.admit(&[ticket(1)], &queue(1)).unwrap();
        assert!(matches!(table.withdraw(&queue(1), ticket(1)).0, WithdrawalStep::Over));
        assert!(!table.begin(ticket(1)));
        assert!(matches!(table.withdraw(&queue(1), ticket(1)).0, WithdrawalStep::Unknown));
    }

    #[test]
    fn an_entry_withdrawn_while_it_is_made_is_reported_when_it_is_undone() {
        let mut table = PlaceTable::default();
        table.admit(&[ticket(1)], &queue(1)).unwrap();
        assert!(table.begin(ticket(1)));
        let (WithdrawalStep::Undone(mut undone), _) = table.withdraw(&queue(1), ticket(1)) else {
            panic!("it is being made")
        };
        assert!(matches!(undone.try_recv(), Err(oneshot::error::TryRecvError::Empty)));
        table.forget(ticket(1));
        assert!(matches!(undone.try_recv(), Err(oneshot::error::TryRecvError::Closed)));
    }

    #[test]
    fn the_queue_that_was_idle_longest_is_retired_first_and_one_with_a_place_never() {
        let mut table = PlaceTable::default();
        table.admit(&[ticket(0)], &queue(0)).unwrap();
        for number in 1..=IDLE_QUEUES_MAX {
            table.admit(&[ticket(number as u128)], &queue(number)).unwrap();
            assert!(table.forget(ticket(number as u128)).is_none());
        }
        let oldest = table.admit(&[ticket(1)], &queue(1)).unwrap();
        assert!(table.forget(ticket(1)).is_none());
        table.admit(&[ticket(99)], &queue(99)).unwrap();
        let retired = table.forget(ticket(99)).expect("one queue too many is idle");
        assert!(!Arc::ptr_eq(&retired, &oldest), "it was used again");
        assert_eq!(table.idle.len(), IDLE_QUEUES_MAX);
        assert!(table.queues.contains_key(&queue(0)));
    }

    #[test]
    fn a_closed_session_admits_no_entry() {
        let mut table = PlaceTable::default();
        table.admit(&[ticket(1)], &queue(1)).unwrap();
        let remains = table.close();
        assert_eq!(remains.gates.len(), 1);
        assert!(!table.begin(ticket(1)));
        assert_eq!(table.admit(&[ticket(2)], &queue(1)).unwrap_err(), Closed);
    }
}
