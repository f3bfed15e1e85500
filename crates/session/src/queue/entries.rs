//! A session's own entries: which tickets are to be stored, and which are; and what one that is stored grants: until
//! when it may be believed, and what ends it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{
    BoxFuture, ContenderId, Extent, FencingToken, Liveness, LivenessAt, LossReason, PlaceBond, QueueName, QueueView,
    Revocation, Standing, Ticket,
};

use parking_lot::Mutex;

/// What a service keeps of a contender of ours.
pub trait Own: Send + Sync + 'static {
    /// Notes that we are leaving it ourselves.
    fn withdrawn(&self) {}
}

/// A contender of ours that is stored.
#[derive(Debug)]
pub struct Place<O> {
    /// The queue in which it stands.
    pub queue: QueueName,
    /// How the service names it.
    pub id: ContenderId,
    /// How the caller names it.
    pub ticket: Ticket,
    /// The token of its grant.
    pub token: FencingToken,
    /// Whether it stays when the session ends.
    pub outlives_session: bool,
    /// When its join was answered.
    pub placed_at: BootInstant,
    /// What became of it.
    pub bond: PlaceBond,
    /// What the service keeps of it.
    pub own: O,
}

impl<O: Own> Place<O> {
    /// Notes that we are leaving it ourselves.
    pub(super) fn withdraw(&self) {
        self.bond.leave();
        self.own.withdrawn();
    }
}

/// What may be believed of one place: as much as of its session, while its contender is there.
pub(super) struct OwnStanding<O>(pub(super) Arc<Place<O>>);

impl<O: Own> Standing for OwnStanding<O> {
    fn liveness(&self, _at: LivenessAt) -> Liveness {
        self.0.bond.liveness()
    }

    fn lost(&self) -> BoxFuture<LossReason> {
        let place = self.0.clone();
        Box::pin(async move { place.bond.lost().await })
    }

    fn revoked(&self) -> BoxFuture<Revocation> {
        let place = self.0.clone();
        Box::pin(async move { place.bond.revoked().await })
    }
}

impl<O> fmt::Debug for OwnStanding<O> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Place").field(&self.0.id).finish()
    }
}

/// An entry that is not known to be stored.
#[derive(Clone, Debug)]
pub(super) struct JoiningEntry {
    /// The queue that it is to be stored in.
    pub(super) queue: QueueName,
    /// Whether it stays when the session ends.
    pub(super) outlives_session: bool,
    /// How far its join is.
    pub(super) progress: Arc<JoinProgress>,
}

/// How far a join is, shared by all of its entries.
#[derive(Debug, Default)]
pub(super) struct JoinProgress {
    state: Mutex<JoinState>,
}

#[derive(Debug, Default)]
struct JoinState {
    was_sent: bool,
    is_withdrawn: bool,
}

impl JoinProgress {
    /// Notes that it is about to be sent; `false` if one of its entries was withdrawn: then it must not be.
    pub(super) fn send(&self) -> bool {
        let mut state = self.state.lock();
        state.was_sent |= !state.is_withdrawn;
        !state.is_withdrawn
    }

    /// Notes a withdrawal; returns whether it may have taken effect. From now on it is not sent any more.
    pub(super) fn withdraw(&self) -> bool {
        let mut state = self.state.lock();
        state.is_withdrawn = true;
        state.was_sent
    }

    /// Whether it may have taken effect.
    pub(super) fn was_sent(&self) -> bool {
        self.state.lock().was_sent
    }

    /// Notes that no attempt has taken effect, or can any more.
    pub(super) fn note_unsent(&self) {
        self.state.lock().was_sent = false;
    }
}

/// One ticket, from before it is sent until it is withdrawn.
#[derive(Debug)]
pub(super) enum OwnEntry<O> {
    /// It is not known to be stored.
    Joining(JoiningEntry),
    Placed {
        place: Arc<Place<O>>,
        /// Whether its standing was handed out.
        is_standing: bool,
    },
}

impl<O> OwnEntry<O> {
    fn queue(&self) -> &QueueName {
        match self {
            Self::Joining(joining) => &joining.queue,
            Self::Placed { place, .. } => &place.queue,
        }
    }
}

/// Of which contenders it is known that a view shows them if they are there.
#[derive(Clone, Debug)]
pub(super) enum Coverage {
    /// All of them.
    Whole,
    /// This one.
    One(ContenderId),
    /// None.
    Nothing,
}

impl Coverage {
    /// What a view of this extent is known to show.
    #[must_use]
    pub(super) fn of(extent: Extent<'_>) -> Self {
        match extent {
            Extent::Whole => Self::Whole,
            Extent::Around(Some(place)) => Self::One(place.clone()),
            Extent::Around(None) => Self::Nothing,
        }
    }
}

#[derive(Debug)]
pub(super) struct Entries<O> {
    by_ticket: BTreeMap<Ticket, OwnEntry<O>>,
    /// The tickets of those that are stored.
    tickets: BTreeMap<ContenderId, Ticket>,
}

impl<O> Default for Entries<O> {
    fn default() -> Self {
        Self { by_ticket: BTreeMap::new(), tickets: BTreeMap::new() }
    }
}

impl<O: Own> Entries<O> {
    /// Notes a ticket before it is sent.
    pub(super) fn begin(&mut self, ticket: Ticket, joining: JoiningEntry) {
        self.by_ticket.insert(ticket, OwnEntry::Joining(joining));
    }

    /// Notes what a ticket became; returns whether it is still wanted.
    pub(super) fn place(&mut self, place: Arc<Place<O>>) -> bool {
        let Some(entry) = self.by_ticket.get_mut(&place.ticket) else {
            return false;
        };
        self.tickets.insert(place.id.clone(), place.ticket);
        *entry = OwnEntry::Placed { place, is_standing: false };
        true
    }

    /// Notes that a ticket's standing is handed out; returns whether it is still wanted.
    pub(super) fn stand(&mut self, ticket: Ticket) -> bool {
        match self.by_ticket.get_mut(&ticket) {
            Some(OwnEntry::Placed { is_standing, .. }) => {
                *is_standing = true;
                true
            }
            _ => false,
        }
    }

    /// Whether a ticket is noted, and not withdrawn.
    pub(super) fn has(&self, ticket: Ticket) -> bool {
        self.by_ticket.contains_key(&ticket)
    }

    pub(super) fn forget(&mut self, ticket: Ticket) {
        self.by_ticket.remove(&ticket);
    }

    /// Forgets a ticket of this queue that is being withdrawn: it is marked as left by ourselves.
    pub(super) fn take_from(&mut self, queue: &QueueName, ticket: Ticket) -> Option<OwnEntry<O>> {
        if self.by_ticket.get(&ticket)?.queue() != queue {
            return None;
        }
        let entry = self.by_ticket.remove(&ticket)?;
        match &entry {
            OwnEntry::Joining(joining) => drop(joining.progress.withdraw()),
            OwnEntry::Placed { place, .. } => {
                self.tickets.remove(&place.id);
                place.withdraw();
            }
        }
        Some(entry)
    }

    /// Forgets a place of this queue that outlives the session and stays; returns whether there was one.
    pub(super) fn keep(&mut self, queue: &QueueName, ticket: Ticket) -> bool {
        let outlives_session = self.of_ticket(ticket).is_some_and(|place| place.outlives_session);
        outlives_session && self.take_from(queue, ticket).is_some()
    }

    pub(super) fn of_ticket(&self, ticket: Ticket) -> Option<&Arc<Place<O>>> {
        match self.by_ticket.get(&ticket) {
            Some(OwnEntry::Placed { place, .. }) => Some(place),
            _ => None,
        }
    }

    pub(super) fn find(&self, queue: &QueueName, id: &ContenderId) -> Option<&Arc<Place<O>>> {
        self.of_ticket(*self.tickets.get(id)?).filter(|place| place.queue == *queue)
    }

    pub(super) fn standing(&self) -> Vec<Arc<Place<O>>> {
        let place = |entry: &OwnEntry<O>| match entry {
            OwnEntry::Placed { place, .. } if place.bond.stands() => Some(place.clone()),
            _ => None,
        };
        self.by_ticket.values().filter_map(place).collect()
    }

    /// Returns the places in a queue that are gone, and it is not known why.
    pub(super) fn unexplained(&self, queue: &QueueName) -> Vec<Arc<Place<O>>> {
        self.places(queue).filter(|place| place.bond.is_unexplained()).cloned().collect()
    }

    /// Returns the places in a queue that are not in a view of it, which was asked for at `asked_at` and would show
    /// them.
    pub(super) fn missing(
        &self,
        queue: &QueueName,
        view: &QueueView,
        coverage: &Coverage,
        asked_at: BootInstant,
    ) -> Vec<Arc<Place<O>>> {
        let is_missing = |place: &&Arc<Place<O>>| {
            place.placed_at < asked_at && place.bond.stands() && view.position(&place.id).is_none()
        };
        match coverage {
            Coverage::Whole => self.places(queue).filter(is_missing).cloned().collect(),
            Coverage::One(id) => self.find(queue, id).into_iter().filter(is_missing).cloned().collect(),
            Coverage::Nothing => Vec::new(),
        }
    }

    fn places<'a>(&'a self, queue: &'a QueueName) -> impl Iterator<Item = &'a Arc<Place<O>>> {
        self.by_ticket.values().filter_map(move |entry| match entry {
            OwnEntry::Placed { place, .. } if place.queue == *queue => Some(place),
            _ => None,
        })
    }
}
