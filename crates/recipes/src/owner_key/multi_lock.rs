//! Several locks at once: all of them, or none. They are taken in one order, and `guard` has the proof of holding them
//! all.

mod guard;

#[cfg(test)]
mod tests;

use std::fmt;
use std::time::Duration;

use lockkeeper_core::{Caller, Error, ErrorKind, Liveness, LossReason, Mode, Operation, QueueName, Result, Wait};

use crate::contend::{OnePlace, STEADY};
use crate::event::Event;
use crate::hold::Hold;
use crate::lock::{Lock, granted};
use crate::mutex::Mutex;
use crate::owner_key::OwnerKey;
use crate::owner_key::multi_lock::guard::TakenMember;
use crate::rw_lock::RwLock;

pub use guard::MultiGuard;

/// Several locks, of one service or of many, that are taken all together or not at all.
///
/// In the guide: [which lock](https://docs.rs/lockkeeper/latest/lockkeeper/guide/choosing/index.html).
///
/// They are always taken in one order, by service and then by name, so that two tasks that want the same locks never
/// each wait for the other. This holds among all clients that name a service by the same URL. Each lock is waited for
/// in its own queue, first come, first served, while those before it are held.
///
/// Errors, cancellation, timeouts and connection loss are those of [`Mutex`], for all methods. When a
/// member fails, those taken before it are given back, and none of the later ones is asked for. Dropping a future gives
/// back what was taken and leaves the queue that it waited in. All members are held at the moment of the grant.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lockkeeper::Error> {
/// # let keeper = lockkeeper::Keeper::memory();
/// use lockkeeper::{Member, MultiLock};
///
/// let accounts = [keeper.mutex("account-7")?, keeper.mutex("account-3")?];
/// let transfer = MultiLock::new(accounts)?;
/// let guard = transfer.lock().await?;
/// assert!(guard.is_held());
/// guard.release().await?;
///
/// let (rates, ledger) = (keeper.rw_lock("rates")?, keeper.mutex("ledger")?);
/// let closing = MultiLock::new([Member::read(rates), ledger.into()])?;
/// assert!(closing.try_lock().await?.is_some());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[doc(alias = "InterProcessMultiLock")]
pub struct MultiLock {
    /// In the common order; at least one.
    members: Vec<Member>,
}

impl MultiLock {
    /// Combines these locks. This costs nothing.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidRequest`], permanent, for no lock at all, and for the same lock twice: one of the same name
    /// on the same service, also if another keeper made it.
    pub fn new<M: Into<Member>>(members: impl IntoIterator<Item = M>) -> Result<Self> {
        let refuse = |why| Error::permanent(ErrorKind::InvalidRequest, Operation::Configure, why);
        let mut members: Vec<Member> = members.into_iter().map(Into::into).collect();
        members.sort_by(|one, other| one.rank().cmp(&other.rank()));
        if members.is_empty() {
            return Err(refuse("a multi-lock needs at least one lock".to_owned()));
        }
        if let Some(twice) = members.windows(2).find(|pair| pair[0].rank() == pair[1].rank()) {
            let (service, name) = twice[0].rank();
            let why = format!("the lock `{name}` of {service} is in the multi-lock twice, and would wait for itself");
            return Err(refuse(why).at(name));
        }
        Ok(Self { members })
    }

    /// Waits until all locks are granted, however long it takes.
    ///
    /// If a hold is lost while it waits for others, it gives up the rest and begins anew, at the tails of the queues.
    #[doc(alias = "acquire")]
    pub async fn lock(&self) -> Result<MultiGuard> {
        OwnerKey::of_this_flow().lock_all(self).await
    }

    /// Takes all locks if all are free; `None` if another contender holds one of them or waits for it, and then none is
    /// held.
    ///
    /// It looks at all of them before it takes the first: if one is taken, this costs no write.
    pub async fn try_lock(&self) -> Result<Option<MultiGuard>> {
        self.lock_within(Wait::No).await
    }

    /// Waits until all locks are granted, at most for `timeout` in all; `None` if the time was up first, and then none
    /// is held.
    #[doc(alias = "acquire")]
    pub async fn lock_timeout(&self, timeout: Duration) -> Result<Option<MultiGuard>> {
        self.lock_within(Wait::AtMost(timeout)).await
    }

    /// Waits until all locks are granted, for as long as `wait` says in all; `None` if the time was up first, and then
    /// none is held. [`Wait::Until`] is read on each keeper's own clock.
    pub async fn lock_within(&self, wait: Wait) -> Result<Option<MultiGuard>> {
        OwnerKey::of_this_flow().lock_all_within(self, wait).await
    }

    /// Takes all members, one after the other; again if a hold was lost meanwhile.
    async fn grant(&self, owner: &OwnerKey, wait: Wait) -> Result<Option<MultiGuard>> {
        // Keepers may have different clocks; the deadline is computed on each at the same moment.
        let times = || -> Vec<_> { self.members.iter().map(|member| member.wanted().0.shared.clock.now()).collect() };
        let mut started = times();
        let waits: Vec<Wait> = started.iter().map(|&now| wait.starting(now)).collect();
        let mut failed = 0_u32;
        loop {
            let round_started = times();
            let (number, reason) = match self.round(owner, &waits).await {
                LockRound::Done(outcome) => return outcome,
                LockRound::LostOnTheWay { number, reason } => (number, reason),
            };
            let Lock { shared, queue, .. } = self.members[number].wanted().0;
            let error = Error::transient(ErrorKind::Lost(reason), Operation::Wait, reason.to_string()).at(queue);
            if waits[number] == Wait::No {
                return Err(error);
            }
            let now = shared.clock.now();
            if now.saturating_duration_since(round_started[number]) >= STEADY {
                (failed, started) = (0, times());
            }
            failed = failed.saturating_add(1);
            let Some(delay) = shared.delay(failed, started[number]) else {
                return Err(error);
            };
            shared.observers.emit(&Event::Rejoining { lock: queue.clone(), reason });
            let next = now.saturating_add(delay);
            let next = waits[number].deadline(now).map_or(next, |deadline| deadline.min(next));
            shared.clock.sleep_until(next).await;
        }
    }

    /// Takes one member after the other; gives back those that were taken unless all could be.
    async fn round(&self, owner: &OwnerKey, waits: &[Wait]) -> LockRound {
        let mut taken = MultiGuard::of_none();
        for (member, &wait) in self.members.iter().zip(waits) {
            let guard = tokio::select! {
                biased;
                (number, reason) = taken.first_lost() => return LockRound::LostOnTheWay { number, reason },
                guard = member.grant(owner, wait) => guard,
            };
            match guard {
                Ok(Some(guard)) => taken.add(guard),
                Ok(None) => return LockRound::Done(Ok(None)),
                Err(error) => return LockRound::Done(Err(error)),
            }
        }
        // The grant of the last one may have come in the same moment as the loss of another.
        let lost = taken.holds().map(Hold::liveness).enumerate().find_map(|(number, liveness)| match liveness {
            Liveness::Lost(reason) => Some((number, reason)),
            Liveness::Held { .. } | Liveness::Jeopardy { .. } => None,
        });
        match lost {
            Some((number, reason)) => LockRound::LostOnTheWay { number, reason },
            None => LockRound::Done(Ok(Some(taken))),
        }
    }
}

impl OwnerKey {
    /// Waits until this owner has all locks, as [`MultiLock::lock`] does; those that it has already count.
    ///
    /// An owner that has a lock and asks for more leaves the common order that keeps callers from waiting for each
    /// other.
    ///
    /// # Errors
    ///
    /// Also those of [`OwnerKey::lock`], [`OwnerKey::read`] and [`OwnerKey::write`] for each lock.
    pub async fn lock_all(&self, locks: &MultiLock) -> Result<MultiGuard> {
        self.lock_all_within(locks, Wait::Forever).await.map(granted)
    }

    /// Waits until this owner has all locks, as [`MultiLock::lock_within`] does; those that it has already count.
    /// Errors are also those of [`OwnerKey::lock_all`].
    pub async fn lock_all_within(&self, locks: &MultiLock, wait: Wait) -> Result<Option<MultiGuard>> {
        if wait.is_none() {
            // The look at the first one comes just before it is taken.
            for member in &locks.members[1..] {
                if !self.has(member.wanted().0) && !member.looks_free().await? {
                    return Ok(None);
                }
            }
        }
        locks.grant(self, wait).await
    }
}

/// How one round through all members ended.
enum LockRound {
    Done(Result<Option<MultiGuard>>),
    /// The hold of this member was lost before all were granted.
    LostOnTheWay {
        number: usize,
        reason: LossReason,
    },
}

impl fmt::Debug for MultiLock {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("MultiLock").field(&self.members).finish()
    }
}

/// One of the locks of a [`MultiLock`], with its mode.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Member {
    /// A mutex.
    Mutex(Mutex),
    /// A share of a read/write lock.
    Read(RwLock),
    /// A read/write lock, alone.
    Write(RwLock),
}

impl Member {
    /// Asks for a share of this lock.
    pub const fn read(rw_lock: RwLock) -> Self {
        Self::Read(rw_lock)
    }

    /// Asks for this lock alone.
    pub const fn write(rw_lock: RwLock) -> Self {
        Self::Write(rw_lock)
    }

    const fn wanted(&self) -> (&Lock, Mode) {
        match self {
            Self::Mutex(mutex) => (&mutex.lock, Mode::Mutex),
            Self::Read(rw_lock) => (&rw_lock.lock, Mode::Read),
            Self::Write(rw_lock) => (&rw_lock.lock, Mode::Write),
        }
    }

    /// Returns its place in the common order.
    fn rank(&self) -> (String, &QueueName) {
        let (lock, _) = self.wanted();
        (lock.shared.backend.service(), &lock.queue)
    }

    async fn grant(&self, owner: &OwnerKey, wait: Wait) -> Result<Option<TakenMember>> {
        let (lock, _) = self.wanted();
        Ok(match self {
            Self::Mutex(_) => owner.have(lock, wait).await?.map(TakenMember::Mutex),
            Self::Read(_) => owner.have(lock, wait).await?.map(TakenMember::Read),
            Self::Write(_) => owner.have(lock, wait).await?.map(TakenMember::Write),
        })
    }

    /// Tells whether it looks free, without a write.
    async fn looks_free(&self) -> Result<bool> {
        let (lock, mode) = self.wanted();
        let place = OnePlace::new(&lock.queue, mode, Caller::default());
        place.look(&lock.shared).await.map(|session| session.is_some())
    }
}

impl From<Mutex> for Member {
    fn from(mutex: Mutex) -> Self {
        Self::Mutex(mutex)
    }
}
