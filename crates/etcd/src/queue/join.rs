//! Joining: the entries of one call are stored by one transaction, which also shows the queue.
//!
//! The transaction stores them only if the first of them is not there yet and the session's stamp is that of the
//! connection in use. So it can be sent again after a lost answer, and one that was withdrawn has no effect later. They
//! join the segment at the tail, or the transaction has no effect and says which segment that is.

mod attempt;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};

use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{Entry, Extent, Lifetime, QueueName, QueueView, Rank, Ticket};
use lockkeeper_session::{Effect, Failure, Joined, Stood, Stored};

use crate::layout::{Name, Position};
use crate::queue::claims::{Claim, Joining};
use crate::queue::inner::Inner;
use crate::queue::place::{Own, Place};
use crate::queue::record::Record;
use crate::queue::service::{Make, Queues};
use crate::queue::view::By;
use crate::session::Link;

/// How often a join is sent again because what it was sent with had changed: a stamp changes once a connection, the
/// offset of tokens once in the life of a service, and the tail while some tens of others join.
const RESENDS_MAX: u32 = 32;

/// The greatest number of contenders that may have stood beside one contender: its number has four digits.
const BESIDE_MAX: u32 = 0xffff;

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
    queues: Weak<Queues>,
    inner: Arc<Inner>,
    queue: QueueName,
    wanted: Vec<Wanted>,
    joining: Arc<Joining>,
    shows_whole: bool,
}

/// What the transaction has told of entries that are stored.
struct Told {
    created: i64,
    /// Where tokens begin.
    first_token: u64,
    segment: u32,
    /// The queue, if it is short or must be known whole.
    view: Option<QueueView>,
    asked_at: BootInstant,
}

/// Makes the call that stores these entries.
pub(super) fn make(queues: &Arc<Queues>, queue: &QueueName, entries: &[Entry], shows_whole: bool) -> Make<Joined<Own>> {
    let Some(join) = Join::new(queues, queue, entries, shows_whole).map(Arc::new) else {
        return Arc::new(|_| Box::pin(std::future::ready(Ok(Joined::Full("too many places were taken beside one")))));
    };
    Arc::new(move |link| {
        let (work, over) = (join.clone(), link.clone());
        join.inner.run(&join.queue, async move { work.store(&over).await })
    })
}

impl Join {
    /// Claims names for the entries; `None` if too many places were taken beside one contender.
    fn new(queues: &Arc<Queues>, queue: &QueueName, entries: &[Entry], shows_whole: bool) -> Option<Self> {
        let inner = queues.service.inner.clone();
        let (since_unix, lease) = (inner.core.life.clock.unix_time(), inner.core.lease);
        let mut wanted = Vec::with_capacity(entries.len());
        for (number, entry) in (0..).zip(entries) {
            let anchor = match &entry.rank {
                Rank::Tail => None,
                // It was there when the call was checked.
                Rank::With(id) => queues.place_of(queue, id),
            };
            let beside = match &anchor {
                None => None,
                Some(anchor) => Some(beside(anchor)?),
            };
            let segment = anchor.as_ref().map_or(0, |anchor| anchor.own.name.segment);
            wanted.push(Wanted {
                ticket: entry.ticket,
                name: Name { mode: entry.mode, segment, lease, slot: 0, number, beside },
                value: Record::of(entry, queue, since_unix).to_bytes(),
                outlives_session: matches!(entry.lifetime, Lifetime::Persistent { .. }),
                anchor,
            });
        }
        let joining = Arc::<Joining>::default();
        let mut claims = inner.claims.lock();
        for Wanted { ticket, name, .. } in &mut wanted {
            name.slot = claims.take_slot(inner.core.epoch().written);
            claims.begin(*ticket, Claim { name: name.clone(), joining: joining.clone() });
            inner.core.depend();
        }
        drop(claims);
        Some(Self { queues: Arc::downgrade(queues), inner, queue: queue.clone(), wanted, joining, shows_whole })
    }

    /// Sends the entries over one connection until it is known what became of them.
    async fn store(&self, link: &Link) -> Result<Joined<Own>, Failure> {
        // It has waited in its lane.
        let wants = |queues: Arc<Queues>| self.wanted.iter().all(|wanted| queues.wants(wanted.ticket));
        if !self.queues.upgrade().is_some_and(wants) {
            return Ok(Joined::Withdrawn);
        }
        for _ in 0..=RESENDS_MAX {
            if let Some(joined) = self.attempt(link).await? {
                return Ok(joined);
            }
        }
        Err(Failure::unexpected())
    }

    /// Reads what is stored.
    async fn stored(&self, link: &Link, told: Told) -> Result<Joined<Own>, Failure> {
        self.joining.note_created(told.created);
        let stood: Vec<_> = self.wanted.iter().map(|wanted| Some(self.stood(wanted, &told))).collect();
        let view = match (told.view, stood.first()) {
            (None, Some(Some(first))) => {
                // The member that has answered the join has it.
                let looked = self.inner.view(link, &self.queue, By::Member, Extent::Around(Some(&first.id))).await;
                looked.map_err(|mut failure| {
                    // The place is taken.
                    failure.effect = Effect::Unknown;
                    failure
                })?
            }
            (view, _) => view.ok_or_else(Failure::unexpected)?,
        };
        Ok(Joined::Stored(Stored { stood, view, asked_at: told.asked_at }))
    }

    fn stood(&self, wanted: &Wanted, told: &Told) -> Stood<Own> {
        let layout = &self.inner.core.layout;
        let name = wanted.name.in_segment(told.segment);
        let own_token = || name.position(told.created).token(told.first_token);
        let token = wanted.anchor.as_ref().map(|anchor| anchor.token).or_else(own_token);
        let beside = wanted.anchor.as_ref().map(|anchor| anchor.own.beside.clone());
        let own = Own {
            key: layout.key(&self.queue, &name),
            created: told.created,
            beside: beside.unwrap_or_else(|| Arc::new(AtomicU32::new(0))),
            watch: lockkeeper_session::Mutex::default(),
            name: name.clone(),
        };
        Stood { id: layout.id(&name, told.created), token, own }
    }
}

/// Finds the next place beside a contender; `None` if there are too many.
fn beside(anchor: &Place) -> Option<Position> {
    let next = anchor.own.beside.fetch_add(1, Ordering::SeqCst) + 1;
    (next <= BESIDE_MAX).then(|| Position { next, ..anchor.own.position() })
}
