//! The right of one task to take a turn of a local queue, or to lead: to attempt a place for it in the service's queue.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use lockkeeper_core::{Error, Opener, QueueView, Result, Session};

use crate::contend::local_queue::LocalQueue;
use crate::contend::local_queue::line::{SlotNumber, TaskNews};
use crate::contend::local_queue::state::PendingLeader;
use crate::contend::{GrantAttempt, Granted, OnePlace, PendingPlace, PlaceAttempt, WaitProgress};
use crate::shared::Shared;

/// The key of a local queue: dropping it gives it to the next task.
#[derive(Debug)]
pub(super) struct TurnKey {
    /// `None` once a turn has it: then it is not given on.
    local: Option<Arc<LocalQueue>>,
    serial: u64,
}

impl TurnKey {
    pub(super) const fn new(local: Arc<LocalQueue>, serial: u64) -> Self {
        Self { local: Some(local), serial }
    }

    pub(super) fn local(&self) -> &Arc<LocalQueue> {
        self.local.as_ref().expect("no turn has it yet")
    }

    pub(super) const fn serial(&self) -> u64 {
        self.serial
    }

    /// Ends its care: a turn has it now.
    pub(super) fn used(mut self) -> (Arc<LocalQueue>, u64) {
        (self.local.take().expect("it is used once"), self.serial)
    }
}

impl Drop for TurnKey {
    fn drop(&mut self) {
        if let Some(local) = self.local.take() {
            let now = local.clock.now();
            local.change(|state| state.give_up(self.serial, None, now));
        }
    }
}

/// A task's place in the line of a local queue: ready when it has the key, or will not have it. Dropping it leaves the
/// line.
#[derive(Debug)]
pub(super) struct LineWait {
    local: Arc<LocalQueue>,
    /// `None` once it was told.
    slot: Option<SlotNumber>,
}

impl LineWait {
    pub(super) const fn new(local: Arc<LocalQueue>, slot: SlotNumber) -> Self {
        Self { local, slot: Some(slot) }
    }
}

impl Future for LineWait {
    type Output = Result<TurnKey, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let slot = self.slot.expect("a future that was ready is not polled again");
        let told = self.local.state.lock().line.poll(slot, context.waker());
        let output = match told {
            TaskNews::Nothing => return Poll::Pending,
            TaskNews::Key(serial) => Ok(TurnKey::new(self.local.clone(), serial)),
            TaskNews::Failed(error) => Err(error),
        };
        self.slot = None;
        Poll::Ready(output)
    }
}

impl Drop for LineWait {
    fn drop(&mut self) {
        let Some(slot) = self.slot else { return };
        let told = self.local.state.lock().line.remove(slot);
        if let TaskNews::Key(serial) = told {
            // It was given the key, and goes away before it hears of it.
            drop(TurnKey::new(self.local.clone(), serial));
        }
    }
}

/// The attempt; the join that is under way stays with the local queue when it is dropped.
pub(super) struct Leader<'a> {
    wanted: OnePlace<'a>,
    key: Option<TurnKey>,
    pending: Option<Box<PendingPlace>>,
    /// What the local queue was told last of whether the leader waits in a place.
    is_placed: bool,
    attempts: u32,
    /// How many tasks had come to the line when an attempt began that counts for them.
    arrivals: u64,
}

impl<'a> Leader<'a> {
    /// Goes on with what the local queue has pending.
    pub(super) fn new(wanted: OnePlace<'a>, key: TurnKey, left: PendingLeader) -> Self {
        let PendingLeader { pending, is_placed, arrivals } = left;
        Self { wanted, key: Some(key), pending, is_placed, attempts: 0, arrivals }
    }

    /// Tells before which arrival a failure of this counts for a task of the line too: it was there for all attempts
    /// but the first. Those that came later are led by one of them, under a whole retry policy.
    pub(super) const fn shared_before(&self) -> u64 {
        self.arrivals
    }

    /// Returns the key when the attempt is over.
    pub(super) fn into_key(mut self) -> TurnKey {
        self.key.take().expect("it is taken once")
    }

    fn attempt(&mut self) -> PlaceAttempt<'_> {
        PlaceAttempt::new(self.wanted, &mut self.pending)
    }

    fn note_attempt(&mut self) {
        if self.attempts == 1
            && let Some(key) = &self.key
        {
            self.arrivals = key.local().state.lock().line.arrivals();
        }
        self.attempts = self.attempts.saturating_add(1);
    }

    /// Notes whether the leader waits in a place.
    fn note_place(&mut self, is_placed: bool) {
        if self.is_placed != is_placed
            && let Some(key) = &self.key
        {
            self.is_placed = is_placed;
            key.local().state.lock().is_placed = is_placed;
        }
    }
}

impl GrantAttempt for Leader<'_> {
    /// With the queue at the join, if it was granted by that.
    type Granted = (Granted, QueueView);

    fn opener<'s>(&self, shared: &'s Shared) -> &'s Opener<Arc<dyn Session>> {
        self.wanted.opener(shared)
    }

    fn at_once(
        &mut self,
        shared: &Shared,
        progress: &mut WaitProgress,
        context: &mut Context<'_>,
    ) -> Poll<Result<Self::Granted>> {
        let granted = self.attempt().poll_at_once(shared, progress, context);
        if matches!(granted, Poll::Ready(Err(_))) {
            self.note_attempt();
        }
        granted
    }

    async fn wait(&mut self, shared: &Shared, progress: &mut WaitProgress) -> Result<Self::Granted> {
        self.note_attempt();
        let is_first = self.attempt().join(shared).await?.is_first();
        *progress = WaitProgress::Placed;
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
