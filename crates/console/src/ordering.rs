//! An operator's orders to one lock, whether a command, a page or a screen gives them. `seen` has those that reach the
//! contender that was seen, and no other.

#[cfg(any(feature = "monitor", feature = "top"))]
mod seen;

use std::time::Duration;

use lockkeeper::backend::decide;
use lockkeeper::clock::{Clock, SystemClock};
use lockkeeper::{ContenderInfo, FencingToken, Keeper, LockKind, QueueName};

use crate::output::{self, ContenderView, Deed, OrderReport};

#[cfg(any(feature = "monitor", feature = "top"))]
pub(crate) use seen::{OperatorOrder, SeenContender, Undone};

/// One lock, as an operator's orders see it.
#[derive(Clone, Copy, Debug)]
pub struct Operator<'a> {
    keeper: &'a Keeper,
    lock: &'a QueueName,
}

impl<'a> Operator<'a> {
    /// The orders to `lock` at the service of `keeper`.
    pub const fn new(keeper: &'a Keeper, lock: &'a QueueName) -> Self {
        Self { keeper, lock }
    }

    /// Returns the present holders of the lock.
    pub async fn holders(&self) -> lockkeeper::Result<Vec<ContenderInfo>> {
        let queue = self.keeper.contenders(self.lock.as_str()).await?;
        let holds = decide::holders(&queue);
        Ok(queue.into_iter().zip(holds).filter(|&(_, holds)| holds).map(|(holder, _)| holder).collect())
    }

    /// Chooses the kind of lock to freeze: the one that is named, else the one that it is used as.
    /// Fails if the lock cannot be frozen: it is frozen already, or a barrier.
    pub fn kind(&self, named: Option<LockKind>, queue: &[ContenderInfo]) -> Result<LockKind, String> {
        if let Some(frozen) = queue.iter().find(|contender| contender.frozen.is_some()) {
            let who = self.who(frozen);
            let reason = who.frozen().unwrap_or_default();
            return Err(self.says(&format!("is frozen already, by {}: {reason}", who.name())));
        }
        Ok(match (named, output::kind(queue)) {
            (Some(named), _) => named,
            (None, Some("rwlock")) => LockKind::ReadWrite,
            (None, Some("semaphore")) => LockKind::Semaphore,
            (None, Some("election")) => LockKind::Election,
            (None, Some("barrier")) => return Err(self.says("is a barrier, which cannot be frozen")),
            (None, _) => LockKind::Mutex,
        })
    }

    /// Says that no holder has the given token, and who the present holders are.
    pub fn stale(&self, token: FencingToken, holders: &[ContenderInfo]) -> String {
        let present = self.present(holders);
        self.says(&format!("nothing was changed: no holder has token {token}; {present}"))
    }

    pub(crate) fn present(&self, holders: &[ContenderInfo]) -> String {
        let present: Vec<_> = holders.iter().map(|holder| self.who(holder).in_full()).collect();
        match present.as_slice() {
            [] => "it has no holder".to_owned(),
            present => format!("it is held by {}", present.join(", ")),
        }
    }

    /// Says that something has not come to pass in time.
    pub fn not_in_time(&self, what: &str, wait: Duration) -> String {
        self.says(&format!("{what} within {wait:?}"))
    }

    /// Says something about the lock, with its name and its service.
    pub fn says(&self, what: &str) -> String {
        format!("{} ({}) {what}", self.lock, self.keeper.service())
    }

    /// Describes a contender as of now.
    pub fn who(&self, info: &ContenderInfo) -> ContenderView {
        ContenderView::new(info, SystemClock.unix_time())
    }

    /// Returns what an order did, for the output.
    pub fn done(&self, deed: Deed) -> OrderReport {
        OrderReport::new(self.lock.as_str(), self.keeper.service(), deed)
    }
}
