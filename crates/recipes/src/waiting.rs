//! A place in line that was taken, and is not granted yet.

#[cfg(test)]
mod tests;

use std::fmt;
use std::marker::PhantomData;

use lockkeeper_core::{
    ContenderId, ContenderInfo, Error, ErrorKind, Extent, Freshness, Mode, Operation, QueueName, Result, Wait,
};

use crate::contend::{JoinedPlace, LineAttempt, OnePlace, PendingPlace, PlaceAttempt, grant};
use crate::decide;
use crate::election::Election;
use crate::hold::list::Presence;
use crate::lock::guard::{Guard, kind};
use crate::lock::{Lock, granted};
use crate::mutex::Mutex;
use crate::rw_lock::RwLock;
use crate::shared::call;
use crate::shared::call::LockCall;

/// A place in the queue of a lock, for callers that want to see how the wait goes; dropping it leaves the queue.
///
/// When its turn has come and the caller does not go on to [`Waiting::granted`], all contenders behind it keep waiting.
///
/// Made by [`Mutex::queue_up`], [`RwLock::queue_up_to_read`], [`RwLock::queue_up_to_write`] and [`Election::stand`].
/// Errors, cancellation, order, timeouts and connection loss of these and of the waits here are those of [`Mutex`],
/// where nothing else is said. A look ([`Waiting::position`], [`Waiting::holders`]) changes nothing and retries
/// nothing.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lockkeeper::Error> {
/// use std::time::Duration;
///
/// use lockkeeper::Wait;
///
/// # let keeper = lockkeeper::Keeper::memory();
/// let mutex = keeper.mutex("reports")?;
/// let first = mutex.lock().await?;
/// let mut waiting = mutex.queue_up().await?;
/// assert_eq!(waiting.position().await?, 1);
/// assert!(waiting.granted_within(Wait::AtMost(Duration::from_millis(1))).await?.is_none());
/// println!("{:?} is ahead of us", waiting.holders().await?[0].owner);
/// drop(first);
/// let second = waiting.granted().await?;
/// # drop(second);
/// # Ok(())
/// # }
/// ```
#[must_use = "the queue is left when this is dropped"]
pub struct Waiting<Kind> {
    lock: Lock,
    mode: Mode,
    /// Absent when the place was lost, and after the grant.
    place: Option<JoinedPlace>,
    /// From the moment in which it queued up until its grant.
    call: Option<LockCall>,
    kind: PhantomData<fn() -> Kind>,
}

impl<Kind> Waiting<Kind> {
    async fn take_place(lock: &Lock, mode: Mode) -> Result<Self> {
        let call = lock.call(mode, None)?;
        let mut wanted = LineAttempt(OnePlace::new(&lock.queue, mode, call::caller(&lock.shared, Wait::Forever)));
        let place = match call.traced(|| grant(&lock.shared, &lock.queue, &mut wanted, Wait::Forever, None)).await {
            Ok(place) => granted(place),
            Err(error) => {
                call.failed(&error);
                return Err(error);
            }
        };
        call.note(Presence::Idle);
        let (place, call) = (Some(place), Some(call));
        Ok(Self { lock: lock.clone(), mode, place, call, kind: PhantomData })
    }

    /// Returns the lock's name.
    pub fn name(&self) -> &QueueName {
        &self.lock.queue
    }

    /// Returns our identity in the queue; `None` if the place was lost in [`Waiting::granted_within`], or is granted.
    pub fn contender(&self) -> Option<&ContenderId> {
        self.place.as_ref().map(|place| &place.granted.grant.id)
    }

    /// Returns how many contenders stand ahead of us. It never grows while the place is the same, except for readers
    /// that join a writer ahead of us. Beyond a thousand it may be a lower bound.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Removed`], permanent, if we do not stand in the queue any more; transient if the service cannot be
    /// reached now.
    #[doc(alias = "getQueuedThreads")]
    pub async fn position(&self) -> Result<usize> {
        let Some(place) = &self.place else {
            return Err(self.gone());
        };
        let id = &place.granted.grant.id;
        let extent = Extent::Around(Some(id));
        let view = place.session().view(self.name(), Freshness::Latest, extent).await;
        view.map_err(|error| error.at(self.name()))?.ahead_of(id).ok_or_else(|| self.gone())
    }

    /// Shows who holds the lock, as [`Keeper::contenders`](crate::Keeper::contenders) does; a contender that freezes
    /// the lock carries the reason.
    pub async fn holders(&self) -> Result<Vec<ContenderInfo>> {
        let shown = self.lock.shared.admin()?.inspect(self.name()).await.map_err(|error| error.at(self.name()))?;
        let holds = decide::holders(&shown);
        Ok(shown.into_iter().zip(holds).filter(|&(_, holds)| holds).map(|(info, _)| info).collect())
    }

    /// Waits until our turn comes, however long it takes.
    pub async fn granted(mut self) -> Result<Guard<Kind>> {
        self.granted_within(Wait::Forever).await.map(granted)
    }

    /// Waits until our turn comes, for as long as `wait` says; `None` if the time was up first. Then the place is still
    /// ours. It is ours too if the future is dropped.
    ///
    /// Called again after a grant, or after an error that cost the place, it queues up anew. With [`Wait::No`], which
    /// only looks, it takes the lock if it is free then, and does not queue up.
    pub async fn granted_within(&mut self, wait: Wait) -> Result<Option<Guard<Kind>>> {
        let Lock { shared, queue, .. } = &self.lock;
        shared.home.check(Operation::Wait).map_err(|error| error.at(queue))?;
        let wanted = OnePlace::new(queue, self.mode, call::caller(shared, wait));
        // Without a place, the call alone is listed; with one, the place is, also when the call is dropped.
        let call = match &mut self.call {
            Some(call) => call,
            none => none.insert(self.lock.call(self.mode, None)?),
        };
        let asking = WaitingCall::begin(call);
        let mut lent = Lent::new(&mut self.place);
        let mut attempt = PlaceAttempt::new(wanted, &mut lent.pending);
        let granted = call.traced(|| grant(shared, queue, &mut attempt, wait, None)).await;
        drop(lent);
        if self.place.is_some() {
            return granted.map(|_| None);
        }
        match &granted {
            Ok(Some(_)) => asking.end_with_hold(),
            _ => drop(asking),
        }
        let call = self.call.take().expect("it was there a moment ago");
        let answer = self.lock.answered(call, wait, granted)?;
        Ok(answer.map(|(call, granted)| self.lock.guard(call, granted)))
    }

    fn gone(&self) -> Error {
        let message = "our contender does not stand in the queue any more";
        Error::permanent(ErrorKind::Removed, Operation::View, message).at(self.name())
    }
}

/// A place that is lent to an attempt, and comes back when that ends or is dropped, if it is still in the queue.
struct Lent<'a> {
    place: &'a mut Option<JoinedPlace>,
    pending: Option<Box<PendingPlace>>,
}

impl<'a> Lent<'a> {
    fn new(place: &'a mut Option<JoinedPlace>) -> Self {
        let pending = place.take().map(|joined| Box::new(PendingPlace::Joined(joined)));
        Self { place, pending }
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        // A join that is not answered is withdrawn.
        *self.place = self.pending.take().and_then(|pending| pending.into_joined());
    }
}

/// A call that waits for the grant of a place; when it ends, the place is listed as one in which no call waits.
struct WaitingCall<'a>(&'a LockCall);

impl<'a> WaitingCall<'a> {
    fn begin(call: &'a LockCall) -> Self {
        call.note(Presence::Active);
        Self(call)
    }

    /// Ends the call without a word: what it asked for becomes a hold.
    fn end_with_hold(self) {
        std::mem::forget(self);
    }
}

impl Drop for WaitingCall<'_> {
    fn drop(&mut self) {
        self.0.note(Presence::Idle);
    }
}

impl Mutex {
    /// Takes a place in the queue and returns it; [`Waiting::granted`] waits for its turn.
    pub async fn queue_up(&self) -> Result<Waiting<kind::Mutex>> {
        Waiting::take_place(&self.lock, Mode::Mutex).await
    }
}

impl RwLock {
    /// Takes a reader's place in the queue and returns it; [`Waiting::granted`] waits for its turn.
    pub async fn queue_up_to_read(&self) -> Result<Waiting<kind::Read>> {
        Waiting::take_place(&self.lock, Mode::Read).await
    }

    /// Takes a writer's place in the queue and returns it; [`Waiting::granted`] waits for its turn.
    pub async fn queue_up_to_write(&self) -> Result<Waiting<kind::Write>> {
        Waiting::take_place(&self.lock, Mode::Write).await
    }
}

impl Election {
    /// Stands for election and returns the place; [`Waiting::granted`] waits for the lead.
    pub async fn stand(&self) -> Result<Waiting<kind::Lead>> {
        Waiting::take_place(&self.lock, Mode::Candidate).await
    }
}

impl<Kind> fmt::Debug for Waiting<Kind> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Waiting")
            .field("lock", &self.lock)
            .field("mode", &self.mode)
            .field("contender", &self.contender())
            .finish_non_exhaustive()
    }
}
