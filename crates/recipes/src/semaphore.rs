//! A counting semaphore.

mod permits;

use std::fmt;
use std::time::Duration;

use lockkeeper_core::{Caller, ENTRIES_MAX, Mode, Modes, Part, QueueName, Result, Wait};

use crate::admin::Admin;
use crate::contend::refused;
use crate::deadlock::{KeyCall, Want};
use crate::keeper::Keeper;
use crate::lock::guard::Permit;
use crate::lock::{Lock, granted};
use crate::semaphore::permits::{PermitBound, SomePermits, agreed};
use crate::shared::call;

/// How many permits a semaphore has.
///
/// In the guide: [a semaphore as a limiter](https://docs.rs/lockkeeper/latest/lockkeeper/guide/recipes/index.html).
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Permits {
    /// This number. All users of the semaphore must give the same one: a user that gives another number while permits
    /// are held gets [`ErrorKind::BoundMismatch`](lockkeeper_core::ErrorKind::BoundMismatch).
    Fixed(u32),
    /// As many as the [`SharedCounter`](crate::SharedCounter) of this name says at any time: raising it lets waiters
    /// in, lowering it takes no permit away. None while there is no counter.
    Counter(String),
}

impl From<u32> for Permits {
    fn from(permits: u32) -> Self {
        Self::Fixed(permits)
    }
}

/// A semaphore: a number of permits, and one queue of the contenders that wait for some.
///
/// First come, first served: a call for many permits is not passed by calls for few. All permits of one call are
/// granted at once, never some while the rest is waited for, so two calls for most of them cannot block each other.
/// With one permit it is a mutex whose permit any task may give back, and Curator's `InterProcessSemaphoreMutex`.
///
/// Made by [`Keeper::semaphore`]; cheap to clone. Errors, cancellation, order, timeouts and
/// connection loss are those of [`Mutex`](crate::Mutex), for all methods. Further errors, both permanent:
///
/// - [`ErrorKind::BoundMismatch`](lockkeeper_core::ErrorKind::BoundMismatch) if the holders of permits give another
///   number of them;
/// - [`ErrorKind::InvalidRequest`](lockkeeper_core::ErrorKind::InvalidRequest) for no permit, for more than there are,
///   or for more than [`ENTRIES_MAX`] in one call.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lockkeeper::Error> {
/// # let keeper = lockkeeper::Keeper::memory();
/// let connections = keeper.semaphore("connections", 3)?;
/// let one = connections.acquire().await?;
/// let two = connections.acquire_many(2).await?;
/// assert!(connections.try_acquire().await?.is_none());
/// one.release().await?;
/// drop(two);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[doc(alias = "InterProcessSemaphoreV2")]
#[doc(alias = "InterProcessSemaphoreMutex")]
pub struct Semaphore {
    pub(crate) lock: Lock,
    bound: PermitBound,
}

impl Keeper {
    /// Returns the semaphore of this name, with the given number of permits.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidName`](lockkeeper_core::ErrorKind::InvalidName) also for a counter whose name is not valid;
    /// [`ErrorKind::InvalidRequest`](lockkeeper_core::ErrorKind::InvalidRequest) for a semaphore of no permits.
    #[doc(alias = "InterProcessSemaphoreV2")]
    pub fn semaphore(&self, name: &str, permits: impl Into<Permits>) -> Result<Semaphore> {
        Semaphore::new(self.lock(name, Modes::SEMAPHORE)?, permits.into())
    }
}

impl Admin<'_> {
    /// Returns how many permits the users of the semaphore of this name have agreed on; `None` if it is not known, as
    /// where a counter says it, or where other clients use it. It is of use to onlookers while permits are held: the
    /// next users may agree on another number.
    ///
    /// It opens the session if there is none.
    ///
    /// # Errors
    ///
    /// Transient if the service cannot be reached now, permanent if it refuses a session.
    pub async fn agreed_permits(self, name: &str) -> Result<Option<u32>> {
        let lock = QueueName::new(name)?;
        let session = self.keeper.shared.session().await.map_err(|error| error.at(&lock))?;
        let value = session.values().get(&lock.with_part(Part::Permits)).await.map_err(|error| error.at(&lock))?;
        Ok(agreed(value.as_ref()))
    }
}

impl Semaphore {
    pub(crate) fn new(lock: Lock, permits: Permits) -> Result<Self> {
        let bound = match permits {
            Permits::Fixed(0) => return Err(refused(&lock.queue, "a semaphore needs at least one permit")),
            Permits::Fixed(permits) => PermitBound::Agreed(permits),
            Permits::Counter(name) => PermitBound::Counted(QueueName::new(&name)?),
        };
        Ok(Self { lock, bound })
    }

    /// Returns the semaphore's name.
    pub fn name(&self) -> &QueueName {
        &self.lock.queue
    }

    /// Lets each hold of this semaphore last for `limit` after its grant at most.
    ///
    /// Then [`Hold::lost`](crate::Hold::lost) says [`LossReason::MaxHold`](lockkeeper_core::LossReason::MaxHold), its
    /// permit is given back automatically, which needs a running runtime, and [`Guard::release`](crate::Guard::release)
    /// reports it. It applies to the holds of this handle and of its clones, and to no others.
    #[must_use]
    pub fn max_hold(self, limit: Duration) -> Self {
        Self { lock: self.lock.max_hold(limit), ..self }
    }

    /// Keeps the place of each hold of this semaphore for at least `limit` after its grant. No other contender is
    /// granted its permit earlier: a job that takes a second does not run again on the next machine whose clock is
    /// late.
    ///
    /// The hold itself is over when its guard is released or dropped, also in a panic. The place is left later,
    /// provided that this process and the runtime of the grant still live and the keeper is not closed. A shorter
    /// `max_hold` wins.
    #[must_use]
    pub fn min_hold(self, limit: Duration) -> Self {
        Self { lock: self.lock.min_hold(limit), ..self }
    }

    /// Waits for one permit, however long it takes.
    pub async fn acquire(&self) -> Result<Permit> {
        self.acquire_within(Wait::Forever).await.map(granted)
    }

    /// Takes one permit if one is free and no other contender waits; `None` otherwise.
    pub async fn try_acquire(&self) -> Result<Option<Permit>> {
        self.acquire_within(Wait::No).await
    }

    /// Waits for one permit, at most for `timeout`; `None` if the time was up first.
    pub async fn acquire_timeout(&self, timeout: Duration) -> Result<Option<Permit>> {
        self.acquire_within(Wait::AtMost(timeout)).await
    }

    /// Waits for one permit, for as long as `wait` says; `None` if the time was up first.
    pub async fn acquire_within(&self, wait: Wait) -> Result<Option<Permit>> {
        self.acquire_many_within(1, wait).await.map(|permits| permits?.pop())
    }

    /// Waits for one permit as [`Semaphore::acquire`] does, in a future that owns this handle, as
    /// [`Mutex::lock_owned`](crate::Mutex::lock_owned) does.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lockkeeper::Error> {
    /// # let keeper = lockkeeper::Keeper::memory();
    /// let connections = keeper.semaphore("connections", 3)?;
    /// let mut waiting = tokio::task::JoinSet::new();
    /// for _ in 0..3 {
    ///     waiting.spawn(connections.clone().acquire_owned());
    /// }
    /// while let Some(permit) = waiting.join_next().await {
    ///     permit.expect("the task did not panic")?.release().await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn acquire_owned(self) -> Result<Permit> {
        self.acquire().await
    }

    /// Waits for the given number of permits, which are granted all at once. Each may be given back separately.
    pub async fn acquire_many(&self, permits: u32) -> Result<Vec<Permit>> {
        self.acquire_many_within(permits, Wait::Forever).await.map(granted)
    }

    /// Waits for the given number of permits as [`Semaphore::acquire_many`] does, in a future that owns this handle, as
    /// [`Mutex::lock_owned`](crate::Mutex::lock_owned) does.
    pub async fn acquire_many_owned(self, permits: u32) -> Result<Vec<Permit>> {
        self.acquire_many(permits).await
    }

    /// Waits for the given number of permits, for as long as `wait` says; `None` if the time was up first, and then
    /// none is held.
    pub async fn acquire_many_within(&self, wanted: u32, wait: Wait) -> Result<Option<Vec<Permit>>> {
        let caller = call::caller(&self.lock.shared, wait);
        self.acquire_as(caller, None, wanted, wait).await
    }

    /// Waits for permits as this caller, which may be an owner key.
    pub(crate) async fn acquire_as(
        &self,
        caller: Caller,
        asking: Option<&KeyCall>,
        wanted: u32,
        wait: Wait,
    ) -> Result<Option<Vec<Permit>>> {
        self.check(wanted)?;
        let mut attempt = SomePermits { lock: &self.lock.queue, wanted, bound: &self.bound, caller, asking };
        let answer = self.lock.answer(Mode::Permit, wait, None, &mut attempt).await?;
        Ok(answer.map(|(call, granted)| self.lock.guards(call, Mode::Permit, granted)))
    }

    /// Says what a call for so many permits wants.
    pub(crate) const fn want(&self, wanted: u32) -> Want {
        let of = match self.bound {
            PermitBound::Agreed(of) => Some(of),
            PermitBound::Counted(_) => None,
        };
        Want::Permits { wanted, of }
    }

    /// Refuses at once a request that could never be granted.
    fn check(&self, wanted: u32) -> Result<()> {
        let queue = &self.lock.queue;
        if wanted == 0 {
            return Err(refused(queue, "no permit was asked for"));
        }
        if wanted as usize > ENTRIES_MAX {
            return Err(refused(
                queue,
                format!("{wanted} permits were asked for; the limit for one call is {ENTRIES_MAX}"),
            ));
        }
        match self.bound {
            PermitBound::Agreed(permits) if wanted > permits => {
                Err(refused(queue, format!("{wanted} permits were asked for, and there are only {permits}")))
            }
            PermitBound::Agreed(_) | PermitBound::Counted(_) => Ok(()),
        }
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Semaphore").field("name", &self.lock).field("bound", &self.bound).finish()
    }
}
