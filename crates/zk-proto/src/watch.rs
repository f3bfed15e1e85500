//! The watches of one session, by the client's account: which of them an event ends, and which are set again after a
//! reconnect.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;

use crate::message::{AddWatchMode, ErrorCode, SetWatches, WatchEventKind, WatcherEvent, WatcherKind, ZkRequest};

/// How many watches one session may have, asked for or set: some hundred mebibytes of them.
pub const WATCHES_MAX: usize = 1 << 20;

/// Names one watch of a session.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct WatchId(u64);

/// Says what kind of watch a request asks for.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "the protocol has these")]
pub enum WatchWish {
    /// On the data of a node, set only if the node is there.
    Data,
    /// On the existence of a node, set whether it is there or not.
    Existence,
    /// On the set of children, set only if the node is there.
    Children,
    /// On a node, until it is removed.
    Persistent,
    /// On a node and all below it, until it is removed.
    PersistentRecursive,
}

/// Says that a session has [`WATCHES_MAX`] watches.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct WatchesFull;

/// The watches of a session.
///
/// A watch is asked for, then set or not by the server's answer, and ends by its event, by removal or with the session.
/// A connection that drops takes along its unanswered requests, which the owner forgets here; watches that were
/// set can be set again.
#[derive(Debug, Default)]
pub struct WatchRegistry {
    paths: BTreeMap<String, PathWatches>,
    watches: BTreeMap<WatchId, RegisteredWatch>,
    /// How many recursive watches are set: without any, events need not look at ancestors.
    recursive_count: usize,
}

#[derive(Debug)]
struct RegisteredWatch {
    path: String,
    wish: WatchWish,
    is_set: bool,
}

impl WatchId {
    /// Makes an id from a number, unique within the session.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number.
    pub const fn number(self) -> u64 {
        self.0
    }
}

impl WatchWish {
    /// What kind of watch a request asks for, if any, and on which path.
    pub fn of(request: &ZkRequest) -> Option<(Self, &str)> {
        match request {
            ZkRequest::GetData { path, watch: true } => Some((Self::Data, path)),
            ZkRequest::Exists { path, watch: true } => Some((Self::Existence, path)),
            ZkRequest::GetChildren { path, watch: true } | ZkRequest::GetChildren2 { path, watch: true } => {
                Some((Self::Children, path))
            }
            ZkRequest::AddWatch { path, mode } => Some((Self::from(*mode), path)),
            _ => None,
        }
    }

    /// What the server has set, by its answer.
    const fn set_by(self, answer: ErrorCode) -> Option<Family> {
        match (self, answer) {
            (Self::Data | Self::Existence, ErrorCode::Ok) => Some(Family::Data),
            (Self::Existence, ErrorCode::NoNode) => Some(Family::Exist),
            (Self::Children, ErrorCode::Ok) => Some(Family::Child),
            (Self::Persistent, ErrorCode::Ok) => Some(Family::Persistent),
            (Self::PersistentRecursive, ErrorCode::Ok) => Some(Family::Recursive),
            _ => None,
        }
    }
}

impl From<AddWatchMode> for WatchWish {
    fn from(mode: AddWatchMode) -> Self {
        match mode {
            AddWatchMode::Persistent => Self::Persistent,
            AddWatchMode::PersistentRecursive => Self::PersistentRecursive,
        }
    }
}

impl WatchRegistry {
    /// Starts without watches.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many watches are asked for or set.
    pub fn len(&self) -> usize {
        self.watches.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.watches.is_empty()
    }

    /// Whether this watch is set.
    pub fn is_set(&self, id: WatchId) -> bool {
        self.watches.get(&id).is_some_and(|watch| watch.is_set)
    }

    /// Notes that a watch is being asked for.
    ///
    /// # Errors
    ///
    /// Fails when there are [`WATCHES_MAX`] watches.
    pub fn ask(&mut self, id: WatchId, wish: WatchWish, path: &str) -> Result<(), WatchesFull> {
        if self.watches.len() >= WATCHES_MAX {
            return Err(WatchesFull);
        }
        self.watches.insert(id, RegisteredWatch { path: path.into(), wish, is_set: false });
        self.paths.entry(path.into()).or_default().ask(id);
        Ok(())
    }

    /// Notes the server's answer; returns whether the watch is set.
    pub fn answer(&mut self, id: WatchId, answer: ErrorCode) -> bool {
        let Some(watch) = self.watches.get_mut(&id) else {
            return false;
        };
        let Some(family) = watch.wish.set_by(answer) else {
            self.forget(id);
            return false;
        };
        watch.is_set = true;
        self.recursive_count += usize::from(family == Family::Recursive);
        if let Some(on_path) = self.paths.get_mut(&watch.path) {
            on_path.set(id, family);
        }
        true
    }

    /// The watches that an event reaches. One-shot watches among them are over.
    ///
    /// An event may have no watch; that is normal after one was forgotten.
    pub fn fire(&mut self, event: &WatcherEvent) -> Vec<WatchId> {
        let mut fired = Vec::new();
        if let Some(on_path) = self.paths.get_mut(&event.path) {
            on_path.fire(event.kind, &mut fired);
            if on_path.is_empty() {
                self.paths.remove(&event.path);
            }
        }
        for id in &fired {
            if !self.is_persistent(*id) {
                self.watches.remove(id);
            }
        }
        if self.recursive_count > 0 && Family::Recursive.hears(event.kind) {
            let above = ancestors(&event.path).filter_map(|path| self.paths.get(path));
            fired.extend(above.flat_map(PathWatches::recursive));
        }
        fired
    }

    /// Drops a watch that no caller waits for any more.
    ///
    /// Returns the path and the kind of watches that the server may be asked to remove; `None` if it was not set, or if
    /// removing it there could hit another watch of ours. An event that comes nevertheless reaches no watch.
    pub fn forget(&mut self, id: WatchId) -> Option<(String, WatcherKind)> {
        let watch = self.watches.remove(&id)?;
        let on_path = self.paths.get_mut(&watch.path)?;
        let family = on_path.forget(id);
        let removable = family.and_then(|family| on_path.removable_after(family));
        if on_path.is_empty() {
            self.paths.remove(&watch.path);
        }
        self.recursive_count -= usize::from(family == Some(Family::Recursive));
        Some((watch.path, removable?))
    }

    /// Notes that the server has removed the watches of a kind on a path; returns those watches.
    pub fn remove(&mut self, path: &str, kind: WatcherKind) -> Vec<WatchId> {
        let mut removed = Vec::new();
        if let Some(on_path) = self.paths.get_mut(path) {
            on_path.remove(kind, &mut removed);
            if on_path.is_empty() {
                self.paths.remove(path);
            }
        }
        for id in &removed {
            let watch = self.watches.remove(id);
            let was_recursive = watch.is_some_and(|watch| watch.wish == WatchWish::PersistentRecursive);
            self.recursive_count -= usize::from(was_recursive);
        }
        removed
    }

    /// The requests that set again all watches that are set, each with at most `bytes_max` of paths (at most
    /// [`RESTORE_BYTES_MAX`]), or a single longer one.
    ///
    /// `last_zxid` is the newest transaction seen in a reply: the server sends the events missed since.
    pub fn restore(&self, last_zxid: i64, bytes_max: usize) -> Vec<SetWatches> {
        batches(&self.paths, last_zxid, bytes_max.min(RESTORE_BYTES_MAX))
    }

    /// Drops everything, since the session is over; returns the watches that were set or asked for.
    pub fn clear(&mut self) -> Vec<WatchId> {
        self.paths.clear();
        self.recursive_count = 0;
        std::mem::take(&mut self.watches).into_keys().collect()
    }

    fn is_persistent(&self, id: WatchId) -> bool {
        let wish = self.watches.get(&id).map(|watch| watch.wish);
        matches!(wish, Some(WatchWish::Persistent | WatchWish::PersistentRecursive))
    }
}

fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |path| parent(path)).skip(1)
}

fn parent(path: &str) -> Option<&str> {
    match path.rsplit_once('/')? {
        ("", "") => None,
        ("", _) => Some("/"),
        (parent, _) => Some(parent),
    }
}

impl fmt::Display for WatchesFull {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "the session has {WATCHES_MAX} watches, the most it may have")
    }
}

impl Error for WatchesFull {}

/// How many bytes of paths one request carries at most, as in Apache's client: far below the frame maximum, so that
/// the server stays free for other clients. A single path may be longer.
pub const RESTORE_BYTES_MAX: usize = 128 * 1024;

fn batches(paths: &BTreeMap<String, PathWatches>, last_zxid: i64, bytes_max: usize) -> Vec<SetWatches> {
    let mut batches = Vec::new();
    let mut batch = SetWatches { relative_zxid: last_zxid, ..SetWatches::default() };
    let mut batch_bytes = 0;
    for family in [Family::Data, Family::Exist, Family::Child, Family::Persistent, Family::Recursive] {
        for path in paths.iter().filter(|(_, on_path)| on_path.has(family)).map(|(path, _)| path) {
            let bytes = size_of::<i32>() + path.len();
            if batch_bytes > 0 && batch_bytes + bytes > bytes_max {
                let next = SetWatches { relative_zxid: last_zxid, ..SetWatches::default() };
                batches.push(std::mem::replace(&mut batch, next));
                batch_bytes = 0;
            }
            batch_bytes += bytes;
            list_of(&mut batch, family).push(path.clone());
        }
    }
    if batch_bytes > 0 {
        batches.push(batch);
    }
    batches
}

const fn list_of(batch: &mut SetWatches, family: Family) -> &mut Vec<String> {
    match family {
        Family::Data => &mut batch.data,
        Family::Exist => &mut batch.exist,
        Family::Child => &mut batch.child,
        Family::Persistent => &mut batch.persistent,
        Family::Recursive => &mut batch.persistent_recursive,
    }
}

/// The kinds of watches a client has, by what ends them and how they are set again.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Family {
    /// One-shot, on the data of a node that was there.
    Data,
    /// One-shot, on a node that was not there.
    Exist,
    /// One-shot, on the set of children.
    Child,
    /// On all of that, until it is removed.
    Persistent,
    /// On the node and all below it, until it is removed.
    Recursive,
}

impl Family {
    /// Whether an event on the watched path itself is for watches of this family, as Apache's client sorts them.
    const fn hears(self, kind: WatchEventKind) -> bool {
        match kind {
            WatchEventKind::NodeCreated | WatchEventKind::NodeDataChanged => !matches!(self, Self::Child),
            WatchEventKind::NodeDeleted => true,
            WatchEventKind::NodeChildrenChanged => matches!(self, Self::Child | Self::Persistent),
            WatchEventKind::None
            | WatchEventKind::DataWatchRemoved
            | WatchEventKind::ChildWatchRemoved
            | WatchEventKind::PersistentWatchRemoved => false,
        }
    }

    const fn is_one_shot(self) -> bool {
        matches!(self, Self::Data | Self::Exist | Self::Child)
    }

    /// Whether a request to remove watches of `kind` ends watches of this family.
    const fn is_of(self, kind: WatcherKind) -> bool {
        match kind {
            WatcherKind::Any => true,
            WatcherKind::Data => matches!(self, Self::Data | Self::Exist),
            WatcherKind::Children => matches!(self, Self::Child),
            WatcherKind::Persistent => matches!(self, Self::Persistent),
            WatcherKind::PersistentRecursive => matches!(self, Self::Recursive),
        }
    }

    /// The kind that asks the server to remove watches of this family.
    ///
    /// For persistent ones that is "any", since ZooKeeper 3.8 has no narrower kind.
    const fn kind(self) -> WatcherKind {
        match self {
            Self::Data | Self::Exist => WatcherKind::Data,
            Self::Child => WatcherKind::Children,
            Self::Persistent | Self::Recursive => WatcherKind::Any,
        }
    }
}

#[derive(Debug, Default)]
struct PathWatches {
    watches: Vec<PathWatch>,
}

/// One watch; without a family until the server has answered.
#[derive(Clone, Copy, Debug)]
struct PathWatch {
    id: WatchId,
    family: Option<Family>,
}

impl PathWatches {
    fn ask(&mut self, id: WatchId) {
        self.watches.push(PathWatch { id, family: None });
    }

    fn set(&mut self, id: WatchId, family: Family) {
        if let Some(watch) = self.watches.iter_mut().find(|watch| watch.id == id) {
            watch.family = Some(family);
        }
    }

    /// Takes a watch out; returns the family it had.
    fn forget(&mut self, id: WatchId) -> Option<Family> {
        let at = self.watches.iter().position(|watch| watch.id == id)?;
        self.watches.remove(at).family
    }

    /// Which kind of watches the server may drop now that one of `family` is gone; `None` while something else on the
    /// path might be hit.
    ///
    /// A server before 3.9 that is asked to remove a one-shot watch removes a persistent one on the path along with it,
    /// and a watch still being asked for may be of any family.
    fn removable_after(&self, family: Family) -> Option<WatcherKind> {
        let kind = family.kind();
        let safe = self.watches.iter().all(|watch| {
            watch.family.is_some_and(|other| other.is_one_shot() && !other.is_of(kind) && kind != WatcherKind::Any)
        });
        safe.then_some(kind)
    }

    /// The watches that an event on this path reaches; one-shot watches among them are taken out.
    fn fire(&mut self, event: WatchEventKind, fired: &mut Vec<WatchId>) {
        self.watches.retain(|watch| {
            let Some(family) = watch.family.filter(|family| family.hears(event)) else {
                return true;
            };
            fired.push(watch.id);
            !family.is_one_shot()
        });
    }

    /// The recursive watches here, which events below also reach.
    fn recursive(&self) -> impl Iterator<Item = WatchId> {
        self.of(Family::Recursive)
    }

    fn remove(&mut self, kind: WatcherKind, removed: &mut Vec<WatchId>) {
        self.watches.retain(|watch| {
            let hit = watch.family.is_some_and(|family| family.is_of(kind));
            if hit {
                removed.push(watch.id);
            }
            !hit
        });
    }

    fn has(&self, family: Family) -> bool {
        self.of(family).next().is_some()
    }

    const fn is_empty(&self) -> bool {
        self.watches.is_empty()
    }

    fn of(&self, family: Family) -> impl Iterator<Item = WatchId> {
        self.watches.iter().filter(move |watch| watch.family == Some(family)).map(|watch| watch.id)
    }
}
