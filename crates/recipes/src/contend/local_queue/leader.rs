//! One attempt at a place in the service's queue, by the task that has the key and finds no place.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use lockkeeper_core::{Opener, QueueView, Result, Session};

use crate::contend::local_queue::key::Key;
use crate::contend::local_queue::state::PendingLeader;
use crate::contend::{Attempt, Granted, OnePlace, Pending, PlaceAttempt, Progress};
use crate::shared::Shared;

/// The attempt; the join that is under way stays with the local queue when it is dropped.
pub(super) struct Leader<'a> {
    wanted: OnePlace<'a>,
    key: Option<Key>,
    pending: Option<Box<Pending>>,
    /// What the local queue was told last of whether the leader waits in a place.
    is_placed: bool,
    attempts: u32,
    /// How many tasks had come to the line when an attempt began that counts for them.
    arrivals: u64,
}

impl<'a> Leader<'a> {
    /// Goes on with what the local queue has pending.
    pub(super) fn new(wanted: OnePlace<'a>, key: Key, left: PendingLeader) -> Self {
        let PendingLeader { pending, is_placed, arrivals } = left;
        Self { wanted, key: Some(key), pending, is_placed, attempts: 0, arrivals }
    }

    /// Tells before which arrival a failure of this counts for a task of the line too: it was there for all attempts
    /// but the first. Those that came later are led by one of them, under a whole retry policy.
    pub(super) const fn shared_before(&self) -> u64 {
        self.arrivals
    }

    /// Returns the key when the attempt is over.
    pub(super) fn into_key(mut self) -> Key {
        self.key.take().expect("it is taken once")
    }

    fn attempt(&mut self) -> PlaceAttempt<'_> {
        PlaceAttempt::new(self.wanted, &mut self.pending)
    }

    fn note_attempt(&mut self) {
        if self.attempts == 1
            && let Some(key) = &self.key
        {
            self.arrivals = key.local().state().line.arrivals();
        }
        self.attempts = self.attempts.saturating_add(1);
    }

    /// Notes whether the leader waits in a place.
    fn note_place(&mut self, is_placed: bool) {
        if self.is_placed != is_placed
            && let Some(key) = &self.key
        {
            self.is_placed = is_placed;
            key.local().state().is_placed = is_placed;
        }
    }
}

impl Attempt for Leader<'_> {
    /// With the queue at the join, if it was granted by that.
    type Granted = (Granted, QueueView);

    fn opener<'s>(&self, shared: &'s Shared) -> &'s Opener<Arc<dyn Session>> {
        self.wanted.opener(shared)
    }

    fn at_once(
        &mut self,
        shared: &Shared,
        progress: &mut Progress,
        context: &mut Context<'_>,
    ) -> Poll<Result<Self::Granted>> {
        let granted = self.attempt().poll_at_once(shared, progress, context);
        if matches!(granted, Poll::Ready(Err(_))) {
            self.note_attempt();
        }
        granted
    }

    async fn wait(&mut self, shared: &Shared, progress: &mut Progress) -> Result<Self::Granted> {
        self.note_attempt();
        let is_first = self.attempt().join(shared).await?.is_first();
        *progress = Progress::Placed;
        // The first one does not wait in its place.
        self.note_place(!is_first);
        let granted = self.attempt().granted(shared).await;
        self.note_place(false);
        granted
    }

    async fn try_once(&mut self, shared: &Shared) -> Result<Option<Self::Granted>> {
        self.attempt().try_once(shared).await
    }
}

impl Drop for Leader<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            let pending = self.pending.take();
            let (local, serial) = key.used();
            let now = local.clock.now();
            local.change(|state| state.give_up(serial, pending, now));
        }
    }
}

impl fmt::Debug for Leader<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Leader").field(&self.wanted).finish()
    }
}
