//! Elections for threads.

use std::fmt;
use std::sync::Arc;

use crate::blocking::engine::{User, granted};
use crate::{ContenderInfo, FencingToken, Hold, QueueName, Result, Wait};

/// An election: candidates stand in one queue, and the first of them leads.
///
/// Made by [`Keeper::election`](crate::blocking::Keeper::election); cheap to clone. Errors: see [the
/// module](crate::blocking#errors).
///
/// ```
/// # fn main() -> Result<(), lockkeeper::Error> {
/// # let keeper = lockkeeper::blocking::connect("memory:")?;
/// let election = keeper.election("scheduler")?;
/// let lead = election.campaign()?;
/// assert_eq!(election.leader()?.map(|leader| leader.id).as_ref(), Some(lead.hold().contender()));
/// lead.resign()
/// # }
/// ```
#[derive(Clone)]
#[doc(alias = "LeaderElection")]
pub struct Election {
    election: crate::election::Election,
    user: Arc<User>,
}

impl Election {
    pub(super) const fn new(election: crate::election::Election, user: Arc<User>) -> Self {
        Self { election, user }
    }

    /// Returns the election's name.
    pub fn name(&self) -> &QueueName {
        self.election.name()
    }

    /// Stands for election, and waits to lead, however long it takes.
    pub fn campaign(&self) -> Result<Leadership> {
        self.campaign_within(Wait::Forever).map(granted)
    }

    /// Stands for election, and waits to lead, for as long as `wait` says; `None` if the time was over first. Without a
    /// wait it leads only if there is no other candidate.
    pub fn campaign_within(&self, wait: Wait) -> Result<Option<Leadership>> {
        let election = self.election.clone();
        let lead = self.user.call(async move { election.campaign_within(wait).await })?;
        Ok(lead.map(|lead| Leadership { lead, user: self.user.clone() }))
    }

    /// Shows the leader; `None` if there is no candidate, or the election is frozen. The answer may be out of date.
    #[doc(alias = "getLeader")]
    pub fn leader(&self) -> Result<Option<ContenderInfo>> {
        let election = self.election.clone();
        self.user.call(async move { election.leader().await })
    }

    /// Shows the candidates, the leader first.
    #[doc(alias = "getParticipants")]
    pub fn candidates(&self) -> Result<Vec<ContenderInfo>> {
        let election = self.election.clone();
        self.user.call(async move { election.candidates().await })
    }
}

/// Proof that this process leads. Dropping it resigns in the background; any thread may do that.
#[must_use = "the lead is given up when this is dropped"]
pub struct Leadership {
    /// Dropped before the user, so that no session ends before its lead is given up.
    lead: crate::election::Leadership,
    user: Arc<User>,
}

impl Leadership {
    /// Returns the hold of this lead; a cheap clone that may go anywhere and never resigns.
    pub fn hold(&self) -> &Hold {
        self.lead.hold()
    }

    /// Returns the lead's token.
    pub fn fencing_token(&self) -> FencingToken {
        self.lead.fencing_token()
    }

    /// Resigns, and waits until that is certain. Its errors are those of
    /// [`lockkeeper::Guard::release`](crate::Guard::release).
    pub fn resign(self) -> Result<()> {
        let Self { lead, user } = self;
        user.call(lead.resign())
    }
}

impl fmt::Debug for Election {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.election.fmt(formatter)
    }
}

impl fmt::Debug for Leadership {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lead.fmt(formatter)
    }
}
