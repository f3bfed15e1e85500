//! An operator's handle of a service, for threads.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::blocking::engine::User;
use crate::blocking::keeper::Keeper;
use crate::{Finding, QueueName, Result};

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
