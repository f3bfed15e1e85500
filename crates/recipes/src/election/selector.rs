//! Curator's leader selector: work that runs while this process leads.

use std::fmt;
use std::sync::Arc;

use lockkeeper_core::Result;

use crate::election::Election;
use crate::election::campaign::{CampaignStatus, Campaigner, Requeue, WorkError};
use crate::hold::Hold;

/// Campaigns, and runs some work whenever it is elected; when the work is done, it resigns.
///
/// In the guide: [a leader with a job](https://docs.rs/lockkeeper/latest/lockkeeper/guide/recipes/index.html).
///
/// The work is dropped at its next await if the lead is lost or interrupted, or the selector is closed. Clones are the
/// same selector; dropping the last one does so too, in the background.
///
/// Work that fails gives the lead up. [`Event::WorkFailed`](crate::Event::WorkFailed), and a record of the log, tell
/// the error. With [`Requeue::Always`] the selector stands again after a second, so that another candidate leads first.
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
///         terms.send(hold.fencing_token())?;
///         Ok(())
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
/// Curator's `LeaderSelector`; the hold's deadline does what `CancelLeadershipException` of its listener does. There an
/// exception of `takeLeadership` is logged, and with `autoRequeue` the selector stands again at once.
#[derive(Clone)]
#[must_use = "its work is dropped and its candidacy ended when its last clone is dropped"]
pub struct LeaderSelector {
    election: Election,
    campaigner: Arc<Campaigner>,
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
        Working: Future<Output = Result<(), WorkError>> + Send + 'static,
    {
        let campaigner = Arc::new(Campaigner::start(election.clone(), requeue, work));
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
    /// session has ended. The work is dropped before this returns. It is begun by the call; dropping the future does
    /// not stop it. A selector that was closed before, by a clone too, answers as it did then.
    ///
    /// # Errors
    ///
    /// Those of [`LeaderLatch::close`](crate::LeaderLatch::close).
    ///
    /// # Panics
    ///
    /// If the work has panicked, and this is the first call.
    pub fn close(&self) -> impl Future<Output = Result<()>> + Send + 'static {
        self.campaigner.clone().close()
    }
}

impl fmt::Debug for LeaderSelector {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let status = self.campaigner.status().borrow().clone();
        formatter.debug_struct("LeaderSelector").field("election", &self.election).field("status", &status).finish()
    }
}
