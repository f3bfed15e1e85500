//! Curator's leader latch: a process that wants to lead until it closes the latch.

use std::fmt;
use std::sync::Arc;

use lockkeeper_core::{FencingToken, Result};
use tokio::sync::watch;

use crate::election::campaign::{CampaignStatus, Campaigner, leadership, over};
use crate::election::{Election, Requeue};
use crate::hold::Hold;

/// Campaigns from the start until it is closed, and leads whenever it is elected. After a loss it stands again.
///
/// In the guide: [a leader with a job](https://docs.rs/lockkeeper/latest/lockkeeper/guide/recipes/index.html).
///
/// A candidate that is removed stands again too. A permanent error, or one that outlasts the keeper's retry policy,
/// ends it: [`LeaderLatch::until_leader`] returns the error. Clones are the same latch; dropping the last one resigns
/// and ends the candidacy in the background.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lockkeeper::Error> {
/// use lockkeeper::election::{CloseMode, LeaderLatch};
///
/// # let keeper = lockkeeper::Keeper::memory();
/// let latch = LeaderLatch::start(&keeper.election("scheduler")?);
/// let hold = latch.until_leader().await?;
/// assert!(latch.has_leadership() && hold.is_held());
/// latch.close(CloseMode::Silent).await?;
/// assert!(!hold.is_held());
/// # Ok(())
/// # }
/// ```
///
/// # Source
///
/// Curator's `LeaderLatch`; the hold with its deadline replaces a policy for connection errors.
#[derive(Clone)]
#[must_use = "it resigns and ends its candidacy when its last clone is dropped"]
pub struct LeaderLatch {
    election: Election,
    campaigner: Arc<Campaigner>,
    /// What listeners are told of the end of the lead: what the first close says.
    closed: watch::Sender<Option<CloseMode>>,
}

/// What listeners are told of a lead that ends because the latch is closed.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "the end is told, or not")]
pub enum CloseMode {
    /// Nothing.
    #[default]
    #[doc(alias = "SILENT")]
    Silent,
    /// [`LatchEvent::NotLeader`].
    #[doc(alias = "NOTIFY_LEADER")]
    NotifyLeader,
}

/// A change of a latch.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_enums, reason = "a latch leads, or does not")]
pub enum LatchEvent {
    /// It leads, while the hold may be believed.
    #[doc(alias = "isLeader")]
    Leader(Hold),
    /// It does not lead any more.
    #[doc(alias = "notLeader")]
    NotLeader,
}

impl LeaderLatch {
    /// Starts to campaign, in a task of the present runtime.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn start(election: &Election) -> Self {
        let leads = |_hold| std::future::pending();
        let campaigner = Arc::new(Campaigner::start(election.clone(), Requeue::Always, leads));
        Self { election: election.clone(), campaigner, closed: watch::Sender::new(None) }
    }

    /// Tells whether it leads and may believe it, looked up at the call.
    #[doc(alias = "hasLeadership")]
    pub fn has_leadership(&self) -> bool {
        self.leadership().is_some()
    }

    /// Returns the hold by which it leads, with its token and deadline, if it may be believed now.
    pub fn leadership(&self) -> Option<Hold> {
        self.campaigner.leadership()
    }

    /// Waits until it leads, also over a connection loss. [`LeaderLatch::has_leadership`] is true before this returns.
    ///
    /// # Errors
    ///
    /// The error that ended the campaign, if it is over.
    #[doc(alias = "await")]
    pub async fn until_leader(&self) -> Result<Hold> {
        let mut reports = self.campaigner.status().clone();
        loop {
            let status = reports.borrow_and_update().clone();
            match status {
                CampaignStatus::Leading(hold) if hold.is_held() => return Ok(hold),
                CampaignStatus::Ended(error) => return Err(over(&self.election, error)),
                CampaignStatus::Leading(_) | CampaignStatus::Idle | CampaignStatus::Queued => {}
            }
            if reports.changed().await.is_err() {
                // The task is gone without a word: it panicked, or its runtime did end.
                return Err(over(&self.election, None));
            }
        }
    }

    /// Watches the latch from now on; a present lead is reported first.
    #[doc(alias = "addListener")]
    pub fn changes(&self) -> LatchChanges {
        let (status, closed) = (self.campaigner.status().clone(), self.closed.subscribe());
        LatchChanges { status, closed, told: None }
    }

    /// Resigns, or ends the candidacy, and waits until the service has answered or the session has ended. The lead is
    /// over before this returns. It is begun by the call; dropping the future does not stop it.
    ///
    /// A latch that was closed before, by a clone too, answers as it did then, and the first mode counts.
    ///
    /// # Errors
    ///
    /// The error that had ended the campaign before, if there was one;
    /// [`ErrorKind::Lost`](lockkeeper_core::ErrorKind::Lost) if it led and the lead was lost before it was given up;
    /// transient if the service could not be told yet: it is told as soon as it can be.
    pub fn close(&self, mode: CloseMode) -> impl Future<Output = Result<()>> + Send + 'static {
        self.closed.send_if_modified(|closed| {
            let is_first = closed.is_none();
            closed.get_or_insert(mode);
            is_first
        });
        self.campaigner.clone().close()
    }
}

/// The changes of a latch; made by [`LeaderLatch::changes`].
pub struct LatchChanges {
    status: watch::Receiver<CampaignStatus>,
    closed: watch::Receiver<Option<CloseMode>>,
    /// The lead that was reported last, until its end is reported.
    told: Option<FencingToken>,
}

impl LatchChanges {
    /// Waits for the next change; `None` when the latch is closed or dropped, or its campaign has failed.
    ///
    /// Leads and their ends are reported in turn: an end when the lead may no longer be believed. A lead that was over
    /// before this was called may be left out. Dropping the future loses nothing: the next call returns the change.
    #[doc(alias = "LeaderLatchListener")]
    pub async fn next(&mut self) -> Option<LatchEvent> {
        loop {
            let status = self.status.borrow_and_update().clone();
            // Of a latch that was dropped the last that was heard is a lead, and that is over.
            match (self.told, leadership(status.clone())) {
                (None, Some(hold)) => {
                    self.told = Some(hold.fencing_token());
                    return Some(LatchEvent::Leader(hold));
                }
                (Some(told), lead) if lead.as_ref().map(Hold::fencing_token) != Some(told) => {
                    self.told = None;
                    let is_silent = *self.closed.borrow() == Some(CloseMode::Silent);
                    return (!is_silent || !matches!(status, CampaignStatus::Ended(None)))
                        .then_some(LatchEvent::NotLeader);
                }
                _ if matches!(status, CampaignStatus::Ended(_)) => return None,
                _ => {}
            }
            if self.status.changed().await.is_err() {
                // The task ended without a report: the latch was dropped, and its lead with it.
                return self.told.take().map(|_| LatchEvent::NotLeader);
            }
        }
    }
}

impl fmt::Debug for LeaderLatch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let status = self.campaigner.status().borrow().clone();
        formatter.debug_struct("LeaderLatch").field("election", &self.election).field("status", &status).finish()
    }
}

impl fmt::Debug for LatchChanges {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("LatchChanges").field("told", &self.told).finish_non_exhaustive()
    }
}
