//! The known state of all locks, kept from one telling to the next: since when each holder was seen to hold, and what
//! has happened.
//!
//! Pure: what was seen and when comes in, and nothing is asked. Who asks is `collect`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use lockkeeper::backend::decide;
use lockkeeper::clock::BootInstant;
use lockkeeper::follow::{PassedBetween, SilentSession};
use lockkeeper::{ContenderId, ContenderInfo, Mode, QueueName};

use crate::breaches::{self, Breaches, SeenBreach};
use crate::change::QueueChange;
use crate::cores::Ties;
use crate::events::{LockEventKind, SeenEvent, marked};
use crate::history::{Departed, History, PastEnd};
use crate::known::{KnownContender, KnownLock, VanishedTurn};
use crate::losses::{Losses, losses_of};
use crate::moment::TimePoint;
use crate::positions::key;
use crate::snapshot::{ObservedLock, ServiceSnapshot};

/// How many events are kept: some minutes of a busy service, and a few megabytes.
pub const EVENTS_MAX: usize = 10_000;

/// All locks, as far as they are known.
#[derive(Clone, Debug, Default)]
pub struct LockModel {
    locks: BTreeMap<QueueName, KnownLock>,
    /// The locks with contenders that do not hold.
    contended: BTreeSet<QueueName>,
    /// The semaphores whose permits contenders wait for: of these it matters how many there are.
    awaited_gates: BTreeSet<QueueName>,
    events: VecDeque<SeenEvent>,
    /// The number of the next event.
    next: u64,
    /// What their contenders have in common.
    ties: Ties,
    /// How many changes there were that may have made a deadlock.
    stirred: u64,
    /// How many changes there were that no event tells of.
    quiet: u64,
    losses: Losses,
    breaches: Breaches,
    /// The sessions that give no sign of life, by their names.
    silent: BTreeMap<String, SilentSession>,
    history: History,
    /// When locks were seen first; what was there then may have been there for long.
    first_look: Option<BootInstant>,
}

impl LockModel {
    /// Takes in that these contenders of a lock have not left by themselves; its next state is without them.
    pub fn lose(&mut self, lock: &QueueName, lost: &[ContenderId]) {
        // Most often there are none.
        let known = if lost.is_empty() { None } else { self.locks.get_mut(lock) };
        for one in known.into_iter().flat_map(|known| &mut known.contenders) {
            one.is_lost = lost.contains(&one.info.id);
        }
    }

    /// Takes in which sessions give no sign of life now.
    pub fn set_silent(&mut self, silent: Vec<SilentSession>) {
        self.silent = silent.into_iter().map(|silence| (silence.session.clone(), silence)).collect();
    }

    /// Tells whether any session gives no sign of life.
    pub(crate) fn has_silent(&self) -> bool {
        !self.silent.is_empty()
    }

    /// Returns for how long a contender's session is silent, if it is.
    pub(crate) fn silence(&self, info: &ContenderInfo) -> Option<&SilentSession> {
        self.silent.get(info.session.as_ref()?)
    }

    /// Returns the locks that holders have lost in the last ten minutes, each with the number of these losses.
    pub fn lost_lately(&self, now: BootInstant) -> impl Iterator<Item = (&QueueName, usize)> {
        self.losses.recent(now)
    }

    /// Returns the locks of which a promise was broken in the last hour, or is, with the last breach of each.
    pub fn breaches(&self, now: BootInstant) -> impl Iterator<Item = (&QueueName, SeenBreach)> {
        let overlap = |lock: &KnownLock| {
            breaches::overlap(&lock.holders().next()?.info, lock.waiters().map(|waiter| &*waiter.info))
        };
        let overlaps = self.contended_locks().filter_map(move |(name, lock)| Some((name, overlap(lock)?)));
        self.breaches.recent(now).map(|(name, seen)| (name, seen.clone())).chain(overlaps)
    }

    /// Takes in how a lock is `now`; without contenders it is forgotten. What is new has happened after `known`, the
    /// moment at which the last state was the true one; `None` if nothing was known of any lock yet, and then nothing
    /// has happened.
    pub fn see<Info: Into<Arc<ContenderInfo>>>(
        &mut self,
        lock: &QueueName,
        seen: Vec<Info>,
        known: Option<BootInstant>,
        now: TimePoint,
    ) {
        let seen: Vec<Arc<ContenderInfo>> = seen.into_iter().map(Into::into).collect();
        let KnownLock { contenders: old, permits, mut quiet } = self.locks.remove(lock).unwrap_or_default();
        let holds = decide::holders(&seen);
        let before: Vec<_> = old.iter().map(|one| (&one.info, one.hold.is_some())).collect();
        let shown: Vec<_> = seen.iter().zip(holds.iter().copied()).collect();
        self.breaches.see(lock, &before, &shown, now.boot);
        self.ties.change(&before, &shown);
        let QueueChange { contenders, changed, granted, gone, happened } =
            QueueChange::of(old, seen, holds, known, now);
        let mut concerned = changed.iter().map(|&place| &contenders[place]).chain(gone.iter().map(|(one, _)| one));
        self.stirred += u64::from(concerned.any(|one| self.ties.may_block(&one.info)));
        granted.iter().for_each(|&place| self.history.granted(lock, &contenders[place].info, now.boot, now));
        self.see_gone(lock, &gone, known, now);
        if !changed.is_empty() && happened.is_empty() {
            self.quiet += 1;
            quiet = self.quiet;
        }
        self.history.see_queue(lock, contenders.iter().filter(|one| one.waits()).count(), now);
        for (kind, contender) in happened {
            if known.is_some() {
                self.note(lock, kind, contender, now);
            } else if kind == LockEventKind::Frozen {
                self.history.find_frozen(lock, &contender, now);
            }
        }
        let has_gate = contenders.iter().any(|one| one.waits() && one.info.mode == Mode::Acquire);
        set_member(&mut self.awaited_gates, lock, has_gate);
        set_member(&mut self.contended, lock, contenders.iter().any(|one| one.hold.is_none()));
        if !contenders.is_empty() {
            self.locks.insert(lock.clone(), KnownLock { contenders, permits, quiet });
        }
    }

    /// Takes in who has gone since the last state of a lock.
    fn see_gone(
        &mut self,
        lock: &QueueName,
        gone: &[(KnownContender, VanishedTurn)],
        known: Option<BootInstant>,
        now: TimePoint,
    ) {
        let lost = gone.iter().map(|(one, _)| one).filter(|one| one.is_lost && one.hold.is_some());
        (0..losses_of(lost.map(|one| &*one.info))).for_each(|_| self.losses.note(lock, now.boot));
        let Some(known) = known else {
            self.first_look = Some(now.boot);
            return;
        };
        for (one, turn) in gone {
            self.history.departed(lock, &one.departed(self.first_look, known, *turn), now);
        }
    }

    /// Takes in who came and went since the last state of a lock, before its next state is seen. Those may have held
    /// that did not wait behind one that was there all the time.
    pub(crate) fn pass(
        &mut self,
        lock: &QueueName,
        between: PassedBetween,
        next: &[Arc<ContenderInfo>],
        known: BootInstant,
        now: TimePoint,
    ) {
        let PassedBetween { told, more, .. } = between;
        self.history.miss(lock, more, now);
        let there: BTreeSet<_> = next.iter().map(|info| key(info)).collect();
        let old = self.locks.get(lock).into_iter().flat_map(|known| &known.contenders);
        let stayed: Vec<_> = old.map(|one| &*one.info).filter(|info| there.contains(&key(info))).cloned().collect();
        for info in told {
            // It may have gone before one came that the last state shows.
            let is_ahead = |one: &&ContenderInfo| one.token.zip(info.token).is_none_or(|(its, ours)| its <= ours);
            let ahead = || stayed.iter().filter(is_ahead);
            // One of them says enough: the first that excludes others, or else any.
            let ahead = ahead().find(|one| one.mode != Mode::Read).or_else(|| ahead().next()).cloned();
            let queue: Vec<_> = ahead.into_iter().chain([info.clone()]).collect();
            if decide::holders(&queue).last() == Some(&true) {
                let gone = Departed { info: &info, joined: None, hold: None, known, end: PastEnd::Between };
                self.history.departed(lock, &gone, now);
            }
        }
    }

    fn note(&mut self, lock: &QueueName, kind: LockEventKind, contender: Arc<ContenderInfo>, now: TimePoint) {
        if self.events.len() == EVENTS_MAX {
            self.events.pop_front();
        }
        if let Some(what) = marked(kind, &contender) {
            self.history.mark(lock, Some(&contender), &what, now);
        }
        let number = self.next;
        self.next += 1;
        self.events.push_back(SeenEvent { number, at_unix: now.unix, lock: lock.clone(), kind, contender });
    }

    /// Takes in how many permits a semaphore has.
    pub(crate) fn set_permits(&mut self, lock: &QueueName, permits: Option<u32>) {
        if let Some(known) = self.locks.get_mut(lock).filter(|known| known.permits != permits) {
            known.permits = permits;
            self.stirred += 1;
            self.quiet += 1;
            known.quiet = self.quiet;
        }
    }

    /// Counts the changes that no event tells of: of what is said of a contender, such as its label, and of the number
    /// of permits.
    pub const fn quiet_changes(&self) -> u64 {
        self.quiet
    }

    /// Returns the locks with contenders that have changed without an event since there were so many such changes.
    pub fn changed_quietly_since(&self, count: u64) -> impl Iterator<Item = &QueueName> {
        // Most often there are none.
        let locks = (self.quiet > count).then_some(&self.locks);
        locks.into_iter().flatten().filter(move |(_, lock)| lock.quiet > count).map(|(name, _)| name)
    }

    /// Returns for how long a holder has waited, if that was seen.
    pub(crate) fn waited(&self, one: &KnownContender) -> Option<Duration> {
        Some(one.seen_to_hold()?.saturating_duration_since(one.joined(self.first_look)?))
    }

    /// Returns what has happened to all locks, as far as it is kept.
    pub const fn history(&self) -> &History {
        &self.history
    }

    /// Returns it, to be kept over a restart, or to be told of what is not seen in queues.
    pub const fn history_mut(&mut self) -> &mut History {
        &mut self.history
    }

    /// Returns the locks with contenders, by name.
    pub const fn locks(&self) -> &BTreeMap<QueueName, KnownLock> {
        &self.locks
    }

    /// Returns the locks with contenders that do not hold, by name: most often few of all.
    pub(crate) fn contended_locks(&self) -> impl Iterator<Item = (&QueueName, &KnownLock)> {
        self.contended.iter().filter_map(|name| self.locks.get_key_value(name))
    }

    /// Returns the semaphores whose permits contenders wait for.
    pub(crate) const fn awaited_gates(&self) -> &BTreeSet<QueueName> {
        &self.awaited_gates
    }

    /// Returns the events from this number on, the oldest first, as far as they are kept.
    pub fn events_from(&self, number: u64) -> impl DoubleEndedIterator<Item = &SeenEvent> {
        let oldest = self.next - self.events.len() as u64;
        let skipped = number.saturating_sub(oldest);
        self.events.iter().skip(usize::try_from(skipped).unwrap_or(usize::MAX))
    }

    /// Returns the number that the next event will have.
    pub const fn next_event(&self) -> u64 {
        self.next
    }

    /// Returns the locks that contenders wait for, and those whose holders are nested or have others nested in them, as
    /// if they had been seen from `began` to `ended`: no other lock has a part in a deadlock.
    pub fn contended(&self, began: BootInstant, ended: TimePoint) -> ServiceSnapshot {
        self.seen(began, ended, |_| true)
    }

    fn has_nested(&self, lock: &KnownLock) -> bool {
        lock.contenders.iter().any(|one| self.ties.is_nested(&one.info))
    }

    /// Returns those of them over which a circle of waits may lead. In them there is a deadlock if there is one at all;
    /// others may wait behind it elsewhere.
    pub(crate) fn entangled(&self, began: BootInstant, ended: TimePoint) -> ServiceSnapshot {
        let may_block = |one: &KnownContender| self.ties.may_block(&one.info);
        self.seen(began, ended, |lock| lock.contenders.iter().any(may_block))
    }

    /// Copies those of the contended locks that are chosen, and the locks with nested holders.
    fn seen(&self, began: BootInstant, ended: TimePoint, is_chosen: impl Fn(&KnownLock) -> bool) -> ServiceSnapshot {
        let seen = |(name, lock): (&QueueName, &KnownLock)| ObservedLock::new(name.clone(), lock.infos(), lock.permits);
        let locks = if self.ties.has_nested() {
            let is_copied = |lock: &KnownLock| self.has_nested(lock) || (lock.is_contended() && is_chosen(lock));
            self.locks.iter().filter(|(_, lock)| is_copied(lock)).map(seen).collect()
        } else {
            self.contended_locks().filter(|(_, lock)| is_chosen(lock)).map(seen).collect()
        };
        ServiceSnapshot::new(locks, began, ended.boot, ended.unix)
    }

    #[cfg(test)]
    pub(crate) fn is_untied(&self) -> bool {
        self.ties.is_empty()
    }

    /// Counts the changes that may have made a deadlock: of contenders that have something in common with one that
    /// waits, and of the number of permits.
    pub(crate) const fn stirred(&self) -> u64 {
        self.stirred
    }
}

fn set_member(set: &mut BTreeSet<QueueName>, lock: &QueueName, is_member: bool) {
    if !is_member {
        set.remove(lock);
    } else if !set.contains(lock) {
        set.insert(lock.clone());
    }
}
