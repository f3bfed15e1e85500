//! Our own entries: which tickets were sent, which nodes they became, and what became of these.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{Contender, ContenderId, FencingToken, Part, PlaceBond, QueueName, Ticket};
use tokio::sync::SetOnce;

use crate::lock::paths::QueuePath;

pub(super) struct NodePlace {
    pub(super) queue: QueueName,
    pub(super) path: QueuePath,
    pub(super) id: ContenderId,
    pub(super) sequence: i32,
    pub(super) token: FencingToken,
    pub(super) placed_at: BootInstant,
    /// Whether the node lives on when the session ends.
    pub(super) outlives_session: bool,
    pub(super) bond: PlaceBond,
    /// Whether the watch on our own node is set, or being set.
    pub(super) is_watched: AtomicBool,
    /// Filled once that watch was answered: a removal of the node after that is told before anything later is. False if
    /// it could not be asked for.
    pub(super) is_guarded: SetOnce<bool>,
    /// How the place ended, for other waiters of this session, who need no watch on it.
    pub(super) end: SetOnce<PlaceEnd>,
}

/// How a place of ours ended, as other waiters of the session may take it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum PlaceEnd {
    /// The service has deleted its node for us, and said so on this connection.
    Deleted { epoch: u64 },
    /// It is not known, or not from here: look again.
    Unknown,
}

impl NodePlace {
    /// Tells the waiters of this session how the place ended; the first end stays.
    pub(super) fn ends(&self, end: PlaceEnd) {
        let _ = self.end.set(end);
    }

    pub(super) async fn ended(&self) -> PlaceEnd {
        *self.end.wait().await
    }

    pub(super) fn on_server(&self) -> String {
        self.path.child_on_server(self.id.as_str())
    }
}

impl fmt::Debug for NodePlace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("NodePlace").field(&self.id).finish()
    }
}

/// One ticket, from before it is sent until it is withdrawn.
#[derive(Debug)]
pub(super) enum TicketEntry {
    /// Its node may or may not have been made.
    Joining { queue: QueueName, outlives_session: bool },
    /// Its node was made.
    Placed {
        place: Arc<NodePlace>,
        /// How many waits for the contender ahead are under way.
        waits: usize,
        /// Whether its standing was handed out. From then on the session's deadline counts.
        is_standing: bool,
    },
}

/// All entries of one session.
#[derive(Debug, Default)]
pub(super) struct NodePlaces {
    entries: BTreeMap<Ticket, TicketEntry>,
    /// Those whose own node is to be watched, in the order of their making; the first is looked at first.
    pub(super) unwatched: VecDeque<Arc<NodePlace>>,
    leaving: BTreeMap<Ticket, Arc<NodePlace>>,
    placed: usize,
    waiting: usize,
}

impl NodePlaces {
    /// Notes a ticket before it is sent.
    pub(super) fn begin(&mut self, queue: &QueueName, ticket: Ticket, outlives_session: bool) {
        self.entries.insert(ticket, TicketEntry::Joining { queue: queue.clone(), outlives_session });
    }

    /// Whether a ticket was noted and not withdrawn.
    pub(super) fn is_open(&self, ticket: Ticket) -> bool {
        self.entries.contains_key(&ticket)
    }

    /// Notes the node that a ticket became; returns whether it is still wanted.
    pub(super) fn place(&mut self, ticket: Ticket, place: Arc<NodePlace>) -> bool {
        let Some(entry) = self.entries.get_mut(&ticket) else {
            return false;
        };
        self.unwatched.push_back(place.clone());
        *entry = TicketEntry::Placed { place, waits: 0, is_standing: false };
        self.placed += 1;
        true
    }

    /// Notes that a ticket's standing is handed out; returns whether it is still wanted.
    pub(super) fn stand(&mut self, ticket: Ticket) -> bool {
        match self.entries.get_mut(&ticket) {
            Some(TicketEntry::Placed { is_standing, .. }) => {
                *is_standing = true;
                true
            }
            _ => false,
        }
    }

    /// Forgets a ticket that is being withdrawn, or never took effect. The place is marked as left by ourselves.
    pub(super) fn take(&mut self, ticket: Ticket) -> Option<TicketEntry> {
        let entry = self.entries.remove(&ticket)?;
        if let TicketEntry::Placed { place, waits, .. } = &entry {
            place.bond.leave();
            self.placed -= 1;
            self.waiting -= usize::from(*waits > 0);
        }
        Some(entry)
    }

    /// Forgets a ticket of this queue that is being withdrawn.
    pub(super) fn take_from(&mut self, queue: &QueueName, ticket: Ticket) -> Option<TicketEntry> {
        let stands_in = match self.entries.get(&ticket)? {
            TicketEntry::Joining { queue, .. } => queue,
            TicketEntry::Placed { place, .. } => &place.queue,
        };
        if stands_in != queue {
            return None;
        }
        self.take(ticket)
    }

    /// Forgets a place of this queue that outlives the session and stays; returns whether its standing was handed out.
    pub(super) fn keep(&mut self, queue: &QueueName, ticket: Ticket) -> bool {
        if !self.find(ticket).is_some_and(|place| place.outlives_session) {
            return false;
        }
        match self.take_from(queue, ticket) {
            Some(TicketEntry::Placed { place, is_standing, .. }) => {
                place.ends(PlaceEnd::Unknown);
                is_standing
            }
            _ => false,
        }
    }

    pub(super) fn leave(&mut self, ticket: Ticket, place: Arc<NodePlace>) {
        self.leaving.insert(ticket, place);
    }

    /// Notes how the first attempt at a deletion ended.
    pub(super) fn left(&mut self, ticket: Ticket, end: PlaceEnd) {
        if let Some(place) = self.leaving.remove(&ticket) {
            place.ends(end);
        }
    }

    /// Tells all waiters of this session that no answer will come.
    pub(super) fn forsake(&mut self) {
        for entry in self.entries.values() {
            if let TicketEntry::Placed { place, .. } = entry {
                place.ends(PlaceEnd::Unknown);
            }
        }
        std::mem::take(&mut self.leaving).into_values().for_each(|place| place.ends(PlaceEnd::Unknown));
    }

    /// Finds a place whose node this session has made and not left for certain.
    pub(super) fn find_or_leaving(&self, ticket: Ticket) -> Option<&Arc<NodePlace>> {
        self.find(ticket).or_else(|| self.leaving.get(&ticket))
    }

    pub(super) fn find(&self, ticket: Ticket) -> Option<&Arc<NodePlace>> {
        match self.entries.get(&ticket) {
            Some(TicketEntry::Placed { place, .. }) => Some(place),
            _ => None,
        }
    }

    /// Whether some place of ours in this part of a lock, by whichever name, made before `made_before`, is missing in a
    /// list of it.
    pub(super) fn misses_any(
        &self,
        path: &QueuePath,
        part: Part,
        listed: &[Contender],
        made_before: BootInstant,
    ) -> bool {
        let is_meant = |entry: &&TicketEntry| match entry {
            TicketEntry::Placed { place, .. } => {
                place.placed_at < made_before && place.queue.part() == part && place.path == *path
            }
            TicketEntry::Joining { .. } => false,
        };
        let ours = self.entries.values().filter(is_meant).count();
        let is_ours = |contender: &&Contender| {
            contender.ticket.and_then(|ticket| self.entries.get(&ticket)).is_some_and(|entry| is_meant(&entry))
        };
        listed.iter().filter(is_ours).count() < ours
    }

    pub(super) fn wait_begins(&mut self, ticket: Ticket) {
        if let Some(TicketEntry::Placed { waits, .. }) = self.entries.get_mut(&ticket) {
            self.waiting += usize::from(*waits == 0);
            *waits += 1;
        }
    }

    pub(super) fn wait_ends(&mut self, ticket: Ticket) {
        if let Some(TicketEntry::Placed { waits, .. }) = self.entries.get_mut(&ticket) {
            *waits = waits.saturating_sub(1);
            self.waiting -= usize::from(*waits == 0);
        }
    }

    /// Whether there is any node of ours, and whether any of them does more than wait.
    pub(super) fn occupation(&self) -> Option<Occupation> {
        match self.placed {
            0 => None,
            placed if placed > self.waiting => Some(Occupation::Holding),
            _ => Some(Occupation::Waiting),
        }
    }

    /// Returns any place that may still be checked.
    pub(super) fn any(&self, turn: u64) -> Option<Arc<NodePlace>> {
        let places = self.entries.values().filter_map(|entry| match entry {
            TicketEntry::Placed { place, .. } if place.bond.stands() => Some(place),
            _ => None,
        });
        // The tickets' order is random and stable, so that places take turns.
        let skip = usize::try_from(turn).unwrap_or(0) % self.placed.max(1);
        let mut places = places.skip(skip).chain(self.entries.values().filter_map(|entry| match entry {
            TicketEntry::Placed { place, .. } => Some(place),
            TicketEntry::Joining { .. } => None,
        }));
        places.next().cloned()
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Occupation {
    /// Some hold a lock, or may.
    Holding,
    /// All wait for others.
    Waiting,
}
