//! Follows all locks of a scope: the kernel reports which directories change, and only these are looked at.
//!
//! A lock's directory without a watch, since the kernel gives no more of them, is looked at from time to time: the
//! longer all such looks take, the less often, so that they cost a hundredth of the time.
//!
//! `watch_table` hears reports and knows what they mean; `known` looks, and sees how holders end.

mod known;
mod watch_table;

use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{Error, EventSender, FollowEvent, Follower, LockSnapshot, Operation, QueueName, Result, Scope};
use rustix::io::Errno;

use crate::base::Base;
use crate::errors::failed;
use crate::follow::known::FollowedQueues;
use crate::follow::watch_table::{FollowSubject, FollowWatches, flags};
use crate::pipe::Looker;
use crate::site::{LOOK_INTERVAL, PathIdentity};
use crate::watch::Inotify;

/// How many locks are watched at most: the kernel lets a user watch some hundred thousand things, and other programs
/// need some too.
const WATCHES_MAX: usize = 50_000;

/// The shortest period of the looks at directories that are not watched, and …
const LOOK_AROUND_MIN: Duration = Duration::from_secs(1);

/// … the longest, at which they may cost more than their share.
const LOOK_AROUND_MAX: Duration = Duration::from_secs(60);

/// How many times longer than such looks take their period is.
const LOOK_AROUND_SHARE: u32 = 100;

/// When a lock is looked at again where a pipe may be about to end, and there is no descriptor to watch it with.
const SHORT_INTERVAL: Duration = Duration::from_secs(2);

/// After how many looks others have a turn: one takes some tens of microseconds.
const LOOKS_AT_ONCE: usize = 16;

/// The same of glances, which take a microsecond or two.
const GLANCES_AT_ONCE: usize = 256;

#[derive(Debug)]
pub(crate) struct Following {
    base: Arc<Base>,
    looker: Arc<Looker>,
    scope: Scope,
    watches_max: usize,
}

enum RoundEnd {
    /// There is no reader any more.
    Unread,
    /// Something was missed, or the directories are others.
    Anew,
}

impl Following {
    pub(crate) fn new(base: Arc<Base>, looker: Arc<Looker>, scope: Scope) -> Self {
        Self { base, looker, scope, watches_max: WATCHES_MAX }
    }

    /// Begins, in a task of the runtime that this is called in.
    pub(crate) fn begin(self) -> Follower {
        Follower::run(|telling| self.run(telling))
    }

    async fn run(self, telling: EventSender) {
        loop {
            match self.round(&telling).await {
                Ok(RoundEnd::Unread) => return,
                Ok(RoundEnd::Anew) => {}
                Err(error) => {
                    let is_passing = error.is_transient();
                    if !telling.tell(FollowEvent::Lost(error)).await || !is_passing {
                        return;
                    }
                    let clock = &self.base.clock;
                    clock.sleep_until(clock.now().saturating_add(LOOK_INTERVAL)).await;
                }
            }
        }
    }

    /// Tells of all locks, and then of changes, until all must be told anew.
    async fn round(&self, telling: &EventSender) -> Result<RoundEnd> {
        let clock = self.base.clock.clone();
        // Before anything is watched, so that a directory that comes meanwhile is another one.
        let place = PathIdentity::of(&self.base.queues);
        let mut round = FollowRound::begin(self)?;
        if !telling.until_taken().await {
            return Ok(RoundEnd::Unread);
        }
        round.look_at_due().await?;
        if !telling.tell(FollowEvent::All(round.known.all())).await {
            return Ok(RoundEnd::Unread);
        }
        let mut look_at = clock.now().saturating_add(LOOK_INTERVAL);
        loop {
            tokio::select! {
                () = round.inotify.readable() => {
                    let FollowRound { inotify, table, .. } = &mut round;
                    let read = inotify.read(|descriptor, events, name| table.note(descriptor, events, name));
                    read.map_err(|errno| self.failed(&self.base.queues, errno))?;
                }
                (lock, ending) = poll_fn(|context| round.known.poll_ended(context)) => {
                    round.table.touch(&lock, ending.name.as_str());
                }
                is_read = telling.until_taken(), if round.table.is_due() => {
                    let changed = if is_read { round.look_at_due().await? } else { return Ok(RoundEnd::Unread) };
                    if !changed.is_empty() && !telling.tell(FollowEvent::Changed(changed)).await {
                        return Ok(RoundEnd::Unread);
                    }
                }
                () = clock.sleep_until(look_at) => {
                    if PathIdentity::of(&self.base.queues) != place {
                        return Ok(RoundEnd::Anew);
                    }
                    round.look_around().await?;
                    look_at = clock.now().saturating_add(LOOK_INTERVAL);
                }
            }
            if round.table.begins_anew() {
                return Ok(RoundEnd::Anew);
            }
        }
    }

    fn failed(&self, path: &Path, errno: Errno) -> Error {
        failed(Operation::Inspect, "list the directory", path, errno)
    }
}

/// What is followed by one inotify instance.
struct FollowRound<'a> {
    following: &'a Following,
    inotify: Inotify,
    table: FollowWatches,
    known: FollowedQueues,
    /// Whether the directory of all locks is watched.
    hears_of_locks: bool,
    /// The locks that are looked at once more, and when: the kernel may have reported the end of a contender before it
    /// was watched, and have made it come true after it was looked at.
    again: BTreeMap<String, BootInstant>,
    /// When the directories that are not watched are looked at next: whether they were changed, and whether their
    /// contenders live.
    next_glance: BootInstant,
    next_search: BootInstant,
    /// When the looks began that are due because of that.
    search_began: Option<BootInstant>,
}

/// When the next looks begin after some that took from one time to another.
fn paced(begun: BootInstant, ended: BootInstant) -> BootInstant {
    let took = ended.saturating_duration_since(begun);
    begun.saturating_add((took * LOOK_AROUND_SHARE).clamp(LOOK_AROUND_MIN, LOOK_AROUND_MAX))
}

impl<'a> FollowRound<'a> {
    /// Watches, and has all locks looked at.
    fn begin(following: &'a Following) -> Result<Self> {
        let Following { base, looker, scope, .. } = following;
        let (inotify, mut table) = (Inotify::open(), FollowWatches::default());
        let known = FollowedQueues::new(base.clone(), looker.clone(), scope.clone());
        let now = base.clock.now();
        let mut hears_of_locks = false;
        if following.watches_max > 0 {
            for (path, subject) in [(&base.path, FollowSubject::Base), (&base.queues, FollowSubject::Queues)] {
                if let Ok(descriptor) = inotify.watch(path, flags(&subject)) {
                    hears_of_locks = subject == FollowSubject::Queues;
                    table.watch(descriptor, subject);
                }
            }
        }
        let mut round = Self {
            following,
            inotify,
            table,
            known,
            hears_of_locks,
            again: BTreeMap::new(),
            next_glance: now,
            next_search: now,
            search_began: None,
        };
        round.find_locks()?;
        Ok(round)
    }

    /// Takes in what the kernel has reported until now.
    fn hear(&mut self) -> Result<()> {
        let Self { inotify, table, following, .. } = self;
        let read = inotify.read_now(|descriptor, events, name| table.note(descriptor, events, name));
        read.map_err(|errno| following.failed(&following.base.queues, errno))
    }

    /// Has the locks looked at that are not known.
    fn find_locks(&mut self) -> Result<()> {
        let found = self.known.directories();
        let found = found.map_err(|errno| self.following.failed(&self.following.base.queues, errno))?;
        let known: BTreeSet<_> = self.known.locks().map(str::to_owned).collect();
        found.iter().filter(|lock| !known.contains(*lock)).for_each(|lock| self.table.touch_all(lock));
        Ok(())
    }

    async fn look_at_due(&mut self) -> Result<Vec<LockSnapshot>> {
        // What a look shows was reported to come before the next look: so one that came and went is known from one that
        // was seen.
        self.hear()?;
        let clock = self.following.base.clock.clone();
        let mut changed = Vec::new();
        let mut looks = 0;
        while let Some((lock, mut due)) = self.table.next() {
            if !self.known.may_be_followed(&lock) {
                continue;
            }
            let is_new = self.watch(&lock);
            due.is_all |= is_new;
            let looked = self.known.look(&lock, &due);
            let looked = looked.map_err(|errno| self.following.failed(&self.known.path(&lock), errno))?;
            if looked.is_gone
                && !QueueName::is_digest(&lock)
                && let Some(descriptor) = self.table.unwatch(&lock)
            {
                self.inotify.unwatch(descriptor);
            }
            let again = match (looked.is_short, is_new && looked.is_inhabited) {
                (true, _) => Some(SHORT_INTERVAL),
                (false, true) => Some(LOOK_INTERVAL),
                (false, false) => None,
            };
            if let Some(after) = again {
                self.again.entry(lock).or_insert_with(|| clock.now().saturating_add(after));
            }
            changed.extend(looked.now);
            looks += 1;
            if looks % LOOKS_AT_ONCE == 0 {
                tokio::task::yield_now().await;
            }
        }
        if let Some(begun) = self.search_began.take() {
            self.next_search = paced(begun, clock.now());
        }
        Ok(changed)
    }

    /// Has the locks looked at whose time has come: once more, or since nothing is reported of them.
    async fn look_around(&mut self) -> Result<()> {
        let clock = self.following.base.clock.clone();
        let now = clock.now();
        let table = &mut self.table;
        self.again.retain(|lock, at| {
            let is_due = *at <= now;
            if is_due {
                table.touch_all(lock);
            }
            !is_due
        });
        if now < self.next_glance {
            return Ok(());
        }
        if !self.hears_of_locks {
            self.find_locks()?;
        }
        let is_unwatched = |lock: &&str| !self.table.is_watched(lock);
        let unwatched: Vec<_> = self.known.locks().filter(is_unwatched).map(str::to_owned).collect();
        let is_search = now >= self.next_search && self.search_began.is_none();
        for (number, lock) in (1..).zip(&unwatched) {
            if is_search || self.known.is_modified(lock) {
                self.table.touch_all(lock);
            }
            if number % GLANCES_AT_ONCE == 0 {
                tokio::task::yield_now().await;
            }
        }
        self.search_began = self.search_began.or_else(|| is_search.then_some(now));
        self.next_glance = paced(now, clock.now());
        Ok(())
    }

    /// Watches a lock's directory; `true` if it was not watched before.
    fn watch(&mut self, lock: &str) -> bool {
        if self.table.is_watched(lock) || self.table.watched() >= self.following.watches_max {
            return false;
        }
        let subject = FollowSubject::Lock(lock.to_owned());
        match self.inotify.watch(self.known.path(lock), flags(&subject)) {
            Ok(descriptor) => {
                self.table.watch(descriptor, subject);
                true
            }
            // It is gone, not ours to look into, or one too many.
            Err(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;

    use lockkeeper_core::clock::SystemClock;
    use lockkeeper_core::{Entry, FencingToken, Mode, Owner, Part, Picture, Ticket};
    use lockkeeper_faults::wait::PATIENCE;
    use rustix::fs::inotify::ReadFlags;
    use rustix::fs::{CWD, OFlags};

    use super::*;
    use crate::entry_name::{EntryName, EntryPosition};

    /// Makes a contender as another process would that is killed when this is dropped.
    fn enter(base: &Base, lock: &str, number: u64) -> OwnedFd {
        base.make_queue(lock).unwrap();
        let entry = Entry::new(Ticket::from_bits(number.into()), Mode::Mutex, Arc::new(Owner::new("h", 1, "c")));
        let position = EntryPosition::tail(FencingToken::new(number, 0).unwrap());
        let path = base.queues.join(lock).join(EntryName::compose(position, Part::Line, &entry).as_str());
        rustix::fs::mkfifoat(CWD, &path, rustix::fs::Mode::RWXU).unwrap();
        rustix::fs::open(&path, OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC, rustix::fs::Mode::empty()).unwrap()
    }

    async fn until_shown(follower: &mut Follower, picture: &mut Picture, expected: &[(&str, usize)]) {
        let shown = |picture: &Picture| {
            picture.locks().iter().map(|(name, infos)| (name.to_string(), infos.len())).collect::<Vec<_>>()
        };
        let expected: Vec<_> = expected.iter().map(|&(name, count)| (name.to_owned(), count)).collect();
        let hearing = async {
            while shown(picture) != expected {
                picture.take(follower.next().await.expect("it goes on"));
            }
        };
        let heard = tokio::time::timeout(PATIENCE, hearing).await;
        assert!(heard.is_ok(), "{:?} instead of {expected:?}", shown(picture));
    }

    #[tokio::test]
    async fn a_contender_whose_pipe_was_reported_to_close_is_watched_until_that_is_done() {
        let directory = tempfile::tempdir().unwrap();
        let base = Arc::new(Base::open(directory.path(), Arc::new(SystemClock)).unwrap());
        let contender = enter(&base, "a", 1);
        let mut known = FollowedQueues::new(base, Arc::default(), Scope::default());
        let mut table = FollowWatches::default();
        table.watch(1, FollowSubject::Lock("a".to_owned()));
        let look = |known: &mut FollowedQueues, table: &mut FollowWatches| {
            let (lock, due) = table.next().expect("it is due");
            known.look(&lock, &due).unwrap().now.map(|now| now.contenders)
        };
        table.touch_all("a");
        let seen = look(&mut known, &mut table).expect("it was not seen before");
        table.note(1, ReadFlags::CLOSE_WRITE, Some(seen[0].id.as_str()));
        assert_eq!(look(&mut known, &mut table), None, "it is not done yet");
        drop(contender);
        let ended = tokio::time::timeout(PATIENCE, poll_fn(|context| known.poll_ended(context)));
        let (lock, ending) = ended.await.expect("its end is noticed");
        table.touch(&lock, ending.name.as_str());
        assert_eq!(look(&mut known, &mut table), Some(Vec::new()));
    }

    #[tokio::test]
    async fn who_came_and_went_between_two_looks_is_told_by_its_name() {
        let directory = tempfile::tempdir().unwrap();
        let base = Arc::new(Base::open(directory.path(), Arc::new(SystemClock)).unwrap());
        let _stays = enter(&base, "a", 1);
        let following = Following::new(base.clone(), Arc::default(), Scope::default());
        let mut round = FollowRound::begin(&following).unwrap();
        round.look_at_due().await.unwrap();
        for number in [2, 3] {
            // As processes enter: under a temporary name first.
            let queue = base.queues.join("a");
            drop(enter(&base, "a", number));
            let names =
                std::fs::read_dir(&queue).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
            let name = names.into_iter().find(|name| name.starts_with(&format!("{number:020}"))).unwrap();
            std::fs::rename(queue.join(&name), queue.join(".new-1")).unwrap();
            std::fs::rename(queue.join(".new-1"), queue.join(&name)).unwrap();
            if number == 2 {
                std::fs::remove_file(queue.join(&name)).unwrap();
            }
        }
        let told = |changed: Vec<LockSnapshot>| -> Vec<_> {
            let token = |info: &lockkeeper_core::ContenderInfo| info.token.map(FencingToken::as_u64);
            changed.iter().flat_map(|now| &now.between.told).map(token).collect()
        };
        let changed = round.look_at_due().await.unwrap();
        assert_eq!(told(changed), [Some(2), Some(3)], "one has left, and one has died");
        std::fs::read_dir(base.queues.join("a")).unwrap().for_each(|entry| {
            std::fs::remove_file(entry.unwrap().path()).unwrap();
        });
        assert_eq!(
            told(round.look_at_due().await.unwrap()),
            [],
            "the end of one that was seen, and of one that was told"
        );
    }

    #[tokio::test]
    async fn what_is_not_watched_is_looked_at_from_time_to_time() {
        for watches_max in [0, 1, WATCHES_MAX] {
            let directory = tempfile::tempdir().unwrap();
            let base = Arc::new(Base::open(directory.path(), Arc::new(SystemClock)).unwrap());
            let [a, b] = [("a", 1), ("b", 2)].map(|(lock, number)| enter(&base, lock, number));
            let following = Following::new(base.clone(), Arc::default(), Scope::default());
            let (mut follower, mut picture) = (Following { watches_max, ..following }.begin(), Picture::default());
            until_shown(&mut follower, &mut picture, &[("a", 1), ("b", 1)]).await;
            let _c = enter(&base, "c", 3);
            let next = enter(&base, "b", 4);
            until_shown(&mut follower, &mut picture, &[("a", 1), ("b", 2), ("c", 1)]).await;
            drop((a, b));
            until_shown(&mut follower, &mut picture, &[("b", 1), ("c", 1)]).await;
            drop(next);
            std::fs::remove_dir_all(base.queues.join("c")).unwrap();
            until_shown(&mut follower, &mut picture, &[]).await;
        }
    }
}
