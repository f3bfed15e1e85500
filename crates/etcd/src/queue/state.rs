//! State that the calls of one session share: the session below, its own contenders from their joins until they are
//! certainly gone, and what is known of long queues.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use lockkeeper_core::{BoxFuture, Operation, QueueName, Ticket};
use lockkeeper_session::{Effect, Failure, Young};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::layout::{Layout, MODES, Name, QueuePosition};
use crate::proto::{Compare, TxnRequest, TxnResponse};
use crate::queue::tail::{Tail, Tails};
use crate::rpc::{KeyWatch, absent, delete, key_range, modified_at, prefix_end, put, txn};
use crate::session::{Core, EtcdLink, QueuedRemoval, SessionUse, header};

pub(crate) struct Etcd {
    pub(super) inner: Arc<QueueCore>,
}

pub(super) type Queues = lockkeeper_session::Queues<Etcd>;

/// The shared state of the calls of one session. It does not keep the session alive.
pub(super) struct QueueCore {
    pub(super) core: Arc<Core>,
    claims: Mutex<Claims>,
    pub(super) tails: Mutex<Tails>,
    /// The places that are not watched yet.
    pub(super) young: Young<EtcdOwn>,
    told: Mutex<ToldDeparture>,
}

/// The last departure that a member has reported.
#[derive(Clone, Copy, Debug, Default)]
struct ToldDeparture {
    link: u64,
    revision: i64,
}

impl QueueCore {
    pub(super) fn new(core: Arc<Core>) -> Self {
        Self {
            core,
            claims: Mutex::default(),
            tails: Mutex::default(),
            young: Young::default(),
            told: Mutex::default(),
        }
    }

    /// Changes the claims, and notes what the session is used for by then.
    pub(super) fn change_claims<T>(&self, change: impl FnOnce(&mut Claims) -> T) -> T {
        let mut claims = self.claims.lock();
        let changed = change(&mut claims);
        // Under the lock, so that the last change is noted last.
        self.core.note_use(claims.session_use());
        changed
    }

    /// Returns the claim of a ticket, if it has one.
    pub(super) fn claim(&self, ticket: Ticket) -> Option<ContenderClaim> {
        self.claims.lock().by_ticket.get(&ticket).cloned()
    }

    pub(super) fn note_told(&self, link: &EtcdLink, revision: i64) {
        *self.told.lock() = ToldDeparture { link: link.number, revision };
    }

    /// The revision of the last departure, if the member behind this connection has reported it.
    pub(super) fn told(&self, link: &EtcdLink) -> Option<i64> {
        let told = *self.told.lock();
        (told.link == link.number).then_some(told.revision)
    }

    /// Runs something behind all earlier calls on the same lock: it is begun now, whether or not its answer is awaited.
    /// A removal may be done by the one before it.
    pub(super) fn run<T: Send + 'static>(
        &self,
        queue: &QueueName,
        removal: Option<Arc<QueuedRemoval>>,
        work: impl Future<Output = Result<T, Failure>> + Send + 'static,
    ) -> BoxFuture<Result<T, Failure>> {
        let (job, answer) = answered(work);
        self.core.lanes.run(queue, removal, job);
        answer
    }

    /// Runs a look behind all earlier calls on the same lock: it is begun now, whether or not its answer is awaited.
    pub(super) fn run_look<T: Send + 'static>(
        &self,
        queue: &QueueName,
        work: impl Future<Output = Result<T, Failure>> + Send + 'static,
    ) -> BoxFuture<Result<T, Failure>> {
        let (job, answer) = answered(work);
        self.core.lanes.run_look(queue, job);
        answer
    }

    /// Begins the next segment, in the background, unless another client has done so. If it fails, the next contender
    /// to join begins it. Where contenders stand in it, or behind it, the key of the tail was deleted by hand: they
    /// stand ahead of all that join now, which then stay in one segment until these have left.
    pub(super) fn begin_segment(self: &Arc<Self>, queue: &QueueName, full: Tail) {
        let Some(next) = full.segment.checked_add(1) else { return };
        let key = self.core.layout.tail(queue);
        let mut conditions = none_from(&self.core.layout, queue, next);
        conditions.push(modified_at(key.clone(), full.written));
        let write = put(key.clone(), next.to_string(), 0);
        self.change_tail(queue, txn(conditions, vec![write], vec![key_range(key).into()]), move |answer| {
            match (answer.succeeded, header(&answer), answer.responses.first()) {
                (true, Ok(header), _) => Some(Tail { segment: next, written: header.revision }),
                (false, _, Some(present)) => Tail::of(present).ok(),
                _ => None,
            }
        });
    }

    /// Begins with the first segment again, in the background, if the queue is empty.
    pub(super) fn begin_anew(self: &Arc<Self>, queue: &QueueName) {
        let empty = none_below(self.core.layout.queue(queue));
        let request = txn(vec![empty], vec![delete(self.core.layout.tail(queue))], Vec::new());
        self.change_tail(queue, request, |answer| answer.succeeded.then(Tail::default));
    }

    fn change_tail(
        self: &Arc<Self>,
        queue: &QueueName,
        request: TxnRequest,
        read: impl FnOnce(TxnResponse) -> Option<Tail> + Send + 'static,
    ) {
        let (inner, queue) = (self.clone(), queue.clone());
        self.core.life.runtime.spawn(async move {
            let Some(link) = inner.core.life.present_link() else { return };
            let answer = inner.core.ask(&link, request, Operation::Value, inner.core.life.deadline()).await;
            if let Some(tail) = answer.ok().and_then(read) {
                inner.tails.lock().note_tail(&queue, tail);
            }
        });
    }
}

/// A wait of a contender of ours for one ahead. While it lives, the contender holds nothing.
pub(super) struct WaitingContender {
    inner: Arc<QueueCore>,
    ticket: Ticket,
}

impl WaitingContender {
    pub(super) fn begin(inner: &Arc<QueueCore>, ticket: Ticket) -> Self {
        inner.change_claims(|claims| claims.begin_wait(ticket));
        Self { inner: inner.clone(), ticket }
    }
}

impl Drop for WaitingContender {
    fn drop(&mut self) {
        self.inner.change_claims(|claims| claims.end_wait(self.ticket));
    }
}

/// Separates work from its answer: the work goes on without a caller, and a caller learns if it cannot go on.
fn answered<T: Send + 'static>(
    work: impl Future<Output = Result<T, Failure>> + Send + 'static,
) -> (impl Future<Output = ()> + Send + 'static, BoxFuture<Result<T, Failure>>) {
    let (give, given) = oneshot::channel();
    let job = async move {
        // The caller may have gone.
        let _ = give.send(work.await);
    };
    let answer = async move { given.await.unwrap_or_else(|_| Err(Failure::broken(Effect::Unknown))) };
    (job, Box::pin(answer))
}

fn none_below(prefix: Vec<u8>) -> Compare {
    let range_end = prefix_end(&prefix);
    none_in((prefix, range_end))
}

fn none_from(layout: &Layout, queue: &QueueName, segment: u32) -> Vec<Compare> {
    MODES.into_iter().map(|mode| none_in(layout.segments(queue, mode, segment..=u32::MAX))).collect()
}

/// There is no key in a range: of no key at all each condition on a number is true that is true of 0.
fn none_in((key, range_end): (Vec<u8>, Vec<u8>)) -> Compare {
    Compare { range_end, ..absent(key) }
}

#[derive(Clone, Debug)]
pub(super) struct ContenderClaim {
    /// Its name in the first segment.
    pub(super) name: Name,
    pub(super) joining: Arc<KeyJoinProgress>,
    /// How many waits for contenders ahead of it are under way.
    waits: usize,
}

impl ContenderClaim {
    pub(super) fn new(name: Name, joining: Arc<KeyJoinProgress>) -> Self {
        Self { name, joining, waits: 0 }
    }
}

/// The progress of a join, shared by all of its entries.
#[derive(Debug, Default)]
pub(super) struct KeyJoinProgress {
    was_sent: AtomicBool,
    /// The tail that the entries were sent to, or are to be sent to.
    tail: Mutex<Option<Tail>>,
    /// The revision at which they were created, once that was answered.
    created: OnceLock<i64>,
}

impl KeyJoinProgress {
    /// Notes that it is about to be sent; returns whether an attempt before may have taken effect.
    pub(super) fn send(&self) -> bool {
        self.was_sent.swap(true, Ordering::SeqCst)
    }

    pub(super) fn was_sent(&self) -> bool {
        self.was_sent.load(Ordering::SeqCst)
    }

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

#[derive(Debug, Default)]
pub(super) struct Claims {
    by_ticket: BTreeMap<Ticket, ContenderClaim>,
    /// How many of the contenders wait.
    waiting: usize,
    slots: Slots,
}

/// The slots for the names of new contenders.
#[derive(Debug, Default)]
struct Slots {
    free: BTreeSet<u32>,
    /// The first that was never taken.
    next: u32,
    /// The state of the service in which they are free: the revision of the offset of tokens.
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

    pub(super) fn begin(&mut self, ticket: Ticket, claim: ContenderClaim) {
        self.by_ticket.insert(ticket, claim);
    }

    fn begin_wait(&mut self, ticket: Ticket) {
        let Some(claim) = self.by_ticket.get_mut(&ticket) else { return };
        claim.waits += 1;
        if claim.waits == 1 {
            self.waiting += 1;
        }
    }

    fn end_wait(&mut self, ticket: Ticket) {
        // The claim may be a later one, of whose waits this is none.
        let Some(claim) = self.by_ticket.get_mut(&ticket).filter(|claim| claim.waits > 0) else { return };
        claim.waits -= 1;
        if claim.waits == 0 {
            self.waiting -= 1;
        }
    }

    /// Forgets a claim, if there is one. Its slot is free if its contender is certainly gone, and cannot come any more.
    pub(super) fn end(&mut self, ticket: Ticket, is_gone: bool) {
        let Some(claim) = self.by_ticket.remove(&ticket) else { return };
        if is_gone {
            self.slots.free.insert(claim.name.slot);
        }
        if claim.waits > 0 {
            self.waiting -= 1;
        }
    }

    fn session_use(&self) -> SessionUse {
        match self.by_ticket.len() {
            0 => SessionUse::Rests,
            all if all == self.waiting => SessionUse::Waits,
            _ => SessionUse::Holds,
        }
    }
}

pub(super) type EtcdPlace = lockkeeper_session::Place<EtcdOwn>;

pub(crate) struct EtcdOwn {
    pub(super) key: Vec<u8>,
    pub(super) name: Name,
    pub(super) created: i64,
    /// Counts the contenders beside this one, or beside the one that this one stands beside.
    pub(super) beside: Arc<AtomicU32>,
    pub(super) watch: Mutex<Option<KeyWatch>>,
}

impl EtcdOwn {
    pub(super) fn position(&self) -> QueuePosition {
        self.name.position(self.created)
    }

    pub(super) fn is_watched(&self) -> bool {
        self.watch.lock().as_ref().is_some_and(KeyWatch::is_live)
    }

    /// Keeps a watch on it in place of another one, which is returned: it ends when it is dropped.
    pub(super) fn swap_watch(&self, watch: Option<KeyWatch>) -> Option<KeyWatch> {
        std::mem::replace(&mut *self.watch.lock(), watch)
    }
}

impl lockkeeper_session::Own for EtcdOwn {
    fn withdrawn(&self) {
        drop(self.swap_watch(None));
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
            claims.begin(Ticket::from_bits(slot.into()), ContenderClaim::new(name, Arc::default()));
            slot
        };
        let end = |claims: &mut Claims, slot: u32| claims.end(Ticket::from_bits(slot.into()), true);
        let taken: Vec<_> = (0..3).map(|_| take(&mut claims, 7)).collect();
        assert_eq!(taken, [0, 1, 2]);
        end(&mut claims, 1);
        end(&mut claims, 1);
        assert_eq!([take(&mut claims, 7), take(&mut claims, 7)], [1, 3]);
        end(&mut claims, 0);
        assert_eq!([take(&mut claims, 9), take(&mut claims, 9)], [4, 5]);
        end(&mut claims, 4);
        assert_eq!(take(&mut claims, 9), 4);
        claims.end(Ticket::from_bits(5), false);
        assert_eq!(take(&mut claims, 9), 6, "the name of one that stays is not taken again");
    }

    #[test]
    fn a_contender_that_waits_may_not_hold_until_its_last_wait_has_ended() {
        let mut claims = Claims::default();
        let name = |slot| Name { mode: Mode::Mutex, segment: 0, lease: 1, slot, number: 0, beside: None };
        let (first, second) = (Ticket::from_bits(1), Ticket::from_bits(2));
        assert_eq!(claims.session_use(), SessionUse::Rests);
        claims.begin(first, ContenderClaim::new(name(0), Arc::default()));
        assert_eq!(claims.session_use(), SessionUse::Holds);
        claims.begin_wait(first);
        claims.begin_wait(first);
        assert_eq!(claims.session_use(), SessionUse::Waits);
        claims.begin(second, ContenderClaim::new(name(1), Arc::default()));
        assert_eq!(claims.session_use(), SessionUse::Holds, "the second may");
        claims.end(second, true);
        claims.end_wait(first);
        assert_eq!(claims.session_use(), SessionUse::Waits);
        claims.end_wait(first);
        assert_eq!(claims.session_use(), SessionUse::Holds);
        claims.begin_wait(first);
        claims.end(first, true);
        claims.end_wait(first);
        assert_eq!(claims.session_use(), SessionUse::Rests, "it is gone");
    }
}
