//! The known state of all locks of a scope. Pure: an event that comes twice changes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lockkeeper_core::{Contender, ContenderInfo, LockSnapshot, Mode, PassedBetween, QueueName};

use crate::layout::{KAZOO_WAITERS, Layout, bare_ticket};
use crate::lock::follow::path_scheme::{ContenderNode, LockSite, PathScheme};
use crate::lock::queue_data::QueueData;
use crate::lock::shown::{ChildGroup, ContenderReading, show};

/// The content of a site's node, where its name does not say all.
#[derive(Debug)]
enum SiteIdentity {
    /// It is this lock, whose name is too long for a node.
    Lock(QueueName),
    /// This user may not read it, so no look shows what stands below it.
    Closed,
}

/// The contenders of a lock by their nodes' names, group by group.
type ChildGroups = BTreeMap<ChildGroup, BTreeMap<String, ContenderReading>>;

#[derive(Debug)]
pub(super) struct NodeModel {
    scheme: Arc<PathScheme>,
    known: BTreeMap<LockSite, SiteIdentity>,
    locks: BTreeMap<QueueName, ChildGroups>,
    changed: BTreeSet<QueueName>,
    /// How many contenders came and went before they could be read. Their nodes held who they were.
    passed: BTreeMap<QueueName, u64>,
    /// Whether some node might not be read.
    has_refusals: bool,
}

impl NodeModel {
    pub(super) fn new(scheme: Arc<PathScheme>) -> Self {
        let (known, locks) = (BTreeMap::new(), BTreeMap::new());
        Self { scheme, known, locks, changed: BTreeSet::new(), passed: BTreeMap::new(), has_refusals: false }
    }

    pub(super) fn scheme(&self) -> &Arc<PathScheme> {
        &self.scheme
    }

    /// The lock whose contenders stand at a site, if it is followed and may be read.
    pub(super) fn lock_of(&self, site: &LockSite) -> Option<QueueName> {
        match (self.known.get(site), site) {
            (Some(SiteIdentity::Closed), _) => None,
            (Some(SiteIdentity::Lock(lock)), _) => Some(lock.clone()).filter(|lock| self.scheme.covers(lock)),
            (None, LockSite::At(lock)) => Some(lock.clone()),
            (None, LockSite::Below(node)) => {
                QueueName::decode(self.scheme.layout().own_node(node)).filter(|lock| self.scheme.covers(lock))
            }
        }
    }

    /// Tells whether only the data of a site's node says which lock it is.
    pub(super) fn is_named_by_its_data(&self, site: &LockSite) -> bool {
        matches!(site, LockSite::Below(node) if QueueName::is_digest(self.scheme.layout().own_node(node)))
    }

    /// The contender that a node is by its name; `None` if it is none, or not one of a lock that is followed.
    pub(super) fn contender_at(&self, contender_node: &ContenderNode) -> Option<Contender> {
        self.lock_of(&contender_node.site)?;
        contender_node.group.contenders(&[&contender_node.name], self.scheme.layout()).pop()
    }

    /// Takes in the data of a site's node; tells whether it is now known to be a lock that is followed, and was not
    /// before, so that its contenders must be listed.
    pub(super) fn open(&mut self, site: &LockSite, data: &[u8]) -> bool {
        let before = self.lock_of(site);
        self.known.remove(site);
        if let (true, LockSite::Below(node)) = (self.is_named_by_its_data(site), site)
            && let Some(lock) = QueueData::read(data).name(self.scheme.layout().own_node(node))
        {
            self.known.insert(site.clone(), SiteIdentity::Lock(lock));
        }
        let now = self.lock_of(site);
        if now == before {
            return false;
        }
        if let Some(before) = before {
            self.empty(&before, site);
        }
        now.is_some()
    }

    pub(super) fn close(&mut self, site: &LockSite) {
        if let Some(lock) = self.lock_of(site) {
            self.empty(&lock, site);
        }
        self.known.insert(site.clone(), SiteIdentity::Closed);
        self.has_refusals = true;
    }

    pub(super) fn forget(&mut self, site: &LockSite) {
        if let Some(lock) = self.lock_of(site) {
            self.empty(&lock, site);
        }
        self.known.remove(site);
    }

    /// Removes the contenders that stand at a site.
    fn empty(&mut self, lock: &QueueName, site: &LockSite) {
        let is_beside = self.scheme.groups(site) == [ChildGroup::Beside];
        let Some(groups) = self.locks.get_mut(lock) else {
            return;
        };
        let before = groups.len();
        groups.retain(|&group, _| (group == ChildGroup::Beside) != is_beside);
        if groups.len() < before {
            self.changed.insert(lock.clone());
        }
        if groups.is_empty() {
            self.locks.remove(lock);
        }
        self.note_gate(lock);
    }

    pub(super) fn put(&mut self, contender_node: &ContenderNode, found: ContenderReading) {
        let Some(lock) = self.lock_of(&contender_node.site) else {
            return;
        };
        self.has_refusals |= found == ContenderReading::Refused;
        let group = self.locks.entry(lock.clone()).or_default().entry(contender_node.group).or_default();
        if group.get(&contender_node.name) != Some(&found) {
            group.insert(contender_node.name.clone(), found);
            self.note_gate(&lock);
            self.changed.insert(lock);
        }
    }

    /// Takes in that a contender came and went since its lock was told of.
    pub(super) fn pass(&mut self, contender_node: &ContenderNode) {
        let Some(lock) = self.lock_of(&contender_node.site) else {
            return;
        };
        // Who waits at a semaphore's gate holds nothing there.
        let may_hold = |contender: Contender| contender.mode != Mode::Acquire;
        if !self.remove(contender_node) && self.contender_at(contender_node).is_some_and(may_hold) {
            *self.passed.entry(lock.clone()).or_default() += 1;
            self.changed.insert(lock);
        }
    }

    /// Removes a contender; tells whether it was known.
    pub(super) fn remove(&mut self, contender_node: &ContenderNode) -> bool {
        let Some(lock) = self.lock_of(&contender_node.site) else {
            return false;
        };
        let Some(groups) = self.locks.get_mut(&lock) else {
            return false;
        };
        let Some(group) = groups.get_mut(&contender_node.group) else {
            return false;
        };
        if group.remove(&contender_node.name).is_none() {
            return false;
        }
        if group.is_empty() {
            groups.remove(&contender_node.group);
        }
        if groups.is_empty() {
            self.locks.remove(&lock);
        }
        self.note_gate(&lock);
        self.changed.insert(lock);
        true
    }

    /// Notes that the waiters of kazoo's semaphore have changed, if this lock is the gate of one. Below the base it is
    /// a separate lock too where locks are laid out as Curator's.
    fn note_gate(&mut self, gate: &QueueName) {
        let semaphore = gate.as_str().strip_suffix(KAZOO_WAITERS).and_then(|name| QueueName::new(name).ok());
        if let Some(semaphore) = semaphore.filter(|semaphore| self.locks.get(semaphore).is_some_and(has_kazoos_permits))
        {
            self.changed.insert(semaphore);
        }
    }

    /// Whether this user might not read some node since all was read. Servers do not tell of each of those.
    pub(super) const fn has_refusals(&self) -> bool {
        self.has_refusals
    }

    pub(super) fn all(&mut self) -> Vec<LockSnapshot> {
        self.changed.clear();
        self.passed.clear();
        self.locks.keys().map(|lock| self.now(lock)).filter(|now| !now.contenders.is_empty()).collect()
    }

    pub(super) fn take_changed(&mut self) -> Vec<LockSnapshot> {
        let mut passed = std::mem::take(&mut self.passed);
        let mut between = |lock| passed.remove(lock).map(PassedBetween::counted).unwrap_or_default();
        std::mem::take(&mut self.changed).iter().map(|lock| self.now(lock).after(between(lock))).collect()
    }

    /// Replaces the known state by that of another look.
    pub(super) fn renew(&mut self, newer: Self) {
        let names: BTreeSet<_> = self.locks.keys().chain(newer.locks.keys()).cloned().collect();
        let differs = |lock: &QueueName| self.locks.get(lock) != newer.locks.get(lock);
        let mut changed: BTreeSet<_> = names.into_iter().filter(differs).collect();
        changed.append(&mut self.changed);
        let passed = std::mem::take(&mut self.passed);
        *self = Self { changed, passed, ..newer };
        for lock in self.changed.clone() {
            self.note_gate(&lock);
        }
    }

    fn now(&self, lock: &QueueName) -> LockSnapshot {
        let groups = self.locks.get(lock);
        // What stands beside a lock waits for its permits only where there are some, or all locks are kazoo's.
        let is_kazoos = self.scheme.layout() == Layout::Kazoo || groups.is_some_and(has_kazoos_permits);
        let mut contenders = Vec::new();
        for (&group, nodes) in groups.into_iter().flatten() {
            if group != ChildGroup::Beside || is_kazoos {
                contenders.append(&mut self.contenders(group, nodes));
            }
        }
        if is_kazoos && self.scheme.layout() == Layout::Curator {
            contenders.extend(self.at_kazoos_gate(lock));
        }
        LockSnapshot::new(lock.clone(), contenders)
    }

    /// The waiters of kazoo's semaphore below the base, which stand in another lock's line where locks are laid out as
    /// Curator's.
    fn at_kazoos_gate(&self, semaphore: &QueueName) -> Vec<Arc<ContenderInfo>> {
        let gate = QueueName::new(&format!("{}{KAZOO_WAITERS}", semaphore.as_str()));
        let groups = gate.ok().and_then(|gate| self.locks.get(&gate));
        let mut waiters = groups.and_then(|groups| groups.get(&ChildGroup::Line)).map_or_else(Vec::new, |line| {
            let line = line.iter().filter(|(name, _)| bare_ticket(name).is_none());
            self.contenders(ChildGroup::Beside, &line.map(|(name, found)| (name.clone(), found.clone())).collect())
        });
        for waiter in &mut waiters {
            Arc::make_mut(waiter).mode = Mode::Acquire;
        }
        waiters
    }

    fn contenders(&self, group: ChildGroup, nodes: &BTreeMap<String, ContenderReading>) -> Vec<Arc<ContenderInfo>> {
        // Most often there is one, which needs no order.
        if let (1, Some(ContenderReading::Read(alone))) = (nodes.len(), nodes.values().next()) {
            return vec![alone.clone()];
        }
        let names: Vec<_> = nodes.keys().collect();
        let contenders = group.contenders(&names, self.scheme.layout()).into_iter();
        let found = contenders.filter_map(|contender| {
            let found = nodes.get(contender.id.as_str())?.clone();
            Some((contender, found))
        });
        show(found.collect())
    }
}

/// Tells whether permits of kazoo's semaphore stand in the line of a lock.
fn has_kazoos_permits(groups: &ChildGroups) -> bool {
    groups.get(&ChildGroup::Line).is_some_and(|line| line.keys().any(|name| bare_ticket(name).is_some()))
}

#[cfg(test)]
mod tests {
    use lockkeeper_core::{ContenderId, Mode, Scope};
    use lockkeeper_zk_proto::path::Chroot;

    use super::*;
    use crate::config::Config;
    use crate::lock::follow::path_scheme::NodeRole;

    fn model(url: &str) -> NodeModel {
        let config = Config::from_url(&url.parse().unwrap()).unwrap();
        let scheme = PathScheme::new(&config, &Chroot::new(config.chroot.clone()), &Scope::default());
        NodeModel::new(Arc::new(scheme.unwrap()))
    }

    fn contender_node(model: &NodeModel, path: &str) -> ContenderNode {
        match model.scheme().places(&format!("/lockkeeper/{path}")).pop() {
            Some(NodeRole::ContenderNode(contender_node)) => contender_node,
            other => panic!("{other:?}"),
        }
    }

    fn put(model: &mut NodeModel, path: &str) {
        let contender_node = contender_node(model, path);
        let contender = model.contender_at(&contender_node).expect("a contender");
        let info = ContenderInfo::new(contender.id, contender.mode);
        model.put(&contender_node, ContenderReading::Read(Arc::new(info)));
    }

    fn shown(locks: &[LockSnapshot]) -> Vec<String> {
        let ids =
            |infos: &[Arc<ContenderInfo>]| infos.iter().map(|info| info.id.to_string()).collect::<Vec<_>>().join(" ");
        locks.iter().map(|now| format!("{}: {}", now.lock.as_str(), ids(&now.contenders))).collect()
    }

    #[test]
    fn what_is_told_twice_changes_nothing_and_what_goes_leaves_nothing() {
        let mut model = model("zk://h");
        for path in ["a/lock-0000000002", "a/lock-0000000001", "b/leases/any", "b/locks/lock-0000000001"] {
            put(&mut model, path);
        }
        let expected = ["a: lock-0000000001 lock-0000000002", "b: any lock-0000000001"];
        assert_eq!(shown(&model.take_changed()), expected);
        put(&mut model, "a/lock-0000000001");
        model.remove(&contender_node(&model, "a/lock-0000000003"));
        model.remove(&contender_node(&model, "c/lock-0000000001"));
        assert!(model.take_changed().is_empty());
        model.remove(&contender_node(&model, "b/leases/any"));
        model.remove(&contender_node(&model, "a/lock-0000000002"));
        model.remove(&contender_node(&model, "a/lock-0000000001"));
        assert_eq!(shown(&model.take_changed()), ["a: ", "b: lock-0000000001"]);
        assert_eq!(model.locks.len(), 1);
    }

    #[test]
    fn who_came_and_went_before_it_was_read_is_counted_once_and_who_was_read_is_not() {
        let mut model = model("zk://h");
        put(&mut model, "a/lock-0000000001");
        model.all();
        let nodes =
            ["a/lock-0000000001", "a/lock-0000000002", "a/lock-0000000003", "a/locks/lock-0000000001", "a/junk"];
        let nodes = nodes.map(|path| contender_node(&model, path));
        nodes.iter().for_each(|node| model.pass(node));
        let changed = model.take_changed();
        assert_eq!((shown(&changed), changed[0].between.more), (vec!["a: ".to_owned()], 2));
        model.remove(&nodes[1]);
        assert!(model.take_changed().is_empty());
    }

    #[test]
    fn nodes_that_are_no_contenders_or_of_no_lock_are_none() {
        let mut model = model("zk://h?layout=kazoo");
        for (path, is_one) in [
            ("a/lock-0000000001", true),
            ("a/seq-0000000001", true),
            ("a/0123456789abcdef0123456789abcdef", true),
            ("a/junk", false),
            ("a/leases", false),
            ("a/leases/junk", true),
            ("a-__lock__/0123456789abcdef0123456789abcdef__lock__0000000001", true),
            ("a-__lock__/junk", false),
            ("%zz/lock-0000000001", false),
        ] {
            assert_eq!(model.contender_at(&contender_node(&model, path)).is_some(), is_one, "{path}");
        }
        put(&mut model, "a/lock-0000000001");
        put(&mut model, "a-__lock__/x__lock__0000000001");
        assert_eq!(shown(&model.all()), ["a: lock-0000000001 x__lock__0000000001"], "both nodes are of one lock");
        model.forget(&LockSite::Below("a-__lock__".to_owned()));
        assert_eq!(shown(&model.take_changed()), ["a: lock-0000000001"]);
    }

    #[test]
    fn kazoos_semaphore_is_shown_with_its_waiters_where_locks_are_curators_too() {
        let mut model = model("zk://h");
        let permit = "a/0123456789abcdef0123456789abcdef";
        put(&mut model, "a-__lock__/x__lock__0000000001");
        assert_eq!(shown(&model.take_changed()), ["a-__lock__: x__lock__0000000001"]);
        put(&mut model, permit);
        let now = model.take_changed();
        assert_eq!(shown(&now), ["a: 0123456789abcdef0123456789abcdef x__lock__0000000001"]);
        assert_eq!(now[0].contenders.iter().map(|info| info.mode).collect::<Vec<_>>(), [Mode::Permit, Mode::Acquire]);
        put(&mut model, "a-__lock__/x__lock__0000000002");
        let now = model.take_changed();
        assert_eq!((now.len(), now[0].contenders.len()), (2, 3), "both are told: {:?}", shown(&now));
        model.remove(&contender_node(&model, "a-__lock__/x__lock__0000000001"));
        assert_eq!(shown(&model.take_changed())[0], "a: 0123456789abcdef0123456789abcdef x__lock__0000000002");
        model.remove(&contender_node(&model, permit));
        assert_eq!(shown(&model.take_changed()), ["a: "]);
    }

    #[test]
    fn a_lock_that_may_not_be_read_is_not_shown_until_it_may() {
        let mut model = model("zk://h");
        let site = LockSite::Below("a".to_owned());
        assert!(!model.open(&site, b""), "its name says all, so that nothing was missed");
        put(&mut model, "a/lock-0000000001");
        assert!(!model.has_refusals());
        model.close(&site);
        assert!(model.has_refusals() && model.lock_of(&site).is_none());
        assert_eq!(shown(&model.take_changed()), ["a: "]);
        assert!(model.open(&site, b""), "its contenders must be listed");
        let refused = contender_node(&model, "a/lock-0000000002");
        model.put(&refused, ContenderReading::Refused);
        let now = model.take_changed();
        assert_eq!(*now[0].contenders[0], ContenderInfo::new(ContenderId::new("lock-0000000002"), Mode::Mutex));
    }

    #[test]
    fn of_another_look_only_what_differs_is_told() {
        let (mut old, mut new) = (model("zk://h"), model("zk://h"));
        for path in ["a/lock-0000000001", "b/lock-0000000001"] {
            put(&mut old, path);
        }
        old.all();
        for path in ["b/lock-0000000001", "c/lock-0000000001"] {
            put(&mut new, path);
        }
        old.renew(new);
        assert_eq!(shown(&old.take_changed()), ["a: ", "c: lock-0000000001"]);
    }
}
