//! Locking again what an owner has: an owner known in this process alone, under which holds of one lock are counted.
//!
//! What an owner asks for is counted on a hold that it has, taken beside one, granted, or refused.
//!
//! | file | what lives there |
//! | --- | --- |
//! | `places` | what one owner has, lock by lock, and the guard that is one of several on one hold |
//! | `running`, `run_under_lock` | the owner that nested `run` closures have in common, and those closures |
//! | `multi_lock` | several locks at once |

pub(crate) mod multi_lock;
mod places;
mod run_under_lock;
mod running;

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use lockkeeper_core::{Caller, Error, ErrorKind, Flow, Liveness, Mode, Operation, QueueName, Result, Ticket, Wait};

use crate::contend::{GrantAttempt, Granted, OnePlace, WaitProgress};
use crate::deadlock::{KeyCall, Want};
use crate::event::Event;
use crate::lock::guard::{Guard, MutexGuard, Permit, ReadGuard, WriteGuard, kind};
use crate::lock::{Lock, Plan, granted};
use crate::mutex::Mutex;
use crate::owner_key::places::{CountedHold, OwnerPlaces, SharedHold};
use crate::rw_lock::RwLock;
use crate::rw_lock::{Beside, lost_outside};
use crate::semaphore::Semaphore;
use crate::shared::Shared;
use crate::shared::call;

pub use places::Reentrant;

/// An owner within this process, which may lock again what it has.
///
/// In the guide: [locking again](https://docs.rs/lockkeeper/latest/lockkeeper/guide/choosing/index.html).
///
/// Each [`Reentrant`] that an owner gets of one lock shares the same hold, which ends with the last of them; they may
/// be dropped in any order. Only the first costs the service anything. A lock is identified by the keeper that made it
/// (its clones are the same) and its name: through another keeper the same owner waits for itself.
///
/// The work of [`Mutex::run`], [`RwLock::run_read`] and [`RwLock::run_write`] has a separate owner that is no
/// `OwnerKey`. Neither shares the other's hold: within the work, `owner.lock` of the same lock waits for the work
/// itself, and a `run` while an owner has the lock waits for that owner; both without end, if nothing else ends the
/// wait. Nest one of the two ways in itself, not in the other.
///
/// Clones are the same owner, and several tasks may use one owner: tasks that ask at once for a lock that it does not
/// have yet share one place in the queue. The service does not know owners, and they exclude one another like all
/// contenders.
///
/// Of a read/write lock, an owner that has it alone may read too. That share outlives the write lock, without a gap, if
/// it is released later. An owner that only reads and asks to write would wait for itself, and is refused at once. So
/// is one that has a name as a mutex and asks for it as a read/write lock, or the reverse.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lockkeeper::Error> {
/// # let keeper = lockkeeper::Keeper::memory();
/// use lockkeeper::OwnerKey;
///
/// let owner = OwnerKey::new();
/// let books = keeper.mutex("books")?;
/// let outer = owner.lock(&books).await?;
/// let inner = owner.lock(&books).await?; // does not wait for the outer one
/// assert_eq!(inner.fencing_token(), outer.fencing_token());
/// outer.release().await?;
/// assert!(books.try_lock().await?.is_none()); // the inner one holds it still
/// inner.release().await?;
/// assert!(books.try_lock().await?.is_some());
/// # Ok(())
/// # }
/// ```
///
/// # All methods
///
/// Errors, order, timeouts and connection loss are those of [`Mutex`], [`RwLock`] and [`Semaphore`], with these
/// additions. What an owner has already in the same mode it gets at once, also while the connection is lost.
///
/// - [`ErrorKind::Lost`], permanent, if this owner has the lock and lost it: a new wait would stand behind its own
///   dying contender. Once all guards of the lost hold are gone, it can be locked anew.
/// - [`ErrorKind::WouldDeadlock`], permanent and at once, if this owner has the lock in a way that keeps out what it
///   asks for: as the other kind of lock, or as a reader that asks to write.
/// - [`ErrorKind::WouldDeadlock`], permanent, if it would have to wait for other owners of the same keeper which wait
///   for this one, directly or through others: a circle. The last one to wait gets the error, which says the
///   circle, and leaves the queue; the others go on waiting. A wait that would end by its timeout is refused too, and a
///   timeout of another owner does not count: what is waited for would come after a caller's time was up, if at all.
///   An owner is taken to give nothing back while it waits. Holders that are no owner keys, and those of other keepers
///   and processes, are in no circle, and no task that uses no key is ever refused.
/// - Dropping the future leaves the queue; a task that waits as the same owner then joins at the tail.
#[derive(Clone)]
#[doc(alias = "InterProcessMutex")]
pub struct OwnerKey {
    places: Arc<OwnerPlaces>,
}

impl OwnerKey {
    /// Makes an owner that has nothing yet and equals no other.
    pub fn new() -> Self {
        Self::of_key(call::new_owner_key())
    }

    /// Makes an owner for what the calling thread locks. In the queues it is the same flow of control as the thread
    /// itself.
    pub fn of_this_thread() -> Self {
        Self::of_key(call::this_thread())
    }

    /// Makes an owner for one call of the present task or thread.
    pub(crate) fn of_this_flow() -> Self {
        Self { places: Arc::new(OwnerPlaces::new(call::this_flow())) }
    }

    fn of_key(flow: Option<Flow>) -> Self {
        Self { places: Arc::new(OwnerPlaces::of_key(flow)) }
    }

    /// Waits for the mutex, however long it takes; at once if this owner has it.
    pub async fn lock(&self, mutex: &Mutex) -> Result<Reentrant<MutexGuard>> {
        self.lock_within(mutex, Wait::Forever).await.map(granted)
    }

    /// Waits for the mutex, for as long as `wait` says; at once if this owner has it; `None` if the time was up first.
    pub async fn lock_within(&self, mutex: &Mutex, wait: Wait) -> Result<Option<Reentrant<MutexGuard>>> {
        self.have(&mutex.lock, wait).await
    }

    /// Waits for a share of the lock, however long it takes; at once if this owner reads, also while a writer waits,
    /// and without waiting for others if it writes.
    ///
    /// A share taken while this owner writes stands in the writer's place and has its token, so that no writer comes in
    /// between when the write lock is given up first.
    pub async fn read(&self, rw_lock: &RwLock) -> Result<Reentrant<ReadGuard>> {
        self.read_within(rw_lock, Wait::Forever).await.map(granted)
    }

    /// Waits for a share of the lock as [`OwnerKey::read`] does, for as long as `wait` says; `None` if the time was up
    /// first.
    pub async fn read_within(&self, rw_lock: &RwLock, wait: Wait) -> Result<Option<Reentrant<ReadGuard>>> {
        self.have(&rw_lock.lock, wait).await
    }

    /// Waits to have the lock alone, however long it takes; at once if this owner has it alone.
    pub async fn write(&self, rw_lock: &RwLock) -> Result<Reentrant<WriteGuard>> {
        self.write_within(rw_lock, Wait::Forever).await.map(granted)
    }

    /// Waits to have the lock alone as [`OwnerKey::write`] does, for as long as `wait` says; `None` if the time was up
    /// first.
    pub async fn write_within(&self, rw_lock: &RwLock, wait: Wait) -> Result<Option<Reentrant<WriteGuard>>> {
        self.have(&rw_lock.lock, wait).await
    }

    /// Waits for one permit, however long it takes. Each one is another, also for an owner that has some.
    ///
    /// The owner is known as its holder, wherever the permit goes, until it is given back: so that an owner which waits
    /// for a permit is refused where none can come.
    pub async fn acquire(&self, semaphore: &Semaphore) -> Result<Permit> {
        self.acquire_within(semaphore, Wait::Forever).await.map(granted)
    }

    /// Waits for one permit as [`OwnerKey::acquire`] does, for as long as `wait` says; `None` if the time was up first.
    pub async fn acquire_within(&self, semaphore: &Semaphore, wait: Wait) -> Result<Option<Permit>> {
        self.acquire_many_within(semaphore, 1, wait).await.map(|permits| permits?.pop())
    }

    /// Waits for the given number of permits, all at once, as [`OwnerKey::acquire`] does for one.
    pub async fn acquire_many_within(
        &self,
        semaphore: &Semaphore,
        wanted: u32,
        wait: Wait,
    ) -> Result<Option<Vec<Permit>>> {
        let lock = &semaphore.lock;
        let asking = self.asking(lock, semaphore.want(wanted));
        let caller = self.caller(lock, wait);
        let permits = semaphore.acquire_as(caller, asking.as_ref(), wanted, wait).await?;
        let of_key = |permit: Permit| match &asking {
            Some(asking) => permit.of_key(asking),
            None => permit,
        };
        Ok(permits.map(|permits| permits.into_iter().map(of_key).collect()))
    }

    /// Shares the hold that this owner has, or waits for its grant, one task at a time.
    pub(crate) async fn have<Kind: CountedHold>(
        &self,
        lock: &Lock,
        wait: Wait,
    ) -> Result<Option<Reentrant<Guard<Kind>>>> {
        let called_at = lock.shared.clock.now();
        lock.shared.home.check_at(called_at, Operation::Join).map_err(|error| error.at(&lock.queue))?;
        if let Some(held) = self.again(lock)? {
            return Ok(Some(held));
        }
        let wait = wait.starting(called_at);
        let wanted = OnePlace::new(&lock.queue, Kind::MODE, self.caller(lock, wait));
        let visit = self.places.visit(lock);
        let asked = lock.meter.ask(Kind::MODE, called_at);
        let Some(turn) = visit.turn(&lock.shared, wait).await else {
            asked.none(wait);
            let waited = lock.shared.clock.now().saturating_duration_since(called_at);
            lock.shared.observers.emit(&Event::NotAcquired { lock: lock.queue.clone(), waited });
            return Ok(None);
        };
        asked.goes_on();
        // Another task of this owner may have been granted it meanwhile.
        if let Some(held) = self.again(lock)? {
            return Ok(Some(held));
        }
        let has_other_kind = self.other_kind::<Kind>(lock)?;
        let asking = self.asking(lock, Kind::WANT);
        let since = Some(called_at);
        let guard = match self.writing::<Kind>(lock) {
            Some(write) => {
                let answer = lock.answer(Kind::MODE, wait, since, &mut Beside { write: write.guard(), wanted }).await?;
                answer.map(|(call, granted)| lock.guard(call, granted))
            }
            None if has_other_kind => {
                let answer = lock.answer(Kind::MODE, wait, since, &mut AtOnce(wanted)).await?;
                answer.map(|(call, granted)| lock.guard(call, granted))
            }
            None => {
                let (mode, caller, asking) = (Kind::MODE, wanted.caller, asking.as_ref());
                lock.grant(&Plan { mode, wait, caller, since, asking }).await?
            }
        };
        let of_key = |guard: Guard<Kind>| match &asking {
            Some(asking) => guard.of_key(asking),
            None => guard,
        };
        let held = guard.map(|guard| Reentrant::new(visit.keep(of_key(guard))));
        drop(turn);
        Ok(held)
    }

    /// Shares the hold that this owner has; refuses what it could never be granted because of that hold.
    fn again<Kind: CountedHold>(&self, lock: &Lock) -> Result<Option<Reentrant<Guard<Kind>>>> {
        if let Some(held) = self.places.find::<Kind>(lock) {
            check_outer(&lock.queue, &held)?;
            return Ok(Some(Reentrant::new(held)));
        }
        if Kind::MODE == Mode::Write
            && let Some(read) = self.places.find::<kind::Read>(lock)
        {
            check_outer(&lock.queue, &read)?;
            return Err(would_deadlock(&lock.queue));
        }
        Ok(None)
    }

    /// Tells whether this owner has the lock as one of the other kind: a mutex as a read/write lock, or the other way
    /// round. On most names it would wait for itself then.
    fn other_kind<Kind: CountedHold>(&self, lock: &Lock) -> Result<bool> {
        match Kind::MODE {
            Mode::Mutex => Ok(self.holds::<kind::Read>(lock)? || self.holds::<kind::Write>(lock)?),
            _ => self.holds::<kind::Mutex>(lock),
        }
    }

    /// Tells whether this owner has the lock in this way.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Lost`] if it has lost it, and not given it back yet.
    fn holds<Kind: CountedHold>(&self, lock: &Lock) -> Result<bool> {
        match self.places.find::<Kind>(lock) {
            Some(held) => check_outer(&lock.queue, &held).map(|()| true),
            None => Ok(false),
        }
    }

    /// Tells whether this owner has any hold of this lock.
    pub(crate) fn has(&self, lock: &Lock) -> bool {
        self.places.find::<kind::Mutex>(lock).is_some()
            || self.places.find::<kind::Read>(lock).is_some()
            || self.places.find::<kind::Write>(lock).is_some()
    }

    /// Returns the flow of control that it is in the queues.
    pub(crate) fn flow(&self) -> Option<Flow> {
        self.places.flow()
    }

    /// Begins a call among the keys that may wait for each other; the owner of a `run` is none of them.
    fn asking(&self, lock: &Lock, want: Want) -> Option<KeyCall> {
        let key = self.places.key()?;
        Some(KeyCall::new(lock.shared.keys.clone(), key, lock.queue.clone(), want))
    }

    /// Describes the caller of a call for a lock that this owner does not have.
    fn caller(&self, lock: &Lock, wait: Wait) -> Caller {
        let mut caller = call::caller(&lock.shared, wait);
        caller.flow = self.flow();
        // A `run` around this call is nearer, and what this owner has is of the same flow of control anyway.
        if !call::is_nested() {
            caller.within = self.places.newest().map(Ticket::head).or(caller.within);
        }
        caller
    }

    /// Returns the write lock beside which this owner may have what it asks for.
    fn writing<Kind: CountedHold>(&self, lock: &Lock) -> Option<Arc<SharedHold<WriteGuard>>> {
        if Kind::MODE == Mode::Read { self.places.find(lock) } else { None }
    }
}

/// Wants a place of a lock that the same owner has as one of the other kind: where the two are one lock it would wait
/// for itself, and where they are strangers that is what it is told, so both at once.
#[derive(Debug)]
struct AtOnce<'a>(OnePlace<'a>);

impl GrantAttempt for AtOnce<'_> {
    type Granted = Granted;

    async fn wait(&mut self, shared: &Shared, _progress: &mut WaitProgress) -> Result<Granted> {
        let granted = self.0.try_once(shared).await?;
        granted.map(|(granted, _)| granted).ok_or_else(|| would_deadlock(self.0.queue))
    }

    async fn try_once(&mut self, shared: &Shared) -> Result<Option<Granted>> {
        self.wait(shared, &mut WaitProgress::NoPlace(None)).await.map(Some)
    }
}

/// Returns the error for a lock that could be granted only after the same owner gives up what it has.
fn would_deadlock(queue: &QueueName) -> Error {
    let message = "the same owner already has this lock in a way that excludes this call: it would wait for itself";
    Error::permanent(ErrorKind::WouldDeadlock, Operation::Join, message).at(queue)
}

/// Refuses to share a hold that was lost.
fn check_outer<Kind>(queue: &QueueName, outer: &SharedHold<Guard<Kind>>) -> Result<()> {
    match outer.guard().hold().liveness() {
        Liveness::Held { .. } | Liveness::Jeopardy { .. } => Ok(()),
        Liveness::Lost(reason) => Err(lost_outside(queue, reason)),
    }
}

impl Default for OwnerKey {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for OwnerKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("OwnerKey").field(&self.places).finish()
    }
}
