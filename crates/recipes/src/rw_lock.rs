//! The lock that readers share and a writer has alone.

use std::fmt;
use std::time::Duration;

use lockkeeper_core::{Error, ErrorKind, Liveness, LossReason, Mode, Modes, Operation, QueueName, Result, Wait};

use crate::contend::{GrantAttempt, Granted, OnePlace, WaitProgress, join_beside, lost_error};
use crate::handoff::Handoff;
use crate::keeper::Keeper;
use crate::lock::guard::{Guard, ReadGuard, WriteGuard};
use crate::lock::{Lock, granted};
use crate::shared::call::LockCall;
use crate::shared::{KeeperStage, Shared, call};

/// A lock with one queue for readers and writers: first come, first served between them, so neither starves.
///
/// In the guide: [which lock](https://docs.rs/lockkeeper/latest/lockkeeper/guide/choosing/index.html).
///
/// A reader waits for the nearest writer ahead of it, a writer for the contender just ahead. A reader that arrives
/// behind a waiting writer waits, though others read. So a task that reads and asks to read again can wait for itself,
/// unless it asks as the same [`OwnerKey`](crate::OwnerKey), or by [`RwLock::run_read`] within [`RwLock::run_read`].
///
/// A [`Mutex`](crate::Mutex) of the same name is its exclusive side too, except on a ZooKeeper path that is shared with
/// other clients.
///
/// Made by [`Keeper::rw_lock`]; cheap to clone. Errors, cancellation, timeouts and connection
/// loss are those of [`Mutex`](crate::Mutex), for all methods. A reader passes no writer that came before it, a writer
/// passes no contender.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lockkeeper::Error> {
/// # let keeper = lockkeeper::Keeper::memory();
/// let catalogue = keeper.rw_lock("catalogue")?;
/// let (first, second) = (catalogue.read().await?, catalogue.read().await?);
/// assert!(catalogue.try_write().await?.is_none());
/// drop((first, second));
///
/// let write = catalogue.write().await?;
/// let read = write.downgrade().await?; // no writer comes in between
/// read.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[doc(alias = "InterProcessReadWriteLock")]
pub struct RwLock {
    pub(crate) lock: Lock,
}

impl Keeper {
    /// Returns the read/write lock of this name.
    #[doc(alias = "InterProcessReadWriteLock")]
    pub fn rw_lock(&self, name: &str) -> Result<RwLock> {
        Ok(RwLock { lock: self.lock(name, Modes::READ_WRITE)? })
    }
}

impl RwLock {
    /// Returns the lock's name.
    pub fn name(&self) -> &QueueName {
        &self.lock.queue
    }

    /// Lets each hold of this lock last for `limit` after its grant at most.
    ///
    /// Then [`Hold::lost`](crate::Hold::lost) says [`LossReason::MaxHold`], the
    /// lock is given back automatically, which needs a running runtime, and [`Guard::release`]
    /// reports it. It applies to the holds of this handle and of its clones, and to no others.
    #[must_use]
    pub fn max_hold(self, limit: Duration) -> Self {
        Self { lock: self.lock.max_hold(limit) }
    }

    /// Keeps the place of each hold of this lock for at least `limit` after its grant. No contender that it excludes is
    /// granted the lock earlier: a job that takes a second does not run again on the next machine whose clock is late.
    ///
    /// The hold itself is over when its guard is released or dropped, also in a panic. The place is left later,
    /// provided that this process and the runtime of the grant still live and the keeper is not closed. A shorter
    /// `max_hold` wins.
    #[must_use]
    pub fn min_hold(self, limit: Duration) -> Self {
        Self { lock: self.lock.min_hold(limit) }
    }

    /// Has the writing side of this lock go from task to task in this way; readers are contenders of the service each.
    ///
    /// It applies to this handle and to its clones. A lock with a [`min_hold`](RwLock::min_hold) is
    /// [`Handoff::Strict`].
    #[must_use]
    pub fn handoff(self, handoff: Handoff) -> Self {
        Self { lock: self.lock.handoff(handoff) }
    }

    /// Waits for a share of the lock, however long it takes.
    #[doc(alias = "readLock")]
    pub async fn read(&self) -> Result<ReadGuard> {
        self.read_within(Wait::Forever).await.map(granted)
    }

    /// Takes a share of the lock if no writer holds it or waits for it; `None` otherwise.
    pub async fn try_read(&self) -> Result<Option<ReadGuard>> {
        self.read_within(Wait::No).await
    }

    /// Waits for a share of the lock, at most for `timeout`; `None` if the time was up first.
    pub async fn read_timeout(&self, timeout: Duration) -> Result<Option<ReadGuard>> {
        self.read_within(Wait::AtMost(timeout)).await
    }

    /// Waits for a share of the lock, for as long as `wait` says; `None` if the time was up first.
    pub async fn read_within(&self, wait: Wait) -> Result<Option<ReadGuard>> {
        self.lock.grant(&self.lock.plan(Mode::Read, wait)).await
    }

    /// Waits for a share of the lock as [`RwLock::read`] does, in a future that owns this handle, as
    /// [`Mutex::lock_owned`](crate::Mutex::lock_owned) does.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lockkeeper::Error> {
    /// # let keeper = lockkeeper::Keeper::memory();
    /// let catalogue = keeper.rw_lock("catalogue")?;
    /// let reading = [catalogue.clone(), catalogue].map(|catalogue| tokio::spawn(catalogue.read_owned()));
    /// for task in reading {
    ///     let guard = task.await.expect("the task did not panic")?;
    /// #   drop(guard);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn read_owned(self) -> Result<ReadGuard> {
        self.read().await
    }

    /// Waits to have the lock alone, however long it takes.
    #[doc(alias = "writeLock")]
    pub async fn write(&self) -> Result<WriteGuard> {
        self.write_within(Wait::Forever).await.map(granted)
    }

    /// Takes the lock alone if it is free; `None` if another contender holds it or waits for it.
    pub async fn try_write(&self) -> Result<Option<WriteGuard>> {
        self.write_within(Wait::No).await
    }

    /// Waits to have the lock alone, at most for `timeout`; `None` if the time was up first.
    pub async fn write_timeout(&self, timeout: Duration) -> Result<Option<WriteGuard>> {
        self.write_within(Wait::AtMost(timeout)).await
    }

    /// Waits to have the lock alone, for as long as `wait` says; `None` if the time was up first.
    pub async fn write_within(&self, wait: Wait) -> Result<Option<WriteGuard>> {
        self.lock.grant(&self.lock.plan(Mode::Write, wait)).await
    }

    /// Waits to have the lock alone as [`RwLock::write`] does, in a future that owns this handle, as
    /// [`Mutex::lock_owned`](crate::Mutex::lock_owned) does.
    pub async fn write_owned(self) -> Result<WriteGuard> {
        self.write().await
    }
}

impl WriteGuard {
    /// Turns the exclusive hold into a share, without a gap in which a writer could come. Waiting writers go on
    /// waiting; readers that wait behind no writer come in.
    ///
    /// The share has the writer's token. It is held before the writer's place is left. If the future is dropped or
    /// fails, the lock is given back.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Lost`] if the lock was lost; transient if the service could not
    /// be reached.
    ///
    /// # Source
    ///
    /// Curator's `InterProcessReadWriteLock` downgrades by a read lock taken within the write lock; until CURATOR-621 a
    /// writer that was already queued could come in between.
    pub async fn downgrade(self) -> Result<ReadGuard> {
        let (shared, queue) = (self.shared().clone(), self.hold().name().clone());
        let call = LockCall::begin(&shared, &queue, &shared.meters.of(&queue), Mode::Read, None)?;
        let place = self.place().expect("a guard that can be called was not released");
        let wanted = OnePlace::new(&queue, Mode::Read, call::caller(&shared, Wait::No));
        let granted = join_beside(&shared, &wanted, place.anchor(), self.hold().place()).await;
        let granted = match (granted, self.hold().liveness()) {
            (Ok(granted), _) => Ok(granted),
            // Any other failure has this cause.
            (Err(_), Liveness::Lost(reason)) => Err(lost_error(&queue, reason)),
            (Err(error), _) => Err(error),
        };
        let granted = match granted {
            Ok(granted) => granted,
            Err(error) => {
                call.failed(&error);
                return Err(error);
            }
        };
        let read = Guard::new(&shared, &queue, granted, self.limits(), call);
        // The release has started, and no writer can pass our share.
        drop(self.release());
        Ok(read)
    }
}

impl fmt::Debug for RwLock {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("RwLock").field(&self.lock).finish()
    }
}

/// Asks for a place right behind a writer's, of a mode that the same owner may have too.
#[derive(Debug)]
pub(crate) struct Beside<'a> {
    pub(crate) write: &'a WriteGuard,
    pub(crate) wanted: OnePlace<'a>,
}

impl GrantAttempt for Beside<'_> {
    type Granted = Granted;

    /// Allowed until the keeper is closed.
    fn refused_from(&self) -> KeeperStage {
        KeeperStage::Closed
    }

    /// Does not wait: the writer keeps out all contenders that could be in the way.
    async fn wait(&mut self, shared: &Shared, _progress: &mut WaitProgress) -> Result<Granted> {
        let hold = self.write.hold();
        if let Liveness::Lost(reason) = hold.liveness() {
            return Err(lost_outside(hold.name(), reason));
        }
        let place = self.write.place().expect("a guard that can be borrowed was not released");
        let granted = join_beside(shared, &self.wanted, place.anchor(), hold.place()).await;
        match (granted, hold.liveness()) {
            // Any other failure has this cause.
            (Err(_), Liveness::Lost(reason)) => Err(lost_outside(hold.name(), reason)),
            (granted, _) => granted,
        }
    }

    async fn try_once(&mut self, shared: &Shared) -> Result<Option<Granted>> {
        self.wait(shared, &mut WaitProgress::NoPlace(None)).await.map(Some)
    }
}

/// Returns the error for a hold inside another one that was lost.
pub(crate) fn lost_outside(queue: &QueueName, reason: LossReason) -> Error {
    let message = format!("the same owner already had this lock, and lost it: {reason}");
    Error::permanent(ErrorKind::Lost(reason), Operation::Join, message).at(queue)
}
