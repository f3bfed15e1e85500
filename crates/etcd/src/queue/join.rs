//! Joining: the entries of one call are stored by one transaction, which also shows the queue.
//!
//! The transaction stores them only if the first of them is not there yet and the session's stamp is that of the
//! connection in use. So it can be sent again after a lost answer, and one that was withdrawn has no effect later. They
//! join the segment at the tail, or the transaction has no effect and says which segment that is.

mod attempt;
mod placed;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{
    BoxFuture, ENTRIES_MAX, Enqueued, Entry, Error, ErrorKind, FencingToken, Lifetime, Operation, PlaceBond, QueueName,
    QueueView, Rank, Result, Ticket,
};
use lockkeeper_session::{Failure, FailureKind, refuse};

use crate::layout::{Name, Position};
use crate::queue::entries::{Joining, Progress};
use crate::queue::inner::Inner;
use crate::queue::join::attempt::{Attempt, AttemptError};
use crate::queue::join::placed::Placed;
use crate::queue::place::{Parts, Place};
use crate::queue::record::Record;

/// How often a join is sent again because what it was sent with had changed: a stamp changes once a connection, the
/// offset of tokens once in the life of a service, and the tail while some tens of others join.
const RESENDS_MAX: u32 = 32;

/// The greatest number of contenders that may have stood beside one contender: its number has four digits.
const BESIDE_MAX: u32 = 0xffff;

/// Beside how many contenders the entries of one call may stand: the transaction compares each of them.
const ANCHORS_MAX: usize = 32;

/// One entry that is to be stored.
struct Wanted {
    ticket: Ticket,
    /// Its name, in the first segment unless it stands beside another contender.
    name: Name,
    value: Vec<u8>,
    outlives_session: bool,
    anchor: Option<Arc<Place>>,
}

/// The entries of one call.
struct Join {
    inner: Arc<Inner>,
    queue: QueueName,
    wanted: Vec<Wanted>,
    progress: Arc<Progress>,
    deadline: BootInstant,
}

/// Entries that are stored.
struct Stored {
    created: i64,
    /// Where tokens begin.
    first_token: u64,
    segment: u32,
    /// The queue, if it is short or must be known whole.
    view: Option<QueueView>,
    placed_at: BootInstant,
    /// The number of the connection over which that was answered.
    link: u64,
}

/// Starts to join: the entries are noted now, and sent behind the earlier calls on the lock.
pub(super) fn begin(inner: &Arc<Inner>, queue: &QueueName, entries: &[Entry]) -> BoxFuture<Result<Vec<Enqueued>>> {
    if entries.is_empty() {
        return Box::pin(std::future::ready(Ok(Vec::new())));
    }
    if entries.len() > ENTRIES_MAX {
        let message = format!("{ENTRIES_MAX} places at once are the most");
        return refuse(Error::permanent(ErrorKind::LimitReached, Operation::Join, message).at(queue));
    }
    if let Err(error) = inner.check(Operation::Join, queue) {
        return refuse(error);
    }
    let join = match Join::new(inner, queue, entries) {
        Ok(join) => join,
        Err(error) => return refuse(error),
    };
    join.note();
    let (work, inner) = (inner.clone(), inner.clone());
    let storing = work.run(Operation::Join, queue, join.store());
    Box::pin(async move {
        let placed = storing.await?;
        placed.stand(inner).await
    })
}

impl Join {
    fn new(inner: &Arc<Inner>, queue: &QueueName, entries: &[Entry]) -> Result<Self> {
        let since_unix = inner.core.life.clock.unix_time();
        let mut wanted = Vec::with_capacity(entries.len());
        for (number, entry) in (0..).zip(entries) {
            let anchor = match &entry.rank {
                Rank::Tail => None,
                Rank::With(id) => Some(inner.place_of(queue, id).ok_or_else(|| anchor_gone(queue))?),
            };
            let beside = anchor.as_ref().map(|anchor| beside(anchor, queue)).transpose()?;
            let (mode, lease) = (entry.mode, inner.core.lease);
            let slot = inner.entries().take_slot(inner.core.epoch().written);
            let segment = anchor.as_ref().map_or(0, |anchor| anchor.name.segment);
            wanted.push(Wanted {
                ticket: entry.ticket,
                name: Name { mode, segment, lease, slot, number, beside },
                value: Record::of(entry, queue, since_unix).to_bytes(),
                outlives_session: matches!(entry.lifetime, Lifetime::Persistent { .. }),
                anchor,
            });
        }
        let anchors: BTreeSet<_> = wanted.iter().filter_map(|wanted| Some(&wanted.anchor.as_ref()?.id)).collect();
        if anchors.len() > ANCHORS_MAX {
            let message = format!("{ANCHORS_MAX} contenders beside which others stand at once are the most");
            return Err(Error::permanent(ErrorKind::LimitReached, Operation::Join, message).at(queue));
        }
        let (inner, queue, deadline) = (inner.clone(), queue.clone(), inner.core.life.deadline());
        Ok(Self { inner, queue, wanted, progress: Arc::default(), deadline })
    }

    /// Notes the entries, so that they can be withdrawn from now on.
    fn note(&self) {
        let mut entries = self.inner.entries();
        for Wanted { ticket, name, outlives_session, .. } in &self.wanted {
            let (queue, name, progress) = (self.queue.clone(), name.clone(), self.progress.clone());
            entries.begin(*ticket, Joining { queue, name, outlives_session: *outlives_session, progress });
            self.inner.core.depend();
        }
    }

    /// Sends the entries until it is known what became of them, and notes their places.
    async fn store(self) -> Result<Placed> {
        let stored = match self.send_until_certain().await {
            Ok(stored) => stored,
            Err(error) => {
                self.forget_unsent();
                return Err(error);
            }
        };
        self.progress.note_created(stored.created);
        let mut places = Vec::with_capacity(self.wanted.len());
        let mut is_withdrawn = false;
        for wanted in &self.wanted {
            let place = Arc::new(self.place(wanted, &stored)?);
            is_withdrawn |= !self.inner.entries().place(wanted.ticket, place.clone());
            places.push(place);
        }
        if is_withdrawn {
            // The withdrawal is the next in the lane.
            return Err(withdrawn(&self.queue));
        }
        places.iter().for_each(|place| self.inner.watch_later(place.clone()));
        Ok(Placed { queue: self.queue, view: stored.view, link: stored.link, places })
    }

    async fn send_until_certain(&self) -> Result<Stored> {
        let core = &self.inner.core;
        let fail = |failure, is_write| self.inner.fail(failure, Operation::Join, is_write, &self.queue);
        let mut resends = 0;
        loop {
            core.life.check(Operation::Join).map_err(|error| error.at(&self.queue))?;
            let link = tokio::select! {
                biased;
                () = self.progress.withdrawal() => return Err(withdrawn(&self.queue)),
                link = core.life.next_link_until(self.deadline) => link,
            };
            let failure = match link {
                Ok(link) => match self.attempt(&link).await {
                    Ok(Attempt::Stored(stored)) => return Ok(stored),
                    Ok(Attempt::Resend) if resends < RESENDS_MAX => {
                        resends += 1;
                        continue;
                    }
                    Ok(Attempt::Resend) => Failure::unexpected(),
                    Err(AttemptError::Refused(error)) => return Err(error),
                    Err(AttemptError::Failed(failure)) if self.can_go_on(&failure) => {
                        core.after(&failure, &link, self.deadline).await;
                        continue;
                    }
                    Err(AttemptError::Failed(failure)) => failure,
                },
                Err(failure) => failure,
            };
            let error = fail(failure, self.progress.was_sent());
            // What an earlier attempt did is not known, even if the last one certainly failed.
            return Err(match self.progress.was_sent() && error.is_transient() {
                true => Error::unknown(error.kind(), Operation::Join, error.to_string()).at(&self.queue),
                false => error,
            });
        }
    }

    /// Whether a join that failed may be sent again over the next connection.
    fn can_go_on(&self, failure: &Failure) -> bool {
        failure.is_passing()
            && failure.kind != FailureKind::Deadline
            && self.inner.core.life.clock.now() < self.deadline
    }

    fn place(&self, wanted: &Wanted, stored: &Stored) -> Result<Place> {
        let name = wanted.name.in_segment(stored.segment);
        let position = name.position(stored.created);
        let own_token = || position.token(stored.first_token);
        let token: Option<FencingToken> = wanted.anchor.as_ref().map(|anchor| anchor.token).or_else(own_token);
        let token = token.ok_or_else(|| {
            let message = "the service counts more than a token can hold";
            Error::permanent(ErrorKind::LimitReached, Operation::Join, message).at(&self.queue)
        })?;
        let beside = wanted.anchor.as_ref().map(|anchor| anchor.beside.clone());
        let (layout, queue) = (&self.inner.core.layout, self.queue.clone());
        let id = layout.id(&name, stored.created);
        Ok(Place::new(Parts {
            key: layout.key(&queue, &name),
            queue,
            ticket: wanted.ticket,
            id,
            name,
            created: stored.created,
            token,
            placed_at: stored.placed_at,
            outlives_session: wanted.outlives_session,
            beside: beside.unwrap_or_else(|| Arc::new(AtomicU32::new(0))),
            bond: PlaceBond::new(self.inner.core.life.bond().clone()),
        }))
    }

    /// Forgets entries that cannot have taken effect.
    fn forget_unsent(&self) {
        if self.progress.was_sent() {
            return;
        }
        for wanted in &self.wanted {
            let mut entries = self.inner.entries();
            if entries.take(wanted.ticket).is_some() {
                entries.free_slot(wanted.name.slot);
                self.inner.core.depend_no_more();
            }
        }
    }
}

/// Finds the next place beside a contender.
fn beside(anchor: &Place, queue: &QueueName) -> Result<Position> {
    let next = anchor.beside.fetch_add(1, Ordering::SeqCst) + 1;
    if next > BESIDE_MAX {
        let message = format!("{BESIDE_MAX} places beside one are the most");
        return Err(Error::permanent(ErrorKind::LimitReached, Operation::Join, message).at(queue));
    }
    Ok(Position { next, ..anchor.position })
}

fn withdrawn(queue: &QueueName) -> Error {
    let message = "the entry was withdrawn while it was under way";
    Error::permanent(ErrorKind::Closed, Operation::Join, message).at(queue)
}

fn anchor_gone(queue: &QueueName) -> Error {
    let message = "the contender whose place was to be shared is gone";
    Error::permanent(ErrorKind::Removed, Operation::Join, message).at(queue)
}
