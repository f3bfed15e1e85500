//! One attempt at a place in the service's queue, by the task that has the key and finds no place.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use super::grant::NewGrant;
use super::key::Key;
use super::pending::{Pending, Placed};
use super::state::Unled;
use crate::contend::{Attempt, Granted, OnePlace, Place, Progress};
use crate::shared::Shared;
use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{Opener, QueueName, QueueView, Result, Session};

/// What an attempt has led to.
pub(super) struct Led {
    pub(super) granted: Granted,
    alone: Option<QueueView>,
}

impl Led {
    /// Makes the grant of it that turns are taken from.
    pub(super) fn into_grant(self, number: u64, granted_at: BootInstant) -> (Place, NewGrant) {
        let Self { granted: Granted { place, id, token, standing }, alone } = self;
        (place, NewGrant { number, id, token: token.as_u64(), standing, granted_at, alone })
    }
}

/// The attempt; the join that is under way stays with the local queue when it is dropped.
pub(super) struct Lead<'a> {
    wanted: OnePlace<'a>,
    key: Option<Key>,
    /// Empty while the only wait has it.
    pending: Mutex<Option<Box<Pending>>>,
    /// What the local queue was told last of whether the leader waits in a place.
    is_placed: AtomicBool,
    attempts: AtomicU32,
    /// How many tasks had come to the line when an attempt began that counts for them.
    arrivals: AtomicU64,
}

impl<'a> Lead<'a> {
    /// Goes on with what was begun; `attempts` of it have failed.
    pub(super) fn new(wanted: OnePlace<'a>, key: Key, unled: Unled, attempts: u32) -> Self {
        let Unled { pending, is_placed, arrivals } = unled;
        let (pending, is_placed) = (Mutex::new(pending), AtomicBool::new(is_placed));
        let arrivals = AtomicU64::new(arrivals);
        Self { wanted, key: Some(key), pending, is_placed, attempts: AtomicU32::new(attempts), arrivals }
    }

    /// Tells before which arrival a failure of this counts for a task of the line too: it was there for all attempts
    /// but the first. Those that came later are led by one of them, under a whole retry policy.
    pub(super) fn shared_before(&self) -> u64 {
        self.arrivals.load(Ordering::Relaxed)
    }

    fn note_attempt(&self) {
        let attempts = self.attempts.fetch_add(1, Ordering::Relaxed);
        if let Some(key) = self.key.as_ref().filter(|_| attempts == 1) {
            self.arrivals.store(key.local().state().line.arrivals(), Ordering::Relaxed);
        }
    }

    /// Returns the key when the attempt is over; a join that is under way is withdrawn.
    pub(super) fn into_key(mut self) -> Key {
        self.key.take().expect("it is taken once")
    }

    /// Notes whether the leader waits in a place.
    fn note_place(&self, is_placed: bool) {
        if self.is_placed.swap(is_placed, Ordering::Relaxed) == is_placed {
            return;
        }
        if let Some(key) = &self.key {
            key.local().state().is_placed = is_placed;
        }
    }

    /// Waits for the answer to the join that is under way, or to another one.
    async fn place<'p>(&self, shared: &Shared, pending: &'p mut Option<Pending>) -> Result<&'p mut Placed> {
        if pending.is_none() {
            let session = self.wanted.session(shared).await?;
            *pending = Some(Pending::Sent(self.wanted.send(shared, session)?));
        }
        if let Some(Pending::Sent((_, answer))) = pending {
            let answer = answer.await;
            let Some(Pending::Sent((place, _))) = pending.take() else { unreachable!("it was sent") };
            let joined = self.wanted.answered(shared, place, answer)?;
            let alone = joined.view_alone();
            *pending = Some(Pending::Joined(Placed { joined, alone }));
        }
        match pending {
            Some(Pending::Joined(placed)) => Ok(placed),
            _ => unreachable!("it was answered"),
        }
    }
}

/// Joins the queue, if the service answers at once, and takes what is granted then. A join that needs a wait is left
/// pending.
pub(super) fn lead_at_once(
    wanted: &OnePlace<'_>,
    shared: &Shared,
    pending: &mut Option<Box<Pending>>,
    progress: &mut Progress,
    context: &mut Context<'_>,
) -> Result<Option<Led>> {
    let session = if pending.is_none() { wanted.session_at_once(shared) } else { None };
    let Some(session) = session else { return Ok(None) };
    let (place, mut answer) = wanted.send(shared, session)?;
    let under_way = match answer.as_mut().poll(context) {
        Poll::Pending => Pending::Sent((place, answer)),
        Poll::Ready(answer) => {
            let joined = wanted.answered(shared, place, answer)?;
            *progress = Progress::Placed;
            if joined.is_first() && joined.is_granted_by_join()? {
                let is_alone = joined.is_alone();
                let (granted, view) = joined.grant_with_view()?;
                return Ok(Some(Led { granted, alone: is_alone.then_some(view) }));
            }
            let alone = joined.view_alone();
            Pending::Joined(Placed { joined, alone })
        }
    };
    *pending = Some(Box::new(under_way));
    Ok(None)
}

/// The join that is under way, while a wait has it: it stays with the attempt when the wait is dropped.
struct UnderWay<'a> {
    attempt: &'a Mutex<Option<Box<Pending>>>,
    pending: Option<Pending>,
}

impl<'a> UnderWay<'a> {
    fn of(attempt: &'a Mutex<Option<Box<Pending>>>) -> Self {
        let pending = attempt.lock().unwrap_or_else(PoisonError::into_inner).take();
        Self { attempt, pending: pending.map(|pending| *pending) }
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if let Some(pending) = self.pending.take() {
            *self.attempt.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(pending));
        }
    }
}

impl Attempt for Lead<'_> {
    type Granted = Led;

    fn queue(&self) -> &QueueName {
        self.wanted.queue
    }

    fn opener<'a>(&self, shared: &'a Shared) -> &'a Opener<Arc<dyn Session>> {
        self.wanted.opener(shared)
    }

    async fn wait(&self, shared: &Shared, progress: &mut Progress) -> Result<Led> {
        self.note_attempt();
        let mut under_way = UnderWay::of(&self.pending);
        let placed = self.place(shared, &mut under_way.pending).await?;
        *progress = Progress::Placed;
        let is_first = placed.joined.is_first();
        // The first one does not wait in its place.
        self.note_place(!is_first);
        let outcome = placed.joined.until_granted(shared).await;
        // Granted or lost, the place cannot be waited in any more.
        let joined = under_way.pending.take();
        let Some(Pending::Joined(Placed { joined, alone })) = joined else { unreachable!("it was placed") };
        self.note_place(false);
        outcome?;
        // After a wait others may have come meanwhile.
        Ok(Led { granted: joined.grant()?, alone: alone.filter(|_| is_first) })
    }

    async fn try_once(&self, shared: &Shared) -> Result<Option<Led>> {
        let Some(session) = self.wanted.look(shared).await? else { return Ok(None) };
        let joined = self.wanted.join(shared, session).await?;
        let alone = joined.view_alone();
        Ok(joined.granted_at_once().await?.map(|granted| Led { granted, alone }))
    }
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            let pending = self.pending.get_mut().unwrap_or_else(PoisonError::into_inner).take();
            let (local, serial) = key.used();
            let now = local.clock.now();
            local.change(|state| state.give_up(serial, pending, now));
        }
    }
}

impl fmt::Debug for Lead<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Lead").field(&self.wanted).finish()
    }
}
