//! An operator's orders to a lock: revoke it, break it, freeze it, thaw it; and orders that meet one contender, which
//! was seen before.

mod freeze;
pub(crate) mod watching;

#[cfg(test)]
mod tests;

use lockkeeper_core::{
    ContenderId, ContenderInfo, Error, ErrorKind, FencingToken, Mode, Modes, Operation, Part, QueueName, Request,
    Result, Revocation, Wait,
};

use crate::admin::Admin;
use crate::admin::operate::freeze::Freeze;
use crate::contend::{AllGone, grant};
use crate::decide;

/// A kind of lock, for calls that must name the one that a name is used for.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum LockKind {
    /// A [`Mutex`](crate::Mutex).
    Mutex,
    /// A [`RwLock`](crate::RwLock).
    ReadWrite,
    /// A [`Semaphore`](crate::Semaphore).
    Semaphore,
    /// An [`Election`](crate::Election).
    Election,
}

impl LockKind {
    /// Returns the modes of its contenders, by which [`Capabilities`](lockkeeper_core::Capabilities) say whether a
    /// service carries it.
    ///
    /// ```
    /// use lockkeeper::LockKind;
    ///
    /// # let keeper = lockkeeper::Keeper::memory();
    /// assert!(keeper.capabilities().modes.has_all(LockKind::Semaphore.modes()));
    /// ```
    pub const fn modes(self) -> Modes {
        match self {
            Self::Mutex => Modes::MUTEX,
            Self::ReadWrite => Modes::READ_WRITE,
            Self::Semaphore => Modes::SEMAPHORE,
            Self::Election => Modes::ELECTION,
        }
    }

    /// Returns the mode of a contender that keeps out all others.
    const fn mode(self) -> Mode {
        match self {
            Self::Mutex => Mode::Mutex,
            Self::ReadWrite => Mode::Write,
            Self::Semaphore => Mode::Acquire,
            Self::Election => Mode::Candidate,
        }
    }
}

/// Names the queue in which a contender stands.
fn queue_of(lock: &QueueName, mode: Mode) -> QueueName {
    lock.with_part(match mode {
        Mode::Acquire => Part::Waiters,
        Mode::Permit => Part::Permits,
        _ => Part::Line,
    })
}

impl Admin<'_> {
    /// Asks all holders of a lock to give it up, and waits until they have, for as long as `wait` says; `None` if the
    /// time was up first.
    ///
    /// It is a request: a holder receives it by [`Hold::revoked`](crate::Hold::revoked) and decides. Waiters are not
    /// asked, and neither is what freezes a lock. If the future is dropped, the request stays.
    ///
    /// After `Some`, all contenders that held the lock at the first look have given it up or died. Others may hold it
    /// by then.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lockkeeper::Error> {
    /// use std::time::Duration;
    /// use lockkeeper::{Revocation, Wait};
    ///
    /// # let keeper = lockkeeper::Keeper::memory();
    /// let guard = keeper.mutex("nightly")?.lock().await?;
    /// let polite = tokio::spawn(async move {
    ///     let request = guard.hold().revoked().await;
    ///     println!("asked to stop: {}", request.why.as_deref().unwrap_or("no reason given"));
    ///     guard.release().await
    /// });
    /// let request = Revocation::new(Some("deploying".to_owned()), None);
    /// assert!(keeper.admin().revoke("nightly", request, Wait::AtMost(Duration::from_secs(5))).await?.is_some());
    /// # polite.await.unwrap()
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`] if the service carries no requests; transient if it cannot be reached now, of advice
    /// [`Unknown`](lockkeeper_core::Advice::Unknown) if some holders may have been asked. After a connection loss the
    /// request fails, but the wait goes on, under a new session if need be.
    #[doc(alias = "attemptRevoke")]
    #[doc(alias = "Revoker")]
    pub async fn revoke(self, name: &str, revocation: Revocation, wait: Wait) -> Result<Option<()>> {
        let wait = wait.starting(self.keeper.shared.clock.now());
        let lock = QueueName::new(name)?;
        let holders = self.holders(&lock).await?;
        if holders.is_empty() {
            return Ok(Some(()));
        }
        let session = self.keeper.shared.session().await.map_err(|error| error.at(&lock))?;
        let asked: Vec<_> = holders
            .iter()
            .filter(|holder| holder.frozen.is_none())
            .map(|holder| {
                let queue = queue_of(&lock, holder.mode);
                session.request(&queue, &holder.id, Request::Yield(revocation.clone()))
            })
            .collect();
        for request in asked {
            // A holder that is gone already need not be asked.
            request.await.map_err(|error| error.at(&lock))?;
        }
        for part in [Part::Line, Part::Permits] {
            let queue = lock.with_part(part);
            let of_part = holders.iter().filter(|holder| queue_of(&lock, holder.mode) == queue);
            let contenders: Vec<ContenderId> = of_part.map(|holder| holder.id.clone()).collect();
            let is_held = !contenders.is_empty();
            let mut gone = AllGone { queue: queue.clone(), contenders };
            if is_held && grant(&self.keeper.shared, &queue, &mut gone, wait, None).await?.is_none() {
                return Ok(None);
            }
        }
        Ok(Some(()))
    }

    /// Takes a lock away from the holder that has this token, without its consent, and returns what is known of it.
    ///
    /// The holder's place is left when this returns, and the next contender is granted the lock at once. The holder
    /// learns of it as [`LossReason::Broken`](lockkeeper_core::LossReason::Broken), but it may go on for a moment: only
    /// the tokens tell the writes of the two apart. Where several holders have the token, a writer and a reader beside
    /// it, the lock is taken from the first. If the future is dropped, the call may take effect all the same.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lockkeeper::Error> {
    /// use lockkeeper::{ErrorKind, LossReason};
    ///
    /// # let keeper = lockkeeper::Keeper::memory();
    /// let guard = keeper.mutex("nightly")?.lock().await?;
    /// let token = guard.fencing_token();
    /// let broken = keeper.admin().break_lock("nightly", token).await?;
    /// assert_eq!(&broken.id, guard.hold().contender());
    /// assert_eq!(guard.hold().lost().await, LossReason::Broken);
    /// let again = keeper.admin().break_lock("nightly", token).await.unwrap_err();
    /// assert_eq!(again.kind(), ErrorKind::TokenMismatch);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::TokenMismatch`], permanent, if no holder of the lock has this token: then nothing was changed.
    /// [`ErrorKind::Unsupported`] if the service cannot do it; transient if it cannot be reached now, of advice
    /// [`Unknown`](lockkeeper_core::Advice::Unknown) if the lock may have been broken.
    pub async fn break_lock(self, name: &str, token: FencingToken) -> Result<ContenderInfo> {
        let lock = QueueName::new(name)?;
        let holders = self.holders(&lock).await?;
        let Some(holder) = holders.iter().find(|holder| holder.token == Some(token)) else {
            return Err(token_mismatch(&lock, token, &holders));
        };
        if self.remove(&lock, holder, token).await? {
            Ok(holder.clone())
        } else {
            Err(token_mismatch(&lock, token, &[]))
        }
    }

    /// Keeps all contenders out of a lock until [`Admin::thaw`], also when this process and its session are gone: it
    /// queues for the lock like any other contender, and stays. Returns the contender that it left there; `None` if the
    /// time was up before its turn came, and then it has left the queue.
    ///
    /// Waiters find the reason at the contender that holds the lock. For a semaphore it waits until all permits are
    /// given back, and meanwhile no contender gets one. It passes no contender, and none passes it.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lockkeeper::Error> {
    /// use std::time::Duration;
    /// use lockkeeper::{LockKind, Wait};
    ///
    /// # let keeper = lockkeeper::Keeper::memory();
    /// keeper.admin().freeze("nightly", LockKind::Mutex, "moving disks", Wait::AtMost(Duration::from_secs(60))).await?;
    /// assert!(keeper.mutex("nightly")?.try_lock().await?.is_none());
    /// assert_eq!(keeper.contenders("nightly").await?[0].frozen.as_deref(), Some("moving disks"));
    /// assert_eq!(keeper.admin().thaw("nightly").await?.len(), 1);
    /// assert!(keeper.mutex("nightly")?.try_lock().await?.is_some());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Mutex::lock_timeout`](crate::Mutex::lock_timeout), also [`ErrorKind::KindMismatch`] if the lock is in
    /// use as another kind; [`ErrorKind::Unsupported`] if the service does not carry this kind of lock.
    ///
    /// # Cancellation
    ///
    /// Dropping the future leaves the queue, except if its session was lost while it waited: then [`Admin::thaw`]
    /// removes the contender that it left.
    ///
    /// # On connection loss
    ///
    /// Keeps its place, also when the session ends.
    pub async fn freeze(self, name: &str, kind: LockKind, reason: &str, wait: Wait) -> Result<Option<ContenderInfo>> {
        let lock = self.keeper.lock(name, kind.modes())?.queue;
        let mode = kind.mode();
        let queue = queue_of(&lock, mode);
        let mut freeze = Freeze::new(queue.clone(), mode, reason);
        let id = match grant(&self.keeper.shared, &queue, &mut freeze, wait, None).await {
            Ok(Some(id)) => id,
            outcome => {
                let given_up = freeze.give_up(&self.keeper.shared).await;
                // The first error is reported.
                return outcome.and_then(|_| given_up.map(|()| None).map_err(|error| error.at(&lock)));
            }
        };
        freeze.keep();
        let shown = self.keeper.shared.backend.admin().inspect(&lock).await.unwrap_or_default();
        let mut left = shown.into_iter().find(|info| info.id == id).unwrap_or_else(|| ContenderInfo::new(id, mode));
        left.frozen.get_or_insert_with(|| reason.to_owned());
        Ok(Some(left))
    }

    /// Removes what freezes a lock, of any owner, and what waits to freeze it, and returns what was removed; empty if
    /// the lock is not frozen. A contender that is gone by then is left out.
    ///
    /// The removed contenders have left the queue when this returns. Errors, but for the token, and cancellation are
    /// those of [`Admin::break_lock`].
    pub async fn thaw(self, name: &str) -> Result<Vec<ContenderInfo>> {
        let lock = QueueName::new(name)?;
        let mut thawed = Vec::new();
        for frozen in self.keeper.contenders(name).await?.into_iter().filter(|info| info.frozen.is_some()) {
            let Some(token) = frozen.token else { return Err(without_token(&lock, &frozen)) };
            if self.remove(&lock, &frozen, token).await? {
                thawed.push(frozen);
            }
        }
        Ok(thawed)
    }

    async fn holders(self, lock: &QueueName) -> Result<Vec<ContenderInfo>> {
        let shown = self.keeper.shared.admin()?.inspect(lock).await.map_err(|error| error.at(lock))?;
        let holds = decide::holders(&shown);
        Ok(shown.into_iter().zip(holds).filter(|&(_, holds)| holds).map(|(info, _)| info).collect())
    }

    /// Removes a contender; `false` if it was gone, or has another token.
    async fn remove(self, lock: &QueueName, contender: &ContenderInfo, token: FencingToken) -> Result<bool> {
        let session = self.keeper.shared.session().await.map_err(|error| error.at(lock))?;
        let queue = queue_of(lock, contender.mode);
        session.request(&queue, &contender.id, Request::Break { token }).await.map_err(|error| error.at(lock))
    }
}

fn token_mismatch(lock: &QueueName, token: FencingToken, holders: &[ContenderInfo]) -> Error {
    let tokens: Vec<_> = holders.iter().filter_map(|holder| holder.token).map(|token| token.to_string()).collect();
    let message = match tokens.as_slice() {
        [] => format!("no contender holds it with token {token}"),
        tokens => format!("no contender holds it with token {token}, but with {}", tokens.join(", ")),
    };
    Error::permanent(ErrorKind::TokenMismatch, Operation::Request, message).at(lock)
}

impl Admin<'_> {
    /// Asks one holder of a lock to give it up, and returns what is known of it; `None`, and no contender is asked, if
    /// it holds the lock no more, or is what freezes it.
    ///
    /// Unlike [`Admin::revoke`] it asks no other holder, and does not wait.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lockkeeper::Error> {
    /// use lockkeeper::Revocation;
    ///
    /// # let keeper = lockkeeper::Keeper::memory();
    /// let guard = keeper.mutex("nightly")?.lock().await?;
    /// let seen = guard.hold().contender().clone();
    /// guard.release().await?;
    /// let next = keeper.mutex("nightly")?.lock().await?;
    /// assert!(keeper.admin().revoke_holder("nightly", &seen, Revocation::default()).await?.is_none());
    /// # next.release().await
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Admin::revoke`].
    pub async fn revoke_holder(
        self,
        name: &str,
        holder: &ContenderId,
        revocation: Revocation,
    ) -> Result<Option<ContenderInfo>> {
        let lock = QueueName::new(name)?;
        let seen = self.holders(&lock).await?.into_iter().find(|one| one.id == *holder && one.frozen.is_none());
        let Some(seen) = seen else { return Ok(None) };
        let session = self.keeper.shared.session().await.map_err(|error| error.at(&lock))?;
        let asked = session.request(&queue_of(&lock, seen.mode), &seen.id, Request::Yield(revocation));
        let is_asked = asked.await.map_err(|error| error.at(&lock))?;
        Ok(is_asked.then_some(seen))
    }

    /// Takes a lock away from one holder, if it has this token, and returns what is known of it.
    ///
    /// Unlike [`Admin::break_lock`] it leaves others alone that have the same token, as a reader beside a writer has.
    ///
    /// # Errors
    ///
    /// Those of [`Admin::break_lock`]: [`ErrorKind::TokenMismatch`] also if another contender has the token.
    pub async fn break_holder(self, name: &str, holder: &ContenderId, token: FencingToken) -> Result<ContenderInfo> {
        let lock = QueueName::new(name)?;
        let holders = self.holders(&lock).await?;
        match holders.iter().find(|one| one.id == *holder && one.token == Some(token)) {
            Some(seen) if self.remove(&lock, seen, token).await? => Ok(seen.clone()),
            Some(_) => Err(token_mismatch(&lock, token, &[])),
            None => Err(token_mismatch(&lock, token, &holders)),
        }
    }

    /// Removes one contender that freezes a lock or waits to, and returns what is known of it; `None`, and nothing is
    /// changed, if it is gone.
    ///
    /// Unlike [`Admin::thaw`] it leaves alone what others have frozen since.
    ///
    /// # Errors
    ///
    /// Those of [`Admin::thaw`].
    pub async fn thaw_frozen(self, name: &str, frozen: &ContenderId) -> Result<Option<ContenderInfo>> {
        let lock = QueueName::new(name)?;
        let seen =
            self.keeper.contenders(name).await?.into_iter().find(|one| one.id == *frozen && one.frozen.is_some());
        let Some(seen) = seen else { return Ok(None) };
        let Some(token) = seen.token else { return Err(without_token(&lock, &seen)) };
        let is_removed = self.remove(&lock, &seen, token).await?;
        Ok(is_removed.then_some(seen))
    }
}

/// Says that a contender that freezes a lock cannot be removed.
pub(super) fn without_token(lock: &QueueName, frozen: &ContenderInfo) -> Error {
    let message = format!("the service does not show the token of {}", frozen.id);
    Error::permanent(ErrorKind::Unsupported, Operation::Request, message).at(lock)
}
