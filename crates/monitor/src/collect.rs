//! Keeps the model of a service's locks true: it follows them where the service tells of changes, and looks again and
//! again where it does not.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper::clock::{BootInstant, Clock};
use lockkeeper::follow::{FollowEvent, Follower, Following, LockSnapshot, Scope};
use lockkeeper::{Advice, Error, Keeper, QueueName};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::confirmation::{Confirmation, DeadlockVerdict, Judged};
use crate::find::find;
use crate::history::History;
use crate::model::LockModel;
use crate::moment::TimePoint;
use crate::snapshot::{ObservedLock, PERIOD_MIN, SENDERS, ServiceSnapshot};
use crate::snapshot::{look, permits};

/// The least time between two searches for deadlocks, so that a service full of changes costs four a second.
const SEARCH_PERIOD_MIN: Duration = Duration::from_millis(250);

/// The part of a core that searches may take: one in this number. Ten thousand locks for which processes wait that hold
/// others take some tens of milliseconds.
const SEARCH_SHARE: u32 = 4;

/// How long a service that cannot be followed or looked at is left alone.
const PAUSE: Duration = Duration::from_secs(1);

/// How long it is left alone when it refuses us: until an operator has mended that.
const REFUSED_PAUSE: Duration = Duration::from_secs(30);

/// How long the number of a semaphore's permits is taken to be what it was: its users seldom agree on another.
const PERMITS_KNOWN: Duration = Duration::from_secs(5);

/// How many semaphores are asked for the number of their permits at once.
const ASKED_AT_ONCE_MAX: usize = 16;

/// What is known of a service, how fresh it is, and which deadlocks are in it.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct MonitorState {
    /// The locks, and what has happened to them.
    pub model: LockModel,
    /// How fresh that is.
    pub freshness: ServiceFreshness,
    /// The deadlocks, the surest first.
    pub deadlocks: Vec<Judged>,
    /// How the service is asked.
    pub way: CollectionMode,
    /// Whether locks are followed, so that the permits of a semaphore are asked for besides.
    is_followed: bool,
    confirmation: Confirmation,
    /// How many changes there were at the last search that may have made a deadlock.
    searched: Option<u64>,
    /// When the number of a semaphore's permits was asked for last.
    asked: BTreeMap<QueueName, BootInstant>,
}

/// How a service is asked for its locks.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum CollectionMode {
    /// It tells of each change.
    Told,
    /// It is looked at again and again, after this pause.
    Looks(Duration),
    /// That is not known yet.
    #[default]
    Unknown,
}

/// The age of the state of a service.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum ServiceFreshness {
    /// Nothing was seen yet.
    #[default]
    Nothing,
    /// Nothing was seen yet, since the service cannot be reached or refuses us.
    Unreached(Error),
    /// It is told of each change, or was looked at last at this moment.
    Fresh(Option<BootInstant>),
    /// It was true last at this moment, for this reason.
    Stale(BootInstant, Error),
}

impl ServiceFreshness {
    /// Returns how long ago it was true last; `None` if nothing was ever seen.
    pub fn age(&self, now: BootInstant) -> Option<Duration> {
        match self {
            Self::Nothing | Self::Unreached(_) => None,
            Self::Fresh(None) => Some(Duration::ZERO),
            Self::Fresh(Some(seen)) | Self::Stale(seen, _) => Some(now.saturating_duration_since(*seen)),
        }
    }

    /// Returns why it is not known now.
    pub const fn trouble(&self) -> Option<&Error> {
        match self {
            Self::Unreached(error) | Self::Stale(_, error) => Some(error),
            Self::Nothing | Self::Fresh(_) => None,
        }
    }

    /// Returns the moment at which the state was true.
    fn known(&self, now: BootInstant) -> Option<BootInstant> {
        match self {
            Self::Nothing | Self::Unreached(_) => None,
            Self::Fresh(None) => Some(now),
            Self::Fresh(Some(seen)) | Self::Stale(seen, _) => Some(*seen),
        }
    }
}

/// Collects what happens to the locks of one service. It takes part in none of them.
#[derive(Debug)]
pub struct Collector {
    keeper: Keeper,
    clock: Arc<dyn Clock>,
    scope: Scope,
    interval: Duration,
    state: Mutex<MonitorState>,
    changes: watch::Sender<u64>,
}

impl Collector {
    /// Collects the locks of a scope, by the clock of the keeper, once it [runs](Self::run).
    pub fn new(keeper: Keeper, clock: Arc<dyn Clock>, scope: Scope) -> Self {
        let (state, changes) = (Mutex::default(), watch::Sender::new(0));
        Self { keeper, clock, scope, interval: PERIOD_MIN, state, changes }
    }

    /// Leaves a service that has to be looked at alone for at least so long between two looks; half a second, if it is
    /// not told.
    #[must_use]
    pub fn looking_each(self, interval: Duration) -> Self {
        Self { interval: interval.max(PERIOD_MIN), ..self }
    }

    /// Names the service.
    pub fn service(&self) -> String {
        self.keeper.service()
    }

    /// Returns the present moment.
    pub fn now(&self) -> TimePoint {
        TimePoint { boot: self.clock.now(), unix: self.clock.unix_time() }
    }

    /// Reads the state. Nothing is collected meanwhile.
    pub fn read<Read>(&self, read: impl FnOnce(&MonitorState) -> Read) -> Read {
        read(&self.state.lock())
    }

    /// Has the history kept over a restart, or takes from it what is to be written.
    pub fn with_history<Done>(&self, done: impl FnOnce(&mut History, TimePoint) -> Done) -> Done {
        let now = self.now();
        done(self.state.lock().model.history_mut(), now)
    }

    /// Counts the changes of the state.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Changes the state, and notifies the readers.
    fn change<Done>(&self, change: impl FnOnce(&mut MonitorState) -> Done) -> Done {
        let done = change(&mut self.state.lock());
        self.changes.send_modify(|number| *number += 1);
        done
    }

    /// Collects until the future is dropped. What the service does not answer or refuses is known as the state's
    /// trouble, and is tried again.
    pub async fn run(&self) {
        tokio::join!(self.collect(), self.search(), self.count_permits());
    }

    async fn collect(&self) {
        loop {
            let follower = self.keeper.admin().follow(&self.scope.clone().looking_each(self.interval));
            let trouble = match follower {
                Some(follower) => self.follow(follower).await,
                None => self.look_again_and_again().await,
            };
            let pause = if trouble { REFUSED_PAUSE } else { PAUSE };
            self.clock.sleep_until(self.clock.now().saturating_add(pause)).await;
        }
    }

    /// Takes in what a follower tells until it ends; tells whether the service refuses us.
    async fn follow(&self, mut follower: Follower) -> bool {
        let is_looked_at = self.keeper.capabilities().following == Following::Looks;
        let mut is_refused = false;
        // What a look has seen, and when it was made, become known at the same moment: what was seen by one look must
        // not be taken for what the one before has seen too.
        let mut seen = Vec::new();
        while let Some(told) = follower.next().await {
            is_refused = matches!(&told, FollowEvent::Lost(error) if error.advice() == Advice::Permanent);
            if is_looked_at && matches!(told, FollowEvent::All(_) | FollowEvent::Changed(_)) {
                seen.push(told);
                continue;
            }
            seen.push(told);
            self.take_in(std::mem::take(&mut seen), is_looked_at);
        }
        is_refused
    }

    fn take_in(&self, told: Vec<FollowEvent>, is_looked_at: bool) {
        let now = self.now();
        self.change(|state| told.into_iter().for_each(|told| state.take_in(told, now, is_looked_at)));
    }

    /// Looks until the service refuses us.
    async fn look_again_and_again(&self) -> bool {
        loop {
            let mut pause = self.interval;
            match look(&self.keeper, &*self.clock, &self.scope).await {
                Ok(snapshot) => {
                    pause = snapshot.pause().max(self.interval);
                    let now = TimePoint { boot: snapshot.ended, unix: snapshot.ended_unix };
                    self.change(|state| {
                        let permits: Vec<_> =
                            snapshot.locks.iter().map(|lock| (lock.name.clone(), lock.permits)).collect();
                        let locks = snapshot.locks.into_iter().map(|ObservedLock { name, contenders, .. }| {
                            LockSnapshot::new(name, contenders.into_iter().map(Arc::new).collect())
                        });
                        state.see_all(locks.collect(), now);
                        permits.into_iter().for_each(|(lock, permits)| state.model.set_permits(&lock, permits));
                        (state.way, state.freshness) =
                            (CollectionMode::Looks(pause), ServiceFreshness::Fresh(Some(snapshot.began)));
                    });
                }
                Err(error) => {
                    let is_refused = error.advice() == Advice::Permanent;
                    let now = self.clock.now();
                    self.change(|state| state.lose(now, error));
                    if is_refused {
                        return true;
                    }
                }
            }
            self.clock.sleep_until(self.clock.now().saturating_add(pause)).await;
        }
    }

    /// Searches for deadlocks after changes, and again where one is not confirmed yet.
    async fn search(&self) {
        let mut changes = self.changes.subscribe();
        loop {
            changes.mark_unchanged();
            let begun = self.clock.now();
            let is_waited_for = self.search_once();
            let ended = self.clock.now();
            let pause = ended.saturating_duration_since(begun).saturating_mul(SEARCH_SHARE - 1).max(SEARCH_PERIOD_MIN);
            self.clock.sleep_until(ended.saturating_add(pause)).await;
            if !is_waited_for {
                // The sender is of this collector.
                let _ = changes.changed().await;
            }
        }
    }

    /// Searches, if something has changed that may make or end a deadlock; tells whether something was found that time
    /// alone decides on.
    fn search_once(&self) -> bool {
        let Some(mut snapshot) = self.to_be_searched() else {
            return false;
        };
        let mut found = find(&snapshot);
        if !found.is_empty() {
            let Some(all) = self.copied(&self.state.lock(), LockModel::contended) else {
                return false;
            };
            (found, snapshot) = (find(&all), all);
        }
        let mut state = self.state.lock();
        let judged = state.confirmation.judge(&snapshot, found);
        let is_news = judged.len() != state.deadlocks.len() || judged.iter().zip(&state.deadlocks).any(is_other);
        state.deadlocks = judged;
        let is_open =
            |judged: &Judged| matches!(judged.verdict, DeadlockVerdict::Unconfirmed | DeadlockVerdict::EndsSoon(_));
        let is_waited_for = state.deadlocks.iter().any(is_open);
        drop(state);
        if is_news {
            self.changes.send_modify(|number| *number += 1);
        }
        is_waited_for
    }

    /// Copies what is to be searched; `None` if there is nothing new, or what is known is not true now.
    fn to_be_searched(&self) -> Option<ServiceSnapshot> {
        let mut state = self.state.lock();
        let stirred = state.model.stirred();
        if state.searched == Some(stirred) && state.deadlocks.is_empty() {
            return None;
        }
        let snapshot = self.copied(&state, LockModel::entangled)?;
        state.searched = Some(stirred);
        Some(snapshot)
    }

    /// Copies what is known, so that no reader waits for a search in it; `None` if it is not true now.
    fn copied(
        &self,
        state: &MonitorState,
        copy: impl Fn(&LockModel, BootInstant, TimePoint) -> ServiceSnapshot,
    ) -> Option<ServiceSnapshot> {
        let ServiceFreshness::Fresh(seen) = state.freshness else {
            return None;
        };
        let now = self.now();
        let ended = seen.map_or(now, |seen| TimePoint { boot: seen, ..now });
        Some(copy(&state.model, ended.boot, ended))
    }

    /// Asks how many permits the semaphores have that contenders wait for.
    async fn count_permits(&self) {
        let (mut changes, mut asked) = (self.changes.subscribe(), JoinSet::new());
        let in_time = || self.clock.sleep_until(self.clock.now().saturating_add(PERMITS_KNOWN));
        let mut again = in_time();
        loop {
            changes.mark_unchanged();
            for lock in self.unknown_gates(ASKED_AT_ONCE_MAX.saturating_sub(asked.len())) {
                let keeper = self.keeper.clone();
                asked.spawn(async move { (permits(&keeper, &lock).await, lock) });
            }
            tokio::select! {
                Some(answered) = asked.join_next() => match answered {
                    Ok((Ok(permits), lock)) => self.change(|state| state.model.set_permits(&lock, permits)),
                    // It is asked again.
                    Ok((Err(_), _)) => {}
                    // One that was cancelled is asked again, too.
                    Err(ended) => if let Ok(panic) = ended.try_into_panic() {
                        std::panic::resume_unwind(panic);
                    },
                },
                // The sender is of this collector.
                _ = changes.changed() => {}
                // Some may not have been answered, and nothing may change for long.
                () = &mut again => again = in_time(),
            }
        }
    }

    /// Names semaphores whose number of permits is to be asked for, at most so many, and notes that they are asked.
    fn unknown_gates(&self, count: usize) -> Vec<QueueName> {
        let now = self.clock.now();
        let mut state = self.state.lock();
        let state = &mut *state;
        if !state.is_followed {
            return Vec::new();
        }
        let locks = state.model.locks();
        state
            .asked
            .retain(|lock, asked| locks.contains_key(lock) && now.saturating_duration_since(*asked) < PERMITS_KNOWN);
        let awaited = state.model.awaited_gates().iter().filter(|lock| !state.asked.contains_key(*lock));
        let names: Vec<_> = awaited.take(count).cloned().collect();
        state.asked.extend(names.iter().map(|name| (name.clone(), now)));
        names
    }
}

/// Tells whether a lock is shown: the monitors' own election is not.
fn is_shown(now: &LockSnapshot) -> bool {
    now.lock.as_str() != SENDERS
}

/// Tells whether more than the time has changed.
fn is_other((one, other): (&Judged, &Judged)) -> bool {
    std::mem::discriminant(&one.verdict) != std::mem::discriminant(&other.verdict)
        || one.deadlock.core != other.deadlock.core
        || one.deadlock.behind != other.deadlock.behind
}

impl MonitorState {
    /// Tells whether locks are followed, so that who comes and goes between two looks is counted.
    pub const fn is_followed(&self) -> bool {
        self.is_followed
    }

    /// Tells whether all locks were seen once: what was there then has joined without an event.
    pub const fn has_seen(&self) -> bool {
        !matches!(self.freshness, ServiceFreshness::Nothing | ServiceFreshness::Unreached(_))
    }

    /// Takes in what a follower tells.
    fn take_in(&mut self, told: FollowEvent, now: TimePoint, is_looked_at: bool) {
        match told {
            FollowEvent::Lost(error) => self.lose(now.boot, error),
            FollowEvent::All(locks) => {
                self.see_all(locks, now);
                self.is_followed = true;
                // How old it is, a look that was made tells behind it.
                if !is_looked_at {
                    (self.way, self.freshness) = (CollectionMode::Told, ServiceFreshness::Fresh(None));
                }
            }
            FollowEvent::Changed(locks) => {
                let known = self.freshness.known(now.boot);
                for LockSnapshot { lock, contenders, lost, between, .. } in locks.into_iter().filter(is_shown) {
                    self.model.lose(&lock, &lost);
                    if let Some(known) = known.filter(|_| !between.is_empty()) {
                        self.model.pass(&lock, between, &contenders, known, now);
                    }
                    self.model.see(&lock, contenders, known, now);
                }
            }
            FollowEvent::Looked { began, pause, silent } => {
                self.model.set_silent(silent);
                (self.way, self.freshness) = (CollectionMode::Looks(pause), ServiceFreshness::Fresh(Some(began)));
            }
            // It may be any change.
            _ => {}
        }
    }

    /// Takes in all locks with contenders.
    fn see_all(&mut self, locks: Vec<LockSnapshot>, now: TimePoint) {
        let known = self.freshness.known(now.boot);
        let mut gone: BTreeMap<_, _> = self.model.locks().keys().map(|name| (name.clone(), ())).collect();
        for LockSnapshot { lock, contenders, .. } in locks.into_iter().filter(is_shown) {
            gone.remove(&lock);
            self.model.see(&lock, contenders, known, now);
        }
        for lock in gone.into_keys() {
            self.model.see(&lock, Vec::<Arc<_>>::new(), known, now);
        }
        self.model.history_mut().see_again(now);
    }

    /// Takes in that the service cannot be asked.
    fn lose(&mut self, now: BootInstant, error: Error) {
        self.freshness = match self.freshness.known(now) {
            Some(known) => {
                self.model.history_mut().go_blind(known);
                ServiceFreshness::Stale(known, error)
            }
            None => ServiceFreshness::Unreached(error),
        };
    }
}
