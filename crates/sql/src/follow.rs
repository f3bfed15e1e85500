//! Follows all locks of a scope, over its own connection. No database tells an onlooker of them, so they are looked at
//! again and again, by one statement for all: the longer that takes, the less often, so that looks cost a hundredth of
//! the time. What has changed is told, and how old that is.
//! A look that is slow for once says more of a busy machine than of what looks cost, and a pause that is as much longer
//! would have what changes meanwhile told many seconds late. So the usual one of the last looks counts, and the last
//! one for a tenth.
//!
//! `passed` counts the contenders that no look has shown; `signs` knows which sessions are silent, and which were ended
//! for that.

mod passed;
mod signs;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::clock::Clock;
use lockkeeper_core::{
    Backoff, ContenderInfo, EventSender, FollowEvent, LockSnapshot, PassedBetween, QueueName, Scope,
};
use lockkeeper_session::{Effect, Failure, Follow, until};

use crate::engine::{Intent, Wire};
use crate::follow::passed::{JoinCounts, passed};
use crate::follow::signs::{LookTime, Signs};
use crate::look::{AllLocks, inspect_all};
use crate::site::SqlSite;

/// How many times longer than the usual look a pause is: looks may take a fourth longer than that at the mean, and take
/// no more than a hundredth of the time.
const USUAL_SHARE: u32 = 125;

/// How many times longer than the look before it a pause is at least: a database that is busy is asked for a tenth of
/// the time at most.
const LAST_SHARE: u32 = 10;

/// Of how many looks the usual one is the median: few enough that it follows when all become slow, and so many that a
/// busy moment is less than half of them.
const LOOKS: usize = 8;

/// The least pause, if the reader has not named one.
const LOOK_PAUSE_MIN: Duration = Duration::from_millis(500);

/// The greatest pause, at which looks may cost more than their share: an operator waits a minute at most.
const LOOK_PAUSE_MAX: Duration = Duration::from_secs(60);

/// All locks with contenders.
type SeenLocks = BTreeMap<QueueName, Vec<Arc<ContenderInfo>>>;

pub(crate) struct Following {
    site: SqlSite,
    scope: Scope,
    look_pauses: LookPauses,
}

impl Follow for Following {
    fn clock(&self) -> &Arc<dyn Clock> {
        &self.site.clock
    }

    /// Looks over one connection until that is of no use any more, or there is no reader.
    async fn until_lost(&mut self, telling: &EventSender, backoff: &mut Backoff) -> Result<(), Failure> {
        let mut wire = self.connect().await?;
        let mut known: Option<SeenLocks> = None;
        let (mut signs, mut join_counts) = (Signs::default(), JoinCounts::default());
        loop {
            let began = self.site.clock.now();
            let AllLocks { locks: seen, beats, counts, number } = self.look(&*wire, join_counts.look()).await?;
            let ended = self.site.clock.now();
            signs.take(beats, LookTime { began, ended });
            let joined = join_counts.take(counts, number);
            let told = match &known {
                None => FollowEvent::All(all(&seen)),
                Some(known) => FollowEvent::Changed(changes(known, &seen, &joined, &signs)),
            };
            known = Some(seen);
            *backoff = Backoff::CONNECTING;
            let is_news = !matches!(&told, FollowEvent::Changed(locks) if locks.is_empty());
            let look_pause = self.look_pauses.pause_after(ended.saturating_duration_since(began), self.scope.pause_min);
            let looked = FollowEvent::Looked { began, pause: look_pause, silent: signs.silent() };
            if is_news && !telling.tell(told).await || !telling.tell(looked).await {
                return Ok(());
            }
            tokio::select! {
                biased;
                () = wire.over(), if wire.missing().is_none() => return Err(Failure::broken(Effect::None)),
                () = self.site.clock.sleep_until(ended.saturating_add(look_pause)) => {}
            }
            // What changes until then is seen by the same look.
            if !telling.until_taken().await {
                return Ok(());
            }
            if wire.missing().is_some() {
                wire = self.connect().await?;
            }
        }
    }
}

impl Following {
    pub(crate) fn new(site: SqlSite, scope: Scope) -> Self {
        Self { site, scope, look_pauses: LookPauses::default() }
    }

    /// Tries each server once.
    async fn connect(&self) -> Result<Arc<dyn Wire>, Failure> {
        self.site.connect(Intent::Look).await.map(|(_, connected)| connected.wire)
    }

    /// Looks; `since` is the number of the look before.
    async fn look(&self, wire: &dyn Wire, since: i64) -> Result<AllLocks, Failure> {
        let deadline = self.site.clock.now().saturating_add(self.site.config.operation_timeout);
        let looking = inspect_all(wire, &self.scope, since);
        until(&*self.site.clock, deadline, Effect::None, looking).await.inspect_err(|_| wire.shut())
    }
}

fn all(seen: &SeenLocks) -> Vec<LockSnapshot> {
    seen.iter().map(|(lock, contenders)| LockSnapshot::new(lock.clone(), contenders.clone())).collect()
}

/// The locks that were not seen so before, those that have no contenders any more, and those that some have passed of
/// how many have joined.
fn changes(known: &SeenLocks, seen: &SeenLocks, joined: &BTreeMap<QueueName, u64>, signs: &Signs) -> Vec<LockSnapshot> {
    let names: BTreeSet<_> = known.keys().chain(seen.keys()).chain(joined.keys()).collect();
    let changed = names.into_iter().filter_map(|name| {
        let [before, now] = [known, seen].map(|locks| locks.get(name).map_or(&[][..], Vec::as_slice));
        let more = joined.get(name).map_or(0, |&joined| passed(joined, before, now));
        let told = || LockSnapshot::new(name.clone(), now.to_vec()).losing(signs.lost(before));
        (more > 0 || before != now).then(|| told().after(PassedBetween::counted(more)))
    });
    changed.collect()
}

/// How long the last looks took.
#[derive(Debug, Default)]
struct LookPauses {
    took: VecDeque<Duration>,
}

impl LookPauses {
    /// Returns how long it is from the end of a look that took so long to the next one.
    fn pause_after(&mut self, took: Duration, pause_min: Option<Duration>) -> Duration {
        if self.took.len() == LOOKS {
            self.took.pop_front();
        }
        self.took.push_back(took);
        let pause = self.usual().saturating_mul(USUAL_SHARE).max(took.saturating_mul(LAST_SHARE));
        pause.min(LOOK_PAUSE_MAX).max(pause_min.unwrap_or(LOOK_PAUSE_MIN))
    }

    /// Returns the median of the last looks, the lower one of two. The first look of all says little: it is often the
    /// slowest.
    fn usual(&self) -> Duration {
        let mut took = Vec::from(self.took.clone());
        took.sort_unstable();
        if took.len() > 1 { took[(took.len() - 1) / 2] } else { Duration::ZERO }
    }
}

#[cfg(test)]
mod tests {
    use lockkeeper_core::{ContenderId, Mode};

    use super::*;

    fn seen(locks: &[(&str, &[&str])]) -> SeenLocks {
        let contender = |id: &&str| Arc::new(ContenderInfo::new(ContenderId::new(*id), Mode::Mutex));
        let lock =
            |&(name, ids): &(&str, &[&str])| (QueueName::new(name).unwrap(), ids.iter().map(contender).collect());
        locks.iter().map(lock).collect()
    }

    fn joins(joined: &[(&str, u64)]) -> BTreeMap<QueueName, u64> {
        joined.iter().map(|&(name, count)| (QueueName::new(name).unwrap(), count)).collect()
    }

    #[test]
    fn what_looks_otherwise_than_before_or_was_passed_is_told_and_nothing_else() {
        let before = seen(&[("a", &["1"]), ("b", &["2"]), ("c", &["3", "4"])]);
        let after = seen(&[("b", &["2"]), ("c", &["4"]), ("d", &["5"])]);
        let joined = joins(&[("c", 1), ("d", 1), ("e", 3)]);
        let told = changes(&before, &after, &joined, &Signs::default());
        let told: Vec<_> = told.iter().map(|now| (now.lock.as_str(), now.contenders.len(), now.between.more)).collect();
        assert_eq!(told, [("a", 0, 0), ("c", 1, 1), ("d", 1, 0), ("e", 0, 3)]);
        assert!(changes(&after, &after, &joins(&[]), &Signs::default()).is_empty());
        assert_eq!(all(&after).len(), 3);
    }

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// The pause behind the last of several looks that took as long.
    fn steady(took: Duration, pause_min: Option<Duration>) -> Duration {
        let mut look_pauses = LookPauses::default();
        let pauses = (0..LOOKS).map(|_| look_pauses.pause_after(took, pause_min));
        pauses.last().unwrap()
    }

    #[test]
    fn looks_that_take_as_long_have_longer_pauses_the_longer_they_take_up_to_a_minute() {
        for (took, pause_min, pause) in [
            (1, None, 500),
            (30, None, 3_750),
            (10_000, None, 60_000),
            (1, Some(20), 125),
            (0, Some(20), 20),
            (30, Some(90_000), 90_000),
        ] {
            assert_eq!(steady(ms(took), pause_min.map(ms)), ms(pause), "{took} {pause_min:?}");
        }
        assert_eq!(steady(Duration::MAX, None), LOOK_PAUSE_MAX);
    }

    #[test]
    fn looks_that_are_slow_for_once_make_none_of_the_next_ones_seconds_late() {
        let mut look_pauses = LookPauses::default();
        let pauses: Vec<_> = [80, 2, 2, 2].map(|took| look_pauses.pause_after(ms(took), None)).into();
        assert_eq!(pauses, [ms(800), ms(500), ms(500), ms(500)], "the first one");
        (0..LOOKS).for_each(|_| _ = look_pauses.pause_after(ms(2), None));
        let pauses: Vec<_> = [66, 100, 40, 2].map(|took| look_pauses.pause_after(ms(took), None)).into();
        assert_eq!(pauses, [ms(660), ms(1_000), ms(500), ms(500)], "later ones");
    }

    #[test]
    fn one_look_that_is_fast_for_once_makes_the_next_ones_take_no_more_than_their_share() {
        let mut look_pauses = LookPauses::default();
        let pauses = [60, 30, 60, 60, 60].map(|took| look_pauses.pause_after(ms(took), None));
        assert_eq!(pauses[2..], [ms(7_500); 3]);
    }

    #[test]
    fn looks_take_a_hundredth_of_the_time_and_a_tenth_however_slow_some_of_them_are() {
        // Any numbers will do, and the same each time: a generator of Knuth's (MMIX).
        let mut state = 7_u64;
        for (usual_us, slow_us, part) in [(60_000, 60_000, 100), (3_000, 400_000, 10)] {
            let mut look_pauses = LookPauses::default();
            let (mut looking, mut pausing) = (Duration::ZERO, Duration::ZERO);
            for round in 0..10_000 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                // Most are fast, some are slow, and now and then all are slow for a while.
                let is_slow = round % 1_000 > 900 || (state >> 33).is_multiple_of(20);
                let least_us = if is_slow { slow_us } else { usual_us };
                let took = Duration::from_micros(least_us + (state >> 40) % (least_us / 4));
                let pause = look_pauses.pause_after(took, Some(Duration::ZERO));
                if round > 0 {
                    (looking, pausing) = (looking + took, pausing + pause);
                }
            }
            assert!(looking * part <= pausing, "{usual_us}: {looking:?} of {pausing:?}");
        }
    }
}
