//! Joining: the entries of one call are stored by one transaction, which also shows the queue.
//!
//! The transaction stores them only if the first of them is not there yet and the session's stamp is that of the
//! connection in use. So it can be sent again after a lost answer, and one that was withdrawn has no effect later. They
//! join the segment at the tail, or the transaction has no effect and says which segment that is.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};

use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{Entry, Extent, Operation, QueueName, QueueView, Ticket};
use lockkeeper_session::{
    Effect, Failure, FailureKind, Joined, Lookable as _, Stood, Stored, anchor, outlives_session,
};

use crate::layout::{KeyRecord, Name, QueuePosition, ticket_of};
use crate::proto::{KeyValue, RangeRequest, RequestOp, ResponseOp, TxnRequest};
use crate::queue::state::{ContenderClaim, EtcdOwn, EtcdPlace, KeyJoinProgress, QueueCore, Queues};
use crate::queue::tail::{SEGMENT_FULL, Tail};
use crate::queue::view;
use crate::queue::view::ReadSource;
use crate::rpc::{absent, created_at, delete, group, key_range, modified_at, no_room, put, range_of, txn};
use crate::session::{EtcdLink, TokenEpoch, header};

/// How often a join is sent again because what it was sent with had changed: a stamp changes once a connection, the
/// offset of tokens once in the life of a service, and the tail while some tens of others join.
const RESENDS_MAX: u32 = 32;

/// The greatest number of contenders that may have stood beside one contender: its number has four digits.
const BESIDE_MAX: u32 = 0xffff;

struct JoinEntry {
    ticket: Ticket,
    /// Its name, in the first segment unless it stands beside another contender.
    name: Name,
    value: Vec<u8>,
    outlives_session: bool,
    anchor: Option<Arc<EtcdPlace>>,
}

pub(super) struct KeyJoin {
    queues: Weak<Queues>,
    pub(super) inner: Arc<QueueCore>,
    pub(super) queue: QueueName,
    wanted: Vec<JoinEntry>,
    joining: Arc<KeyJoinProgress>,
    shows_whole: bool,
}

/// The answer of the transaction that has stored the entries.
struct StoredEntries {
    created: i64,
    /// Where tokens begin.
    first_token: u64,
    segment: u32,
    /// The queue, if it is short or must be known whole.
    view: Option<QueueView>,
    asked_at: BootInstant,
}

impl KeyJoin {
    /// Claims names for the entries; `None` if too many places were taken beside one contender.
    pub(super) fn new(queues: &Arc<Queues>, queue: &QueueName, entries: &[Entry], shows_whole: bool) -> Option<Self> {
        let inner = queues.service.inner.clone();
        let (since_unix, lease) = (inner.core.life.clock.unix_time(), inner.core.lease);
        let mut wanted = Vec::with_capacity(entries.len());
        for (number, entry) in (0..).zip(entries) {
            // It was there when the call was checked.
            let anchor = anchor(entry).and_then(|id| queues.place_of(queue, id));
            let beside = match &anchor {
                None => None,
                Some(anchor) => Some(beside(anchor)?),
            };
            let segment = anchor.as_ref().map_or(0, |anchor| anchor.own.name.segment);
            wanted.push(JoinEntry {
                ticket: entry.ticket,
                name: Name { mode: entry.mode, segment, lease, slot: 0, number, beside },
                value: KeyRecord::of(entry, queue, since_unix).to_bytes(),
                outlives_session: outlives_session(entry),
                anchor,
            });
        }
        let joining = Arc::<KeyJoinProgress>::default();
        inner.change_claims(|claims| {
            for JoinEntry { ticket, name, .. } in &mut wanted {
                name.slot = claims.take_slot(inner.core.epoch().written);
                claims.begin(*ticket, ContenderClaim::new(name.clone(), joining.clone()));
            }
        });
        Some(Self { queues: Arc::downgrade(queues), inner, queue: queue.clone(), wanted, joining, shows_whole })
    }

    /// Sends the entries over one connection until their fate is known.
    pub(super) async fn store(&self, link: &EtcdLink) -> Result<Joined<EtcdOwn>, Failure> {
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

    async fn stored(&self, link: &EtcdLink, told: StoredEntries) -> Result<Joined<EtcdOwn>, Failure> {
        self.joining.note_created(told.created);
        let stood: Vec<_> = self.wanted.iter().map(|wanted| Some(self.stood(wanted, &told))).collect();
        let view = match (told.view, stood.first()) {
            (None, Some(Some(first))) => {
                // The member that has answered the join has it.
                let looked =
                    self.inner.view(link, &self.queue, ReadSource::Member, Extent::Around(Some(&first.id))).await;
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

    fn stood(&self, wanted: &JoinEntry, told: &StoredEntries) -> Stood<EtcdOwn> {
        let layout = &self.inner.core.layout;
        let name = wanted.name.in_segment(told.segment);
        let own_token = || name.position(told.created).token(told.first_token);
        let token = wanted.anchor.as_ref().map(|anchor| anchor.token).or_else(own_token);
        let beside = wanted.anchor.as_ref().map(|anchor| anchor.own.beside.clone());
        let own = EtcdOwn {
            key: layout.key(&self.queue, &name),
            created: told.created,
            beside: beside.unwrap_or_else(|| Arc::new(AtomicU32::new(0))),
            watch: parking_lot::Mutex::default(),
            name: name.clone(),
        };
        Stood { id: layout.id(&name, told.created), token, own }
    }
}

/// Finds the next place beside a contender; `None` if there are too many.
fn beside(anchor: &EtcdPlace) -> Option<QueuePosition> {
    let next = anchor.own.beside.fetch_add(1, Ordering::SeqCst) + 1;
    (next <= BESIDE_MAX).then(|| QueuePosition { next, ..anchor.own.position() })
}

/// How many operations stand side by side in a transaction: a server takes 128, and some of them are looks.
const SIDE_BY_SIDE_MAX: usize = 32;

/// The extent of the queue in a join's own answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Shows {
    Whole,
    Short,
    Nothing,
}

impl KeyJoin {
    /// Sends the entries once; `None` if they were sent with a stamp, an offset or a tail that had changed.
    pub(super) async fn attempt(&self, link: &EtcdLink) -> Result<Option<Joined<EtcdOwn>>, Failure> {
        let core = &self.inner.core;
        let Some(stamp) = link.stamp else {
            // The next connection may find room.
            link.connection.shut();
            return Err(no_room());
        };
        let (epoch, asked_at) = (core.epoch(), core.life.clock.now());
        let was_sent = self.joining.send();
        let (tail, shows) = (self.tail(), self.shows());
        let request = self.request(stamp, epoch, tail, shows, was_sent);
        let answer = match core.ask(link, request, Operation::Join, core.life.deadline()).await {
            Ok(answer) => answer,
            Err(failure) => {
                if failure.effect == Effect::None && !was_sent {
                    self.joining.note_unsent();
                }
                return Err(failure);
            }
        };
        let revision = header(&answer)?.revision;
        let mut answers = answer.responses;
        // Only an earlier attempt can have stored them if this one has not.
        let looks = if answer.succeeded || was_sent { self.looks(shows).len() } else { 0 };
        let at = answers.len().checked_sub(looks).ok_or_else(Failure::unexpected)?;
        let view = self.seen(link, tail, &answers.split_off(at))?;
        let first_token = core.layout.first_token(epoch.offset);
        let told = |created| StoredEntries { created, first_token, segment: tail.segment, view, asked_at };
        if answer.succeeded {
            self.note_filled(tail, answers.last());
            return self.stored(link, told(revision)).await.map(Some);
        }
        let [own, session, offset, present_tail] = answers.try_into().map_err(|_| Failure::unexpected())?;
        match range_of(&own)?.kvs.first() {
            Some(kv) if ticket_of(&kv.value) == Some(self.wanted[0].ticket) => {
                return self.stored(link, told(kv.create_revision)).await.map(Some);
            }
            Some(kv) => {
                self.remove_leftover(link, kv).await?;
                return Ok(None);
            }
            None => {}
        }
        let stamp = range_of(&session)?.kvs.first().map(|kv| kv.mod_revision);
        self.why_refused(link, epoch, stamp, offset, (tail, Tail::of(&present_tail)?))
    }

    fn tail(&self) -> Tail {
        self.joining.tail(|| match self.has_segments() {
            true => self.inner.tails.lock().known(&self.queue).tail,
            false => Tail::default(),
        })
    }

    fn has_segments(&self) -> bool {
        self.inner.core.layout.has_segments(&self.queue)
    }

    fn shows(&self) -> Shows {
        if !self.has_segments() || self.shows_whole {
            return Shows::Whole;
        }
        if self.inner.tails.lock().known(&self.queue).is_long { Shows::Nothing } else { Shows::Short }
    }

    fn looks(&self, shows: Shows) -> Vec<RequestOp> {
        let layout = &self.inner.core.layout;
        match shows {
            Shows::Whole => view::ranges(layout, &self.queue, ReadSource::Quorum, 0),
            Shows::Short => view::ranges(layout, &self.queue, ReadSource::Quorum, view::SHORT_MAX),
            Shows::Nothing => Vec::new(),
        }
    }

    /// Reads what the looks show; `None` if that is not the whole queue.
    fn seen(&self, link: &EtcdLink, tail: Tail, looks: &[ResponseOp]) -> Result<Option<QueueView>, Failure> {
        if looks.is_empty() {
            return Ok(None);
        }
        let shown = view::read(&self.inner.core.layout, &self.queue, link, looks)?;
        if self.has_segments() {
            self.inner.tails.lock().note_length(&self.queue, shown.count > view::SHORT_MAX);
            if tail.segment == 0 && shown.count >= SEGMENT_FULL {
                self.inner.begin_segment(&self.queue, tail);
            }
        }
        Ok((!shown.has_more).then_some(shown.view))
    }

    /// Begins the next segment if the joined one is full: the answer counts it, unless the looks do.
    fn note_filled(&self, tail: Tail, counted: Option<&ResponseOp>) {
        if counted.and_then(|counted| range_of(counted).ok()).is_some_and(|range| range.count >= SEGMENT_FULL) {
            self.inner.begin_segment(&self.queue, tail);
        }
    }

    /// Removes what has the name of the first entry and is none of ours any more: a contender that had left came back
    /// with older data of the service.
    async fn remove_leftover(&self, link: &EtcdLink, leftover: &KeyValue) -> Result<(), Failure> {
        let is_it = modified_at(leftover.key.clone(), leftover.mod_revision);
        let request = txn(vec![is_it], vec![delete(leftover.key.clone())], Vec::new());
        let core = &self.inner.core;
        core.ask(link, request, Operation::Join, core.life.deadline()).await.map(|_| ())
    }

    /// Finds the reason why the entries were not stored, though the first of them is not there.
    fn why_refused(
        &self,
        link: &EtcdLink,
        epoch: TokenEpoch,
        stamp: Option<i64>,
        offset: ResponseOp,
        (tail, present_tail): (Tail, Tail),
    ) -> Result<Option<Joined<EtcdOwn>>, Failure> {
        let core = &self.inner.core;
        let Some(written) = stamp else {
            return Err(Failure::session_gone());
        };
        match TokenEpoch::of(&offset) {
            Some(present) if present != epoch => {
                core.set_epoch(present);
                return Ok(None);
            }
            Some(_) => {}
            None => {
                core.life.expire();
                let message = "the key from which tokens are counted was deleted; a new session writes it anew";
                return Err(Failure::new(FailureKind::Other, Effect::None, message));
            }
        }
        if Some(written) != link.stamp {
            // Another connection of the session has taken over.
            link.connection.shut();
            return Err(Failure::superseded());
        }
        if tail != present_tail && self.joins_tail() {
            self.inner.tails.lock().note_tail(&self.queue, present_tail);
            self.joining.turn_to(present_tail);
            return Ok(None);
        }
        Ok(Some(Joined::AnchorGone))
    }

    fn joins_tail(&self) -> bool {
        self.has_segments() && self.wanted.iter().any(|wanted| wanted.anchor.is_none())
    }

    fn key(&self, wanted: &JoinEntry, tail: Tail) -> Vec<u8> {
        self.inner.core.layout.key(&self.queue, &wanted.name.in_segment(tail.segment))
    }

    fn request(&self, stamp: i64, epoch: TokenEpoch, tail: Tail, shows: Shows, was_sent: bool) -> TxnRequest {
        let (core, layout) = (&self.inner.core, &self.inner.core.layout);
        let first = self.key(&self.wanted[0], tail);
        let (session, tail_key) = (layout.session(core.lease), layout.tail(&self.queue));
        let mut conditions = vec![
            absent(first.clone()),
            modified_at(session.clone(), stamp),
            modified_at(layout.offset(), epoch.written),
        ];
        if self.joins_tail() {
            conditions.push(modified_at(tail_key.clone(), tail.written));
        }
        let anchors = self.wanted.iter().filter_map(|wanted| wanted.anchor.as_ref());
        let anchors: BTreeMap<_, _> = anchors.map(|anchor| (&anchor.own.key, anchor.own.created)).collect();
        conditions.extend(anchors.into_iter().map(|(key, created)| created_at(key.clone(), created)));
        let puts = self.wanted.iter().map(|wanted| {
            let lease = if wanted.outlives_session { 0 } else { core.lease };
            put(self.key(wanted, tail), wanted.value.clone(), lease)
        });
        let mut success = side_by_side(puts.collect());
        let mut failure: Vec<RequestOp> =
            [first, session, layout.offset(), tail_key].into_iter().map(|key| key_range(key).into()).collect();
        if tail.segment > 0 || shows == Shows::Nothing {
            let segment = tail.segment..=tail.segment;
            let (key, range_end) = layout.segments(&self.queue, self.wanted[0].name.mode, segment);
            success.push(RangeRequest { key, range_end, count_only: true, ..RangeRequest::default() }.into());
        }
        let looks = self.looks(shows);
        if was_sent {
            failure.extend(looks.iter().cloned());
        }
        success.extend(looks);
        txn(conditions, success, failure)
    }
}

/// Groups operations where there are too many to stand side by side.
fn side_by_side(operations: Vec<RequestOp>) -> Vec<RequestOp> {
    if operations.len() <= SIDE_BY_SIDE_MAX {
        return operations;
    }
    operations.chunks(SIDE_BY_SIDE_MAX).map(|some| group(some.to_vec())).collect()
}
