//! Confirmation: a thing that stands in two looks is known.
//!
//! The views of one look may be of different moments, so that a circle may be seen which never was. But contenders are
//! never used twice, and none of a deadlock ever moves. So what a second look shows, whose views are all later than
//! those of the first, was there all the time in between.

use std::collections::BTreeSet;
use std::time::Duration;

use lockkeeper::clock::BootInstant;
use lockkeeper::{ContenderId, QueueName};

use crate::deadlock::{Certainty, Deadlock};
use crate::snapshot::ServiceSnapshot;
#[cfg(test)]
use crate::tests::planted;

/// How far apart the two looks are at least: long beside the life of a short wait.
pub const CONFIRM_AFTER: Duration = Duration::from_secs(1);

/// A deadlock that ends by itself within this time is no reason for an alarm. One that was to end longer ago than this
/// does not end: its process is stopped, or its clock is wrong.
pub const ENDS_SOON: Duration = Duration::from_secs(30);

/// The memory of earlier looks.
#[derive(Clone, Debug, Default)]
pub struct Confirmation {
    stood: Vec<StandingCore>,
}

#[derive(Clone, Debug)]
struct StandingCore {
    core: BTreeSet<(QueueName, ContenderId)>,
    certainty: Certainty,
    /// When the first look that has seen it ended.
    since: BootInstant,
}

/// A deadlock, and what may be said of it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Judged {
    /// The deadlock.
    pub deadlock: Deadlock,
    /// What may be said of it.
    pub verdict: DeadlockVerdict,
    /// Since when it has been seen: when the first look that has seen it ended.
    pub since: BootInstant,
}

/// What may be said of a deadlock.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum DeadlockVerdict {
    /// It is one, by all that is known of its contenders.
    Known,
    /// It is one, and ends by itself after this time: a contender gives up then.
    EndsSoon(Duration),
    /// It was not seen twice: it may be none.
    Unconfirmed,
    /// It may be one: too little is known of its contenders.
    Possible,
}

impl Confirmation {
    /// Judges the deadlocks that were [found](crate::find()) in this look, and keeps them for the next one.
    pub fn judge(&mut self, snapshot: &ServiceSnapshot, found: Vec<Deadlock>) -> Vec<Judged> {
        let judged: Vec<_> = found.into_iter().map(|deadlock| self.judge_one(snapshot, deadlock)).collect();
        self.stood = judged.iter().map(|(stood, _)| stood.clone()).collect();
        judged.into_iter().map(|(_, judged)| judged).collect()
    }

    fn judge_one(&self, snapshot: &ServiceSnapshot, deadlock: Deadlock) -> (StandingCore, Judged) {
        // It may have grown meanwhile, or lost one that was not needed for it. What was only possible proves nothing.
        let is_sure = |stood: &StandingCore| stood.certainty.is_known() || !deadlock.certainty.is_known();
        let is_same = |stood: &&StandingCore| {
            is_sure(stood) && (stood.core.is_subset(&deadlock.core) || deadlock.core.is_subset(&stood.core))
        };
        let since = self.stood.iter().filter(is_same).map(|stood| stood.since).min().unwrap_or(snapshot.ended);
        let stands = snapshot.ended.saturating_duration_since(since);
        let is_later = snapshot.began >= since;
        #[cfg(test)]
        let is_later = is_later || planted::is(planted::Fault::OldViews);
        let verdict = if !deadlock.certainty.is_known() {
            DeadlockVerdict::Possible
        } else if stands < CONFIRM_AFTER || !is_later {
            DeadlockVerdict::Unconfirmed
        } else {
            ends_soon(&deadlock, snapshot.ended_unix).map_or(DeadlockVerdict::Known, DeadlockVerdict::EndsSoon)
        };
        (
            StandingCore { core: deadlock.core.clone(), certainty: deadlock.certainty, since },
            Judged { deadlock, verdict, since },
        )
    }
}

/// Returns after which time a deadlock ends by itself, if that is soon.
fn ends_soon(deadlock: &Deadlock, now_unix: Duration) -> Option<Duration> {
    let ends = deadlock.ends_unix?;
    (ends.abs_diff(now_unix) <= ENDS_SOON).then(|| ends.saturating_sub(now_unix))
}
