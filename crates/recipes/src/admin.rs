//! An operator's handle of a service: it looks at all locks, follows them, examines the service and sets it up. Orders
//! to a lock are in `operate`, the changes of one in `watching`.

mod inventory;
pub(crate) mod operate;

use std::time::Duration;

use lockkeeper_core::{Finding, Follower, QueueName, Remnant, Result, Scope, Scrutiny};

use crate::admin::inventory::examine_locks;
use crate::keeper::Keeper;

/// What operators do with a service and all of its locks; made by [`Keeper::admin`].
///
/// # All methods
///
/// - A method that takes a name fails with [`ErrorKind::InvalidName`](lockkeeper_core::ErrorKind::InvalidName) if the
///   name is not valid.
/// - Unless a method says otherwise, it fails if the service cannot be reached now (transient) or refuses (permanent).
/// - Dropping the future of a look changes nothing. Its answer may be older than a change that another client made at
///   the same time.
#[derive(Clone, Copy, Debug)]
pub struct Admin<'a> {
    pub(crate) keeper: &'a Keeper,
}

impl Keeper {
    /// Returns what operators need: looks at all locks, orders to them, and the care of the service.
    pub const fn admin(&self) -> Admin<'_> {
        Admin { keeper: self }
    }
}

impl Admin<'_> {
    /// Names the queues in use whose names begin with `prefix`, in the order of their names.
    pub async fn queues(self, prefix: &str) -> Result<Vec<QueueName>> {
        self.keeper.shared.admin()?.queues(prefix).await
    }

    /// Tells of the changes of all locks in a scope; `None` where the service tells an onlooker nothing, so that a
    /// caller must look again and again.
    ///
    /// # Panics
    ///
    /// If it is called outside a tokio runtime.
    pub fn follow(self, scope: &Scope) -> Option<Follower> {
        self.keeper.shared.backend.admin().follow(scope)
    }

    /// Looks for what users of the service should know: settings that make locks worse, locks that are blocked, or
    /// frozen or held for long, what dead users have left, and what to do about it. Empty if there is nothing. It may
    /// take seconds. What is left of the promises,
    /// [`Capabilities::weakened_by`](lockkeeper_core::Capabilities::weakened_by) says.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lockkeeper::Error> {
    /// # let keeper = lockkeeper::Keeper::memory();
    /// for finding in keeper.admin().examine().await? {
    ///     eprintln!("{finding}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn examine(self) -> Result<Vec<Finding>> {
        let admin = self.keeper.shared.admin()?;
        let mut findings = admin.examine(Scrutiny::Full).await?;
        findings.extend(examine_locks(admin, self.keeper.shared.clock.unix_time()).await?);
        Ok(findings)
    }

    /// Does what an operator must who has restored the service's data from an older state, and returns what was done:
    /// on etcd, tokens are counted anew, above all that were granted before; on a database, no lock is granted until
    /// every session of before has run out. It should be done before the first lock is taken.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`](lockkeeper_core::ErrorKind::Unsupported), permanent, on other services.
    pub async fn after_restore(self) -> Result<Finding> {
        self.keeper.shared.admin()?.after_restore().await
    }

    /// Makes what the service must have before the first lock, or brings it up to this version: on a database, the
    /// schema. What is there stays, and where nothing is needed nothing is done.
    ///
    /// # Errors
    ///
    /// Permanent if this user may not; the error says what to ask for.
    pub async fn set_up(self) -> Result<()> {
        self.keeper.shared.admin()?.set_up().await
    }

    /// Sets the longest session timeout that clients may have, on a database; at first it is 60 s. For so long no lock
    /// is granted after a loss of data, or after a longer one is allowed.
    ///
    /// # Errors
    ///
    /// Permanent while a session with a longer timeout is open, and where there is no such limit
    /// ([`ErrorKind::Unsupported`](lockkeeper_core::ErrorKind::Unsupported)).
    pub async fn limit_session_timeout(self, timeout_max: Duration) -> Result<()> {
        self.keeper.shared.admin()?.limit_session_timeout(timeout_max).await
    }

    /// Returns what [`set_up`](Self::set_up) does as text for the service's own client, with the rights that users of
    /// locks need; `None` where nothing is needed.
    pub fn set_up_text(self) -> Option<String> {
        self.keeper.shared.backend.admin().set_up_text()
    }

    /// Removes what killed processes have left, where the service does not do so by itself and this user may: in a
    /// directory their contenders, and the directories of locks that are not in use. No lock depends on it.
    pub async fn tidy(self) {
        if let Ok(admin) = self.keeper.shared.admin() {
            admin.tidy().await;
        }
    }

    /// Lists what users of the service have left that it does not remove by itself, or not yet. An empty queue counts
    /// once no client has used it for this long. It changes nothing, and no contender that lives is among them.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lockkeeper::Error> {
    /// # let keeper = lockkeeper::Keeper::memory();
    /// use std::time::Duration;
    ///
    /// use lockkeeper::RemnantKind;
    ///
    /// let admin = keeper.admin();
    /// for remnant in admin.remnants(Duration::from_secs(600)).await? {
    ///     if remnant.kind != RemnantKind::Unbound {
    ///         admin.remove_remnant(&remnant).await?;
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn remnants(self, unused_for: Duration) -> Result<Vec<Remnant>> {
        self.keeper.shared.admin()?.remnants(unused_for).await
    }

    /// Removes one of the [remnants](Self::remnants) if it is still as it was seen; `false` if it is not. A newcomer
    /// always wins: where a client uses it in between, nothing is removed.
    pub async fn remove_remnant(self, remnant: &Remnant) -> Result<bool> {
        self.keeper.shared.admin()?.remove(remnant).await
    }
}
