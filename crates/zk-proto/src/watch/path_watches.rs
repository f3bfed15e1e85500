//! The watches on one path.

use crate::message::{EventKind, WatcherKind};
use crate::watch::registry::WatchId;

/// The kinds of watches a client has, by what ends them and how they are set again.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Family {
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
    pub(super) const fn hears(self, kind: EventKind) -> bool {
        match kind {
            EventKind::NodeCreated | EventKind::NodeDataChanged => !matches!(self, Self::Child),
            EventKind::NodeDeleted => true,
            EventKind::NodeChildrenChanged => matches!(self, Self::Child | Self::Persistent),
            EventKind::None
            | EventKind::DataWatchRemoved
            | EventKind::ChildWatchRemoved
            | EventKind::PersistentWatchRemoved => false,
        }
    }

    /// Whether the first event ends the watch.
    pub(super) const fn is_one_shot(self) -> bool {
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

/// The watches on one path, in the order in which they were asked for.
#[derive(Debug, Default)]
pub(super) struct PathWatches {
    watches: Vec<PathWatch>,
}

/// One watch; without a family until the server has answered.
#[derive(Clone, Copy, Debug)]
struct PathWatch {
    id: WatchId,
    family: Option<Family>,
}

impl PathWatches {
    pub(super) fn ask(&mut self, id: WatchId) {
        self.watches.push(PathWatch { id, family: None });
    }

    pub(super) fn set(&mut self, id: WatchId, family: Family) {
        if let Some(watch) = self.watches.iter_mut().find(|watch| watch.id == id) {
            watch.family = Some(family);
        }
    }

    /// Takes a watch out; returns the family it had.
    pub(super) fn forget(&mut self, id: WatchId) -> Option<Family> {
        let at = self.watches.iter().position(|watch| watch.id == id)?;
        self.watches.remove(at).family
    }

    /// Which kind of watches the server may drop now that one of `family` is gone; `None` while something else on the
    /// path might be hit.
    ///
    /// A server before 3.9 that is asked to remove a one-shot watch removes a persistent one on the path along with it,
    /// and a watch still being asked for may be of any family.
    pub(super) fn removable_after(&self, family: Family) -> Option<WatcherKind> {
        let kind = family.kind();
        let safe = self.watches.iter().all(|watch| {
            watch.family.is_some_and(|other| other.is_one_shot() && !other.is_of(kind) && kind != WatcherKind::Any)
        });
        safe.then_some(kind)
    }

    /// The watches that an event on this path reaches; one-shot watches among them are taken out.
    pub(super) fn fire(&mut self, event: EventKind, fired: &mut Vec<WatchId>) {
        self.watches.retain(|watch| {
            let Some(family) = watch.family.filter(|family| family.hears(event)) else {
                return true;
            };
            fired.push(watch.id);
            !family.is_one_shot()
        });
    }

    /// The recursive watches here, which events below also reach.
    pub(super) fn recursive(&self) -> impl Iterator<Item = WatchId> {
        self.of(Family::Recursive)
    }

    /// Takes out the watches of a kind, once the server has removed them.
    pub(super) fn remove(&mut self, kind: WatcherKind, removed: &mut Vec<WatchId>) {
        self.watches.retain(|watch| {
            let hit = watch.family.is_some_and(|family| family.is_of(kind));
            if hit {
                removed.push(watch.id);
            }
            !hit
        });
    }

    pub(super) fn has(&self, family: Family) -> bool {
        self.of(family).next().is_some()
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.watches.is_empty()
    }

    fn of(&self, family: Family) -> impl Iterator<Item = WatchId> {
        self.watches.iter().filter(move |watch| watch.family == Some(family)).map(|watch| watch.id)
    }
}
