//! Following all queues of a service: what an onlooker is told instead of looking again and again.
//!
//! A backend that is told of changes by its service offers it. What it tells is a lock as a look would show it, so that
//! its reader needs no rules of any service; [`Picture`] keeps the last state of each.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::clock::BootInstant;
use crate::contender::{ContenderId, ContenderInfo};
use crate::error::Error;
use crate::name::QueueName;

/// How many tellings wait for their reader. What changes meanwhile is told together, so that a slow reader costs
/// neither memory nor a look.
const TOLD_WAITING_MAX: usize = 1;

/// How many contenders that came and went between two tellings of a lock are told one by one; the others are counted.
/// They are some hundred kilobytes, if the reader of a busy lock stands still.
const PASSED_MAX: usize = 1_000;

/// Which locks are followed.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Scope {
    /// The beginning of the names of the locks below the service's base; empty for all.
    pub prefix: String,
    /// Locks beside these, by their names: on ZooKeeper paths that do not lie below the base.
    pub also: Vec<QueueName>,
    /// The least time from one look to the next where the backend [looks](crate::Following::Looks); a second, if it is
    /// not told. Looks take a hundredth of the time at most, whatever is told here, unless that were a pause of more
    /// than a minute.
    pub pause_min: Option<Duration>,
}

impl Scope {
    /// Names the locks below the base whose names begin with `prefix`.
    pub fn below_base(prefix: impl Into<String>) -> Self {
        Self { prefix: prefix.into(), ..Self::default() }
    }

    /// Adds a lock, wherever it lies.
    #[must_use]
    pub fn with(mut self, lock: QueueName) -> Self {
        self.also.push(lock);
        self
    }

    /// Has a backend that looks again and again leave at least so much time between two looks.
    #[must_use]
    pub const fn looking_each(mut self, pause_min: Duration) -> Self {
        self.pause_min = Some(pause_min);
        self
    }
}

/// One event of a [`Follower`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum FollowEvent {
    /// All locks with contenders; no other lock has any. The first telling, and the first after [`FollowEvent::Lost`].
    All(Vec<LockSnapshot>),
    /// These locks have changed, and are now so.
    Changed(Vec<LockSnapshot>),
    /// A look at all locks that began at this moment has shown what was told until now; the next one comes after this
    /// time. Told where the backend [looks](crate::Following::Looks), after each look.
    Looked {
        /// When the look began.
        began: BootInstant,
        /// How long it is until the next one begins.
        pause: Duration,
        /// The sessions of contenders that have been silent for long, where sessions show that they live.
        silent: Vec<SilentSession>,
    },
    /// The service could not be followed any more, for this reason. What was told may be out of date until all locks
    /// are told anew. If the reason is permanent, nothing follows.
    Lost(Error),
}

/// A lock as it is now.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LockSnapshot {
    /// Which lock, as [`Part::Line`](crate::Part::Line).
    pub lock: QueueName,
    /// Its contenders, as [`AdminBackend::inspect`](crate::AdminBackend::inspect) shows them; empty if it has none any
    /// more. Those that have not changed since the last telling may be shared with it.
    pub contenders: Vec<Arc<ContenderInfo>>,
    /// Those that were there when it was told of last and did not leave by themselves: their process has died, or their
    /// session was ended. Empty where the service does not show why a contender has gone, and where that was not seen.
    pub lost: Vec<ContenderId>,
    /// Those that came and went since it was told of last.
    pub between: PassedBetween,
}

/// The contenders that came and went between two tellings of a lock, so that neither shows them: each held the lock for
/// a moment, or gave up.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct PassedBetween {
    /// Those that the service has told of, in the order in which they came.
    pub told: Vec<ContenderInfo>,
    /// How many more there were at most, of which nothing else is known.
    pub more: u64,
}

impl PassedBetween {
    /// Counts contenders of which nothing else is known.
    pub const fn counted(more: u64) -> Self {
        Self { told: Vec::new(), more }
    }

    /// Adds a contender that has gone; of very many the last ones are only counted.
    pub fn add(&mut self, gone: ContenderInfo) {
        if self.told.len() < PASSED_MAX {
            self.told.push(gone);
        } else {
            self.more += 1;
        }
    }

    /// Tells whether there was none.
    pub const fn is_empty(&self) -> bool {
        self.told.is_empty() && self.more == 0
    }
}

impl LockSnapshot {
    /// Describes a lock that no contender was seen to lose, and none to pass.
    pub fn new(lock: QueueName, contenders: Vec<Arc<ContenderInfo>>) -> Self {
        Self { lock, contenders, lost: Vec::new(), between: PassedBetween::default() }
    }

    /// Adds the contenders that came and went.
    #[must_use]
    pub fn after(self, between: PassedBetween) -> Self {
        Self { between, ..self }
    }

    /// Names the contenders that have gone without leaving.
    #[must_use]
    pub fn losing(self, lost: Vec<ContenderId>) -> Self {
        Self { lost, ..self }
    }
}

/// A session that has given no sign of life for half its timeout or longer, so that its holds are in jeopardy.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct SilentSession {
    /// The session, as [`ContenderInfo::session`] names it.
    pub session: String,
    /// When its last sign of life was seen; it may have been given earlier, up to the pause between two looks.
    pub since: BootInstant,
    /// After how long a silence it is ended.
    pub timeout: Duration,
}

impl SilentSession {
    /// Describes a silent session.
    pub fn new(session: impl Into<String>, since: BootInstant, timeout: Duration) -> Self {
        Self { session: session.into(), since, timeout }
    }
}

/// The side of a [`Follower`] that its backend tells by.
#[derive(Debug)]
pub struct EventSender(mpsc::Sender<FollowEvent>);

impl EventSender {
    /// Tells, as soon as the reader has taken what was told before; `false` if there is no reader any more.
    ///
    /// A dropped future has told nothing.
    pub async fn tell(&self, told: FollowEvent) -> bool {
        self.0.send(told).await.is_ok()
    }

    /// Waits until what was told last was taken, so that changes are told together meanwhile; `false` if there is no
    /// reader any more.
    pub async fn until_taken(&self) -> bool {
        self.0.reserve().await.is_ok()
    }
}

/// Tells of the changes of all locks in its scope. Dropping it ends its connections.
pub struct Follower {
    told: mpsc::Receiver<FollowEvent>,
    _task: JoinSet<()>,
}

impl Follower {
    /// Runs what tells, in a task of the runtime that this is called in.
    ///
    /// # Panics
    ///
    /// If it is called outside a tokio runtime.
    pub fn run<Running>(telling: impl FnOnce(EventSender) -> Running) -> Self
    where
        Running: Future<Output = ()> + Send + 'static,
    {
        let (sender, told) = mpsc::channel(TOLD_WAITING_MAX);
        let mut task = JoinSet::new();
        task.spawn(telling(EventSender(sender)));
        Self { told, _task: task }
    }

    /// Waits for the next change; `None` if nothing will be told any more.
    ///
    /// # Cancellation
    ///
    /// Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<FollowEvent> {
        self.told.recv().await
    }
}

impl fmt::Debug for Follower {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Follower")
    }
}

/// The last known state of each lock.
#[derive(Clone, Debug, Default)]
pub struct Picture {
    locks: BTreeMap<QueueName, Vec<Arc<ContenderInfo>>>,
    lost: Option<Error>,
    is_whole: bool,
}

impl Picture {
    /// Takes in what was told; returns the locks that it was told of, with those that it has no longer.
    pub fn take(&mut self, told: FollowEvent) -> Vec<QueueName> {
        let locks = match told {
            FollowEvent::Lost(error) => {
                self.lost = Some(error);
                return Vec::new();
            }
            FollowEvent::All(locks) => {
                (self.lost, self.is_whole) = (None, true);
                let gone = std::mem::take(&mut self.locks).into_keys().map(|lock| LockSnapshot::new(lock, Vec::new()));
                // A lock that is told of again overrides its end.
                let now: BTreeMap<_, _> = gone.chain(locks).map(|now| (now.lock, now.contenders)).collect();
                now.into_iter().map(|(lock, contenders)| LockSnapshot::new(lock, contenders)).collect()
            }
            FollowEvent::Changed(locks) => locks,
            FollowEvent::Looked { .. } => return Vec::new(),
        };
        locks.into_iter().map(|now| self.set(now)).collect()
    }

    fn set(&mut self, now: LockSnapshot) -> QueueName {
        if now.contenders.is_empty() {
            self.locks.remove(&now.lock);
        } else {
            self.locks.insert(now.lock.clone(), now.contenders);
        }
        now.lock
    }

    /// Returns the locks with contenders, by name.
    pub const fn locks(&self) -> &BTreeMap<QueueName, Vec<Arc<ContenderInfo>>> {
        &self.locks
    }

    /// Tells why the service cannot be followed now; `None` while it is.
    pub const fn lost(&self) -> Option<&Error> {
        self.lost.as_ref()
    }

    /// Tells whether all locks were ever told of.
    pub const fn is_whole(&self) -> bool {
        self.is_whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contender::{ContenderId, Mode};
    use crate::error::{ErrorKind, Operation};

    fn now(lock: &str, ids: &[&str]) -> LockSnapshot {
        let contender = |id: &&str| Arc::new(ContenderInfo::new(ContenderId::new(*id), Mode::Mutex));
        LockSnapshot::new(QueueName::new(lock).unwrap(), ids.iter().map(contender).collect())
    }

    fn shown(picture: &Picture) -> Vec<String> {
        let ids =
            |infos: &[Arc<ContenderInfo>]| infos.iter().map(|info| info.id.to_string()).collect::<Vec<_>>().join(" ");
        picture.locks().iter().map(|(lock, infos)| format!("{}: {}", lock.as_str(), ids(infos))).collect()
    }

    fn names(locks: &[QueueName]) -> Vec<&str> {
        locks.iter().map(QueueName::as_str).collect()
    }

    #[test]
    fn a_picture_shows_each_lock_as_it_was_told_last_and_names_what_was_told() {
        let mut picture = Picture::default();
        assert!(!picture.is_whole());
        assert_eq!(names(&picture.take(FollowEvent::All(vec![now("a", &["1"]), now("b", &["2"])]))), ["a", "b"]);
        let changed = picture.take(FollowEvent::Changed(vec![now("a", &["1", "3"]), now("b", &[]), now("c", &["4"])]));
        assert_eq!(names(&changed), ["a", "b", "c"]);
        assert_eq!(shown(&picture), ["a: 1 3", "c: 4"]);
    }

    #[test]
    fn of_very_many_contenders_that_came_and_went_the_last_ones_are_counted() {
        let mut between = PassedBetween::default();
        assert!(between.is_empty());
        for number in 0..PASSED_MAX + 3 {
            between.add(ContenderInfo::new(ContenderId::new(number.to_string()), Mode::Mutex));
        }
        assert_eq!((between.told.len(), between.more), (PASSED_MAX, 3));
    }

    #[test]
    fn what_is_not_told_of_with_all_others_is_gone_and_is_named() {
        let mut picture = Picture::default();
        picture.take(FollowEvent::All(vec![now("a", &["1"]), now("b", &["2"])]));
        let error = Error::transient(ErrorKind::Backend, Operation::Inspect, "cut off");
        assert!(picture.take(FollowEvent::Lost(error)).is_empty());
        assert!(picture.lost().is_some() && picture.is_whole());
        assert_eq!(shown(&picture), ["a: 1", "b: 2"], "the last state stays, out of date");
        assert_eq!(names(&picture.take(FollowEvent::All(vec![now("b", &["2"]), now("c", &["3"])]))), ["a", "b", "c"]);
        assert!(picture.lost().is_none());
        assert_eq!(shown(&picture), ["b: 2", "c: 3"]);
    }

    #[tokio::test]
    async fn what_is_told_waits_for_its_reader_and_the_task_ends_with_the_reader() {
        let (ended, mut has_ended) = mpsc::channel::<()>(1);
        let mut follower = Follower::run(|telling| async move {
            let _ended = ended;
            let mut number = 0;
            loop {
                number += 1;
                let lock = now(&number.to_string(), &["x"]);
                if !telling.until_taken().await || !telling.tell(FollowEvent::Changed(vec![lock])).await {
                    return;
                }
            }
        });
        for number in 1..=3 {
            match follower.next().await {
                Some(FollowEvent::Changed(locks)) => assert_eq!(locks[0].lock.as_str(), number.to_string()),
                other => panic!("{other:?}"),
            }
        }
        drop(follower);
        assert!(has_ended.recv().await.is_none());
    }
}
