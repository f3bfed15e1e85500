//! Breaches of the promises of a lock: a token that falls from one holder to the next, a holder that another one stands
//! ahead of, and two that hold what one alone can. Pure.
//!
//! They are judged by what the service shows. No monitor can see turns within a process, holds between two looks, or a
//! process that believes in a hold which its service has ended.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper::clock::BootInstant;
use lockkeeper::{ContenderInfo, Mode, QueueName};

/// A contender as a look shows it, and whether it holds.
pub(crate) type Shown<'a> = (&'a Arc<ContenderInfo>, bool);

/// For how long a breach is shown after it was seen.
const SHOWN_FOR: Duration = Duration::from_secs(60 * 60);

/// Of how many locks the last token and the last breach are remembered: some megabytes. Of more locks the tokens are
/// learned anew, and a breach is not kept.
const LOCKS_MAX: usize = 10_000;

/// Which promise was broken.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Breach {
    /// The later holder has no greater token than the earlier one.
    TokenFell,
    /// The earlier one held, and the later one stands ahead of it now.
    Overtaken,
    /// The later one was granted what the earlier one holds.
    Overlap,
}

/// A breach, and the two contenders that it is seen by.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SeenBreach {
    /// Which promise was broken.
    pub breach: Breach,
    /// The one that held first.
    pub earlier: ContenderInfo,
    /// The other one.
    pub later: ContenderInfo,
}

impl SeenBreach {
    /// Describes a breach.
    pub const fn new(breach: Breach, earlier: ContenderInfo, later: ContenderInfo) -> Self {
        Self { breach, earlier, later }
    }
}

/// The breaches that were seen, and what of the past is needed to see them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Breaches {
    /// The holder with the greatest token, by its lock.
    greatest: BTreeMap<QueueName, Arc<ContenderInfo>>,
    /// The last breach of each lock.
    seen: BTreeMap<QueueName, (BootInstant, SeenBreach)>,
    /// Whether this service notes grants. Then one that is first in a listing need not be a holder: a listing of files
    /// that are made meanwhile may lack an earlier one.
    notes_grants: bool,
}

impl Breaches {
    /// Takes in how a lock was and is, each in the order of its contenders.
    pub(crate) fn see(&mut self, lock: &QueueName, before: &[Shown<'_>], seen: &[Shown<'_>], now: BootInstant) {
        self.notes_grants |= seen.iter().any(|(info, _)| info.granted_unix.is_some());
        let breach = self.overtaken(before, seen).or_else(|| self.fallen(lock, seen));
        let Some(breach) = breach else { return };
        // A service that was emptied breaks all locks at once: they are not gone through for each.
        if self.seen.len() >= LOCKS_MAX {
            self.seen.retain(|_, (then, _)| now.saturating_duration_since(*then) < SHOWN_FOR);
        }
        if self.seen.len() < LOCKS_MAX || self.seen.contains_key(lock) {
            self.seen.insert(lock.clone(), (now, breach));
        }
    }

    /// Finds a holder that stands behind another contender now.
    fn overtaken(&self, before: &[Shown<'_>], seen: &[Shown<'_>]) -> Option<SeenBreach> {
        let held = |(info, holds): &Shown<'_>| *holds && is_alone(info.mode) && self.is_certain(info);
        // One alone can have held.
        let (earlier, _) = before.iter().find(|shown| held(shown))?;
        let waits_now = seen.iter().any(|(info, holds)| info.id == earlier.id && !holds);
        let (first, _) = seen.first().filter(|_| waits_now)?;
        Some(SeenBreach::new(Breach::Overtaken, (***earlier).clone(), (***first).clone()))
    }

    /// Finds a holder whose token is not greater than all before, and remembers the greatest.
    fn fallen(&mut self, lock: &QueueName, seen: &[Shown<'_>]) -> Option<SeenBreach> {
        let (holder, _) = seen.iter().find(|(info, holds)| *holds && is_alone(info.mode) && self.is_certain(info))?;
        let token = holder.token?;
        let Some(greatest) = self.greatest.get_mut(lock) else {
            if self.greatest.len() == LOCKS_MAX {
                self.greatest.clear();
            }
            self.greatest.insert(lock.clone(), Arc::clone(holder));
            return None;
        };
        if greatest.id == holder.id {
            return None;
        }
        let earlier = std::mem::replace(greatest, Arc::clone(holder));
        let has_fallen = earlier.token >= Some(token);
        has_fallen.then(|| SeenBreach::new(Breach::TokenFell, (*earlier).clone(), (***holder).clone()))
    }

    fn is_certain(&self, holder: &ContenderInfo) -> bool {
        !self.notes_grants || holder.granted_unix.is_some()
    }

    /// Returns the last breach of each lock that had one lately.
    pub(crate) fn recent(&self, now: BootInstant) -> impl Iterator<Item = (&QueueName, &SeenBreach)> {
        let lately = self.seen.iter().filter(move |(_, (then, _))| now.saturating_duration_since(*then) < SHOWN_FOR);
        lately.map(|(lock, (_, breach))| (lock, breach))
    }
}

/// Finds one that was granted a lock and stands there, behind a holder that excludes it.
pub(crate) fn overlap<'a>(
    holder: &ContenderInfo,
    mut waiters: impl Iterator<Item = &'a ContenderInfo>,
) -> Option<SeenBreach> {
    let later = waiters.find(|waiter| waiter.granted_unix.is_some() && waiter.mode != Mode::Acquire)?;
    Some(SeenBreach::new(Breach::Overlap, holder.clone(), later.clone()))
}

/// Whether one that holds in this mode holds alone.
const fn is_alone(mode: Mode) -> bool {
    matches!(mode, Mode::Mutex | Mode::Write | Mode::Exclusive | Mode::Candidate)
}
