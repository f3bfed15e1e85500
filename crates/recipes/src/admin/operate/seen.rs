//! Orders that meet one contender, as an operator has seen it on a page or a list that may be old by now: what stands
//! in its place meanwhile is left alone.

use lockkeeper_core::{
    ContenderId, ContenderInfo, Error, ErrorKind, FencingToken, Operation, QueueName, Request, Result, Revocation,
};

use crate::admin::Admin;
use crate::admin::operate::{queue_of, token_mismatch};

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
