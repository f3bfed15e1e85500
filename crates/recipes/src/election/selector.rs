//! Curator's leader selector: work that runs while this process leads.

use std::fmt;

use lockkeeper_core::Result;

use crate::election::Election;
use crate::election::campaign::{CampaignStatus, Campaigner, Requeue};
use crate::hold::Hold;

/// Campaigns, and runs some work whenever it is elected; when the work is done, it resigns.
///
/// The work is dropped at its next await if the lead is lost or interrupted, or the selector is closed. Dropping the
/// selector does so too, in the background.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lockkeeper::Error> {
/// use lockkeeper::election::{LeaderSelector, Requeue};
/// use tokio::sync::mpsc;
///
/// # let keeper = lockkeeper::Keeper::memory();
/// let (terms, mut led) = mpsc::unbounded_channel();
/// let selector = LeaderSelector::start(&keeper.election("scheduler")?, Requeue::Always, move |hold| {
///     let terms = terms.clone();
///     async move {
///         let _ = terms.send(hold.fencing_token());
///     }
/// });
/// let first = led.recv().await.expect("it leads");
/// assert!(led.recv().await.expect("it leads again") > first);
/// selector.close().await?;
/// # Ok(())
/// # }
/// ```
///
/// # Source
///
/// Curator's `LeaderSelector`; the hold's deadline does what `CancelLeadershipException` of its listener does.
#[must_use = "its work is dropped and its candidacy ended when it is dropped"]
pub struct LeaderSelector {
    election: Election,
    campaigner: Campaigner,
}

impl LeaderSelector {
    /// Starts to campaign, in a task of the present runtime that also runs the work.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn start<Work, Working>(election: &Election, requeue: Requeue, work: Work) -> Self
    where
        Work: FnMut(Hold) -> Working + Send + 'static,
        Working: Future<Output = ()> + Send + 'static,
    {
        let campaigner = Campaigner::start(election.clone(), requeue, work);
        Self { election: election.clone(), campaigner }
    }

    /// Tells whether it leads and may believe it, looked up at the call.
    #[doc(alias = "hasLeadership")]
    pub fn has_leadership(&self) -> bool {
        self.campaigner.leadership().is_some()
    }

    /// Stands for election again after it has led; `false` if it stands already, leads, or is over.
    pub fn requeue(&self) -> bool {
        self.campaigner.requeue()
    }

    /// Drops the work at its next await and resigns; `false` if it does not lead.
    #[doc(alias = "interruptLeadership")]
    pub fn interrupt(&self) -> bool {
        self.campaigner.interrupt()
    }

    /// Waits until the campaign is over, also over a connection loss, and returns the error that ended it; `None` if
    /// the work has panicked. The lead is over before this returns. Never ends if the campaign goes on.
    pub async fn over(&self) -> Option<lockkeeper_core::Error> {
        let mut status = self.campaigner.status().clone();
        match status.wait_for(|status| matches!(status, CampaignStatus::Ended(_))).await.as_deref() {
            Ok(CampaignStatus::Ended(error)) => error.clone(),
            _ => None,
        }
    }

    /// Drops the work at its next await, resigns or ends the candidacy, and waits until the service has answered or the
    /// session has ended. The work is dropped before this returns. Dropping the future does not stop it.
    ///
    /// # Errors
    ///
    /// Those of [`LeaderLatch::close`](crate::LeaderLatch::close).
    ///
    /// # Panics
    ///
    /// If the work has panicked.
    pub async fn close(self) -> Result<()> {
        self.campaigner.close().await
    }
}

impl fmt::Debug for LeaderSelector {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let status = self.campaigner.status().borrow().clone();
        formatter.debug_struct("LeaderSelector").field("election", &self.election).field("status", &status).finish()
    }
}
