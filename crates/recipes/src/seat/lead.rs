//! One attempt at a place in the service's queue, by the task that has the key and finds no place.

use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use tokio::sync::Mutex as AsyncMutex;

use super::end_of_place::EndOfPlace;
use super::key::Key;
use super::pending::{Pending, Placed};
use super::state::Grant;
use crate::contend::{Attempt, Granted, OnePlace, Place, Progress};
use crate::shared::Shared;
use lockkeeper_core::{QueueName, QueueView, Result};

/// What an attempt has led to.
pub(super) struct Led {
    granted: Granted,
    alone: Option<QueueView>,
}

impl Led {
    /// Makes the grant of it that turns are taken from.
    pub(super) fn into_grant(self, number: u64, shared: &Shared) -> (Place, Grant) {
        let Self { granted: Granted { place, id, token, standing }, alone } = self;
        standing.granted();
        let (ticket, session, granted_at) = (place.ticket(), place.session().clone(), shared.clock.now());
        let (token, end_of_place) = (token.as_u64(), EndOfPlace::default());
        let grant = Grant { number, id, ticket, session, token, standing, granted_at, alone, end_of_place };
        (place, grant)
    }
}

/// The attempt; the join that is under way stays with the seat when it is dropped.
pub(super) struct Lead<'a> {
    wanted: OnePlace<'a>,
    key: Option<Key>,
    /// Locked by the only wait.
    pending: AsyncMutex<Option<Pending>>,
    attempts: AtomicU32,
    /// How many tasks had come to the line when an attempt began that counts for them.
    arrivals: AtomicU64,
}

impl<'a> Lead<'a> {
    pub(super) fn new(wanted: OnePlace<'a>, key: Key) -> Self {
        let (pending, arrivals) = {
            let mut state = key.seat().state();
            (state.take_pending(), state.line.arrivals())
        };
        let (pending, arrivals) = (AsyncMutex::new(pending), AtomicU64::new(arrivals));
        Self { wanted, key: Some(key), pending, attempts: AtomicU32::new(0), arrivals }
    }

    /// Tells before which arrival a failure of this counts for a task of the line too: it was there for all attempts
    /// but the first. Those that came later are led by one of them, under a whole retry policy.
    pub(super) fn shared_before(&self) -> u64 {
        self.arrivals.load(Ordering::Relaxed)
    }

    fn note_attempt(&self) {
        let attempts = self.attempts.fetch_add(1, Ordering::Relaxed);
        if let Some(key) = self.key.as_ref().filter(|_| attempts == 1) {
            self.arrivals.store(key.seat().state().line.arrivals(), Ordering::Relaxed);
        }
    }

    /// Returns the key when the attempt is over; a join that is under way is withdrawn.
    pub(super) fn into_key(mut self) -> Key {
        self.key.take().expect("it is taken once")
    }

    fn note_place(&self, is_placed: bool) {
        if let Some(key) = &self.key {
            key.seat().state().is_placed = is_placed;
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

impl Attempt for Lead<'_> {
    type Granted = Led;

    fn queue(&self) -> &QueueName {
        self.wanted.queue
    }

    async fn wait(&self, shared: &Shared, progress: &mut Progress) -> Result<Led> {
        self.note_attempt();
        let mut pending = self.pending.lock().await;
        let placed = self.place(shared, &mut pending).await?;
        *progress = Progress::Placed;
        self.note_place(true);
        let is_first = placed.joined.is_first();
        let outcome = placed.joined.until_granted(shared).await;
        // Granted or lost, the place cannot be waited in any more.
        let Some(Pending::Joined(Placed { joined, alone })) = pending.take() else { unreachable!("it was placed") };
        self.note_place(false);
        outcome?;
        // After a wait others may have come meanwhile.
        Ok(Led { granted: joined.grant()?, alone: alone.filter(|_| is_first) })
    }

    async fn try_once(&self, shared: &Shared) -> Result<Option<Led>> {
        let Some(session) = self.wanted.look(shared).await? else { return Ok(None) };
        let joined = self.wanted.join(shared, session).await?;
        let alone = joined.view_alone();
        Ok(joined.granted_at_once()?.map(|granted| Led { granted, alone }))
    }
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            let pending = self.pending.get_mut().take();
            let (seat, serial) = key.used();
            let now = seat.clock.now();
            seat.change(|state| state.give_up(serial, pending, now));
        }
    }
}

impl fmt::Debug for Lead<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Lead").field(&self.wanted).finish()
    }
}
