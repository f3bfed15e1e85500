//! The open way to one service, for threads, and an operator's handle of it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::blocking::engine::{Engine, User};
use crate::blocking::{Barrier, DoubleBarrier, Election, Mutex, Once, RwLock, Semaphore, SharedCounter, SharedValue};
use crate::{
    Capabilities, ContenderInfo, Error, Finding, KeeperBuilder, OwnContender, Permits, QueueName, Result, ServiceUrl,
};

/// Opens a way to the service that `url` names, for threads.
///
/// Nothing is sent yet: if the service cannot be reached, the first lock fails.
///
/// # Errors
///
/// Those of [`lockkeeper::connect`](crate::connect) and [`Keeper::start`].
pub fn connect(url: impl TryInto<ServiceUrl, Error: Into<Error>>) -> Result<Keeper> {
    Keeper::start(crate::builder(url)?)
}

/// An open way to one coordination service: makes the locks; cheap to clone.
///
/// The session ends when the keeper, its clones, and all its locks and guards are dropped, or on [`Keeper::close`]. A
/// thread that drops the last of them, and has no runtime, waits for the session's end for up to 5 seconds, so that a
/// program that ends then leaves no lock behind.
///
/// Errors are those of the methods of [`lockkeeper::Keeper`](crate::Keeper) with the same names, and [those of all
/// blocking calls](crate::blocking#errors).
///
/// ```
/// # fn main() -> Result<(), lockkeeper::Error> {
/// let keeper = lockkeeper::blocking::connect("memory:")?;
/// let answer = keeper.mutex("sum")?.run(|_hold| 6 * 7)?;
/// assert_eq!(answer, 42);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[doc(alias = "CuratorFramework")]
pub struct Keeper {
    pub(super) user: Arc<User>,
}

impl Keeper {
    /// Makes a keeper with its own settings.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::LimitReached`](crate::ErrorKind::LimitReached), transient, if the system gives no thread.
    pub fn start(builder: KeeperBuilder) -> Result<Self> {
        let engine = Engine::start()?;
        Ok(Self { user: Arc::new(User::new(builder.build(), engine)) })
    }

    /// Returns the mutex of this name. This costs nothing; the service learns of it at the first lock.
    pub fn mutex(&self, name: &str) -> Result<Mutex> {
        Ok(Mutex::new(self.user.keeper.mutex(name)?, self.user.clone()))
    }

    /// Returns the read/write lock of this name. This costs nothing; the service learns of it at the first lock.
    #[doc(alias = "InterProcessReadWriteLock")]
    pub fn rw_lock(&self, name: &str) -> Result<RwLock> {
        Ok(RwLock::new(self.user.keeper.rw_lock(name)?, self.user.clone()))
    }

    /// Returns the semaphore of this name, with this number of permits. This costs nothing; the service learns of it
    /// when the first permit is acquired.
    #[doc(alias = "InterProcessSemaphoreV2")]
    pub fn semaphore(&self, name: &str, permits: impl Into<Permits>) -> Result<Semaphore> {
        Ok(Semaphore::new(self.user.keeper.semaphore(name, permits)?, self.user.clone()))
    }

    /// Returns the election of this name. This costs nothing; the service learns of it at the first campaign.
    pub fn election(&self, name: &str) -> Result<Election> {
        Ok(Election::new(self.user.keeper.election(name)?, self.user.clone()))
    }

    /// Returns the barrier of this name. This costs nothing; the service learns of it when the barrier is set.
    #[doc(alias = "DistributedBarrier")]
    pub fn barrier(&self, name: &str) -> Result<Barrier> {
        Ok(Barrier::new(self.user.keeper.barrier(name)?, self.user.clone()))
    }

    /// Returns the double barrier of this name, for this number of members. This costs nothing; the service learns of
    /// it when the first member comes.
    #[doc(alias = "DistributedDoubleBarrier")]
    pub fn double_barrier(&self, name: &str, members: u32) -> Result<DoubleBarrier> {
        Ok(DoubleBarrier::new(self.user.keeper.double_barrier(name, members)?, self.user.clone()))
    }

    /// Returns the counter of this name. This costs nothing; the service learns of it at the first write.
    #[doc(alias = "SharedCount")]
    pub fn shared_counter(&self, name: &str) -> Result<SharedCounter> {
        Ok(SharedCounter::new(self.user.keeper.shared_counter(name)?, self.user.clone()))
    }

    /// Returns the value of this name. This costs nothing; the service learns of it at the first write.
    pub fn shared_value(&self, name: &str) -> Result<SharedValue> {
        Ok(SharedValue::new(self.user.keeper.shared_value(name)?, self.user.clone()))
    }

    /// Returns the job of this name, which is done once for each slot. This costs nothing; the service learns of it at
    /// the first claim.
    pub fn once(&self, name: &str) -> Result<Once> {
        Ok(Once::new(self.user.keeper.once(name)?, self.user.clone()))
    }

    /// Shows the holders and waiters, first contender first; empty if there are none.
    #[doc(alias = "getParticipantNodes")]
    pub fn contenders(&self, name: &str) -> Result<Vec<ContenderInfo>> {
        let (keeper, name) = (self.user.keeper.clone(), name.to_owned());
        self.user.call(async move { keeper.contenders(&name).await })
    }

    /// Names the service as a URL without secrets.
    pub fn service(&self) -> String {
        self.user.keeper.service()
    }

    /// States what is promised on this service.
    pub fn capabilities(&self) -> &Capabilities {
        self.user.keeper.capabilities()
    }

    /// Lists what this keeper and its clones hold and wait for, in the order in which they asked or were granted; what
    /// was lost is not held.
    pub fn holds(&self) -> Vec<OwnContender> {
        self.user.keeper.holds()
    }

    /// Grants nothing more, and waits until all that is held is given back, at most for `deadline`; returns what is
    /// still held. For a service that is told to stop.
    ///
    /// New calls through this keeper and its clones, and calls that wait, end with
    /// [`ErrorKind::Closed`](crate::ErrorKind::Closed). Then [`Keeper::close`] tells the service.
    pub fn drain(&self, deadline: Duration) -> Result<Vec<OwnContender>> {
        let draining = self.user.keeper.drain(deadline);
        self.user.call(async move { Ok(draining.await) })
    }

    /// Ends the session: holders lose their locks, waiters get [`ErrorKind::Closed`](crate::ErrorKind::Closed), and
    /// nothing can be locked through this keeper or its clones any more.
    pub fn close(&self) -> Result<()> {
        self.user.call(self.user.keeper.close())
    }

    /// Returns the keeper underneath, for async code: it has the same session and the same owners.
    pub fn as_async(&self) -> &crate::Keeper {
        &self.user.keeper
    }
}

impl fmt::Debug for Keeper {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.user.keeper.fmt(formatter)
    }
}

/// What operators do with a service and all of its locks; made by [`Keeper::admin`].
///
/// Errors are those of the methods of [`lockkeeper::Admin`](crate::Admin) with the same names, and [those of all
/// blocking calls](crate::blocking#errors). Orders to a lock are asynchronous alone, by
/// [`Keeper::as_async`].
#[derive(Clone)]
pub struct Admin {
    user: Arc<User>,
}

impl Keeper {
    /// Returns what operators need: looks at all locks, and the care of the service.
    pub fn admin(&self) -> Admin {
        Admin { user: self.user.clone() }
    }
}

impl Admin {
    /// Names the queues in use whose names begin with `prefix`, in the order of their names.
    pub fn queues(&self, prefix: &str) -> Result<Vec<QueueName>> {
        let (keeper, prefix) = (self.user.keeper.clone(), prefix.to_owned());
        self.user.call(async move { keeper.admin().queues(&prefix).await })
    }

    /// Looks for what users of the service should know, as [`lockkeeper::Admin::examine`](crate::Admin::examine)
    /// does.
    pub fn examine(&self) -> Result<Vec<Finding>> {
        let keeper = self.user.keeper.clone();
        self.user.call(async move { keeper.admin().examine().await })
    }

    /// Does what an operator must who has restored the service's data, as
    /// [`lockkeeper::Admin::after_restore`](crate::Admin::after_restore) does.
    pub fn after_restore(&self) -> Result<Finding> {
        let keeper = self.user.keeper.clone();
        self.user.call(async move { keeper.admin().after_restore().await })
    }

    /// Makes what the service must have before the first lock, as
    /// [`lockkeeper::Admin::set_up`](crate::Admin::set_up) does.
    pub fn set_up(&self) -> Result<()> {
        let keeper = self.user.keeper.clone();
        self.user.call(async move { keeper.admin().set_up().await })
    }

    /// Sets the longest session timeout, as
    /// [`lockkeeper::Admin::limit_session_timeout`](crate::Admin::limit_session_timeout) does.
    pub fn limit_session_timeout(&self, timeout_max: Duration) -> Result<()> {
        let keeper = self.user.keeper.clone();
        self.user.call(async move { keeper.admin().limit_session_timeout(timeout_max).await })
    }

    /// Returns what [`set_up`](Self::set_up) does as text for the service's own client; `None` where nothing is needed.
    pub fn set_up_text(&self) -> Option<String> {
        self.user.keeper.admin().set_up_text()
    }

    /// Removes what killed processes have left, as [`lockkeeper::Admin::tidy`](crate::Admin::tidy) does.
    pub fn tidy(&self) -> Result<()> {
        let keeper = self.user.keeper.clone();
        self.user.call(async move {
            keeper.admin().tidy().await;
            Ok(())
        })
    }
}

impl fmt::Debug for Admin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.user.keeper.admin().fmt(formatter)
    }
}
