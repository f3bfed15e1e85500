//! All nodes by path, and the indexes over them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::error::Error;
use std::fmt;
use std::ops::ControlFlow;

use bytes::Bytes;
use lockkeeper_zk_proto::message::Acl;

use crate::tree::node::{
    AccessList, AccessLists, NodeMap, NodeOwner, NodeRecord, ROOT, SYSTEM, SYSTEM_CONFIG, SYSTEM_QUOTA, TreeChange,
    TreeNode, key, split_parent,
};
use crate::tree::walk::{Visited, Walk};

/// The estimate of a node's memory besides its path twice and its data, in bytes.
const NODE_BYTES: usize = 256;

/// The nodes of the service.
///
/// The maps in which order could be seen from outside are ordered ones; the hash map of nodes is only looked up,
/// counted and sorted.
#[derive(Debug)]
pub(crate) struct DataTree {
    nodes: NodeMap,
    ephemerals: BTreeMap<i64, BTreeSet<Box<str>>>,
    containers: BTreeSet<Box<str>>,
    ttls: BTreeSet<Box<str>>,
    access_lists: AccessLists,
    /// Paths and data together: the reported figure, as Apache computes it.
    data_bytes: usize,
    /// A snapshot that is being taken: it is told of what changes ahead of it.
    walk: Option<Walk>,
}

/// Says that a change does not fit the tree; for one that was checked before, a broken invariant or a broken log.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ChangeError {
    /// There is no such node, or no such parent.
    Missing,
    /// There is such a node already.
    Exists,
    HasChildren,
}

/// What is needed to take one change back; to be used in the reverse order of the changes.
#[derive(Debug)]
pub(crate) enum Undo {
    /// Nothing was changed here.
    Nothing,
    /// The node is removed again, and the parent's record is restored.
    Created { path: Box<str>, parent: NodeRecord },
    /// The node comes back, and the parent's record is restored.
    Deleted { path: Box<str>, node: Box<TreeNode>, parent: NodeRecord },
    /// The data and the record are restored.
    DataSet { path: Box<str>, data: Option<Bytes>, record: NodeRecord },
    /// The access list and the record are restored.
    AccessSet { path: Box<str>, access: AccessList, record: NodeRecord },
}

impl fmt::Display for ChangeError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Missing => "there is no such node",
            Self::Exists => "the node exists already",
            Self::HasChildren => "the node has children",
        })
    }
}

impl Error for ChangeError {}

impl DataTree {
    /// The tree of a new service: the root and the service's own nodes.
    pub(crate) fn new() -> Self {
        let mut tree = Self::empty();
        let open = tree.share_access(vec![Acl::open()]);
        let readable = tree.share_access(vec![Acl::readable()]);
        for path in [ROOT, SYSTEM, SYSTEM_CONFIG, SYSTEM_QUOTA] {
            let mut record = NodeRecord::new(0, 0, NodeOwner::Nothing);
            let is_config = path == SYSTEM_CONFIG;
            record.aversion = if is_config { -1 } else { 0 };
            let access = if is_config { readable.clone() } else { open.clone() };
            tree.restore(path.into(), Some(Bytes::new()), access, record);
        }
        tree.link_children();
        tree
    }

    /// A tree without even a root, to be filled by [`DataTree::restore`].
    pub(crate) fn empty() -> Self {
        Self {
            nodes: HashMap::new(),
            ephemerals: BTreeMap::new(),
            containers: BTreeSet::new(),
            ttls: BTreeSet::new(),
            access_lists: AccessLists::default(),
            data_bytes: 0,
            walk: None,
        }
    }

    /// Inserts a node as it was saved; [`DataTree::link_children`] makes it its parent's child.
    pub(crate) fn restore(&mut self, path: Box<str>, data: Option<Bytes>, access: AccessList, record: NodeRecord) {
        let node = TreeNode { data, access, record, children: BTreeSet::new() };
        self.insert(path, Box::new(node));
    }

    /// Enters all nodes in their parents; returns the path of one that has no parent.
    pub(crate) fn link_children(&mut self) -> Option<Box<str>> {
        let paths: Vec<Box<str>> = self.nodes.keys().filter(|path| &***path != ROOT).cloned().collect();
        for path in paths {
            let Some((parent, name)) = split_parent(&path) else {
                return Some(path);
            };
            let Some(parent) = self.nodes.get_mut(parent) else {
                return Some(path);
            };
            parent.children.insert(name.into());
        }
        (!self.nodes.contains_key(ROOT)).then(|| ROOT.into())
    }

    pub(crate) fn share_access(&mut self, list: Vec<Acl>) -> AccessList {
        self.access_lists.share(list)
    }

    /// Makes one change. Nothing is changed if it fails.
    pub(crate) fn apply(&mut self, change: &TreeChange, zxid: i64, time_ms: i64) -> Result<Undo, ChangeError> {
        match change {
            TreeChange::Create { path, data, access, owner } => {
                let node = TreeNode {
                    data: data.clone(),
                    access: access.clone(),
                    record: NodeRecord::new(zxid, time_ms, *owner),
                    children: BTreeSet::new(),
                };
                self.create(path, node, zxid)
            }
            TreeChange::Delete { path } => self.delete(path, zxid),
            TreeChange::SetData { path, data } => self.set_data(path, data.as_ref(), zxid, time_ms),
            TreeChange::SetAccess { path, access } => self.set_access(path, access),
            TreeChange::OpenSession { .. } | TreeChange::CloseSession { .. } => Ok(Undo::Nothing),
        }
    }

    /// Takes a change back.
    pub(crate) fn undo(&mut self, undo: Undo) {
        match undo {
            Undo::Nothing => (),
            Undo::Created { path, parent } => {
                self.remove(&path);
                self.unlink(&path, parent);
            }
            Undo::Deleted { path, node, parent } => {
                if let Some((parent_path, name)) = split_parent(&path)
                    && let Some(parent_node) = self.nodes.get_mut(parent_path)
                {
                    parent_node.children.insert(name.into());
                    parent_node.record = parent;
                }
                self.insert(path, node);
            }
            Undo::DataSet { path, data, record } => {
                if let Some(node) = self.nodes.get_mut(&path) {
                    self.data_bytes = self.data_bytes + data.as_ref().map_or(0, Bytes::len) - node.data_bytes();
                    node.data = data;
                    node.record = record;
                }
            }
            Undo::AccessSet { path, access, record } => {
                if let Some(node) = self.nodes.get_mut(&path) {
                    node.access = access;
                    node.record = record;
                }
            }
        }
    }

    /// The node at a path; the empty path is the root.
    pub(crate) fn get(&self, path: &str) -> Option<&TreeNode> {
        self.nodes.get(key(path)).map(|node| &**node)
    }

    /// Has a node count its children from here; returns whether there is such a node.
    pub(crate) fn set_children_created(&mut self, path: &str, count: i32) -> bool {
        let Some(node) = self.nodes.get_mut(key(path)) else {
            return false;
        };
        save(&mut self.walk, key(path), node);
        node.record.children_created = count;
        true
    }

    /// How many nodes there are.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Paths and data together, in bytes.
    pub(crate) const fn data_bytes(&self) -> usize {
        self.data_bytes
    }

    /// The estimated memory of the tree, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.data_bytes * 2 + self.nodes.len() * NODE_BYTES
    }

    /// How many nodes lie below a path, counted as Apache counts them.
    pub(crate) fn descendants_count(&self, path: &str) -> usize {
        if path == ROOT {
            return self.nodes.len() - 1;
        }
        let prefix = format!("{path}/");
        self.nodes.keys().filter(|path| path.starts_with(&prefix)).count()
    }

    /// The nodes of a session, by path.
    pub(crate) fn ephemerals_of(&self, session_id: i64) -> impl Iterator<Item = &str> {
        self.ephemerals.get(&session_id).into_iter().flatten().map(|path| &**path)
    }

    /// All sessions that own nodes, and their nodes.
    pub(crate) const fn ephemerals(&self) -> &BTreeMap<i64, BTreeSet<Box<str>>> {
        &self.ephemerals
    }

    /// The containers and the nodes with a time to live that may go now.
    pub(crate) fn expired_containers(&self, wall_ms: i64) -> Vec<Box<str>> {
        let is_used_up = |path: &str| {
            let node = self.nodes.get(path);
            node.is_some_and(|node| node.children.is_empty() && node.record.children_created > 0)
        };
        let is_overdue = |path: &str| {
            self.nodes.get(path).is_some_and(|node| match node.record.owner {
                NodeOwner::Ttl(ttl_ms) => {
                    node.children.is_empty() && wall_ms.saturating_sub(node.record.mtime_ms) > ttl_ms
                }
                _ => false,
            })
        };
        let containers = self.containers.iter().filter(|path| is_used_up(path));
        containers.chain(self.ttls.iter().filter(|path| is_overdue(path))).cloned().collect()
    }

    /// Whether there are nodes that the service deletes by itself.
    pub(crate) fn has_containers(&self) -> bool {
        !(self.containers.is_empty() && self.ttls.is_empty())
    }

    #[cfg(test)]
    pub(crate) fn sorted(&self) -> Vec<(&str, &TreeNode)> {
        let mut nodes: Vec<_> = self.nodes.iter().map(|(path, node)| (&**path, &**node)).collect();
        nodes.sort_unstable_by_key(|(path, _)| *path);
        nodes
    }

    /// Begins a walk that sees the nodes as they are now, after transaction `zxid`; ends one that is under way.
    pub(crate) fn begin_walk(&mut self, zxid: i64) {
        self.walk = Some(Walk::begin(zxid));
    }

    /// Ends a walk that is under way.
    pub(crate) fn end_walk(&mut self) {
        self.walk = None;
    }

    /// Goes on with a walk; `false` when it is done, or none is under way.
    pub(crate) fn go_on_walking(
        &mut self,
        nodes_max: usize,
        visit: impl FnMut(Visited<'_>) -> ControlFlow<()>,
    ) -> bool {
        let goes_on = self.walk.as_mut().is_some_and(|walk| walk.go_on(&self.nodes, nodes_max, visit));
        if !goes_on {
            self.walk = None;
        }
        goes_on
    }

    fn create(&mut self, path: &str, node: TreeNode, zxid: i64) -> Result<Undo, ChangeError> {
        let (parent_path, name) = split_parent(path).ok_or(ChangeError::Missing)?;
        let parent = self.nodes.get_mut(parent_path).ok_or(ChangeError::Missing)?;
        let before = parent.record;
        if !parent.children.insert(name.into()) {
            return Err(ChangeError::Exists);
        }
        save(&mut self.walk, parent_path, parent);
        // At the largest number the count stands still, and so does the number of the last change: Apache stores a
        // count only if it is greater.
        let created = before.children_created.wrapping_add(1);
        if created > before.children_created {
            parent.record.children_created = created;
            parent.record.pzxid = zxid;
        }
        self.insert(path.into(), Box::new(node));
        Ok(Undo::Created { path: path.into(), parent: before })
    }

    fn delete(&mut self, path: &str, zxid: i64) -> Result<Undo, ChangeError> {
        let (parent_path, name) = split_parent(path).ok_or(ChangeError::Missing)?;
        let node = self.nodes.get(path).ok_or(ChangeError::Missing)?;
        if !node.children.is_empty() {
            return Err(ChangeError::HasChildren);
        }
        save(&mut self.walk, path, node);
        let parent = self.nodes.get_mut(parent_path).ok_or(ChangeError::Missing)?;
        save(&mut self.walk, parent_path, parent);
        let before = parent.record;
        parent.children.remove(name);
        parent.record.pzxid = before.pzxid.max(zxid);
        let node = self.remove(path).ok_or(ChangeError::Missing)?;
        Ok(Undo::Deleted { path: path.into(), node, parent: before })
    }

    fn set_data(&mut self, path: &str, data: Option<&Bytes>, zxid: i64, time_ms: i64) -> Result<Undo, ChangeError> {
        let node = self.nodes.get_mut(key(path)).ok_or(ChangeError::Missing)?;
        save(&mut self.walk, key(path), node);
        self.data_bytes = self.data_bytes + data.map_or(0, Bytes::len) - node.data_bytes();
        let record = node.record;
        let data = std::mem::replace(&mut node.data, data.cloned());
        node.record.version = record.version.wrapping_add(1);
        node.record.mzxid = zxid;
        node.record.mtime_ms = time_ms;
        Ok(Undo::DataSet { path: key(path).into(), data, record })
    }

    fn set_access(&mut self, path: &str, access: &AccessList) -> Result<Undo, ChangeError> {
        let node = self.nodes.get_mut(key(path)).ok_or(ChangeError::Missing)?;
        save(&mut self.walk, key(path), node);
        let record = node.record;
        node.record.aversion = record.aversion.wrapping_add(1);
        let access = std::mem::replace(&mut node.access, access.clone());
        Ok(Undo::AccessSet { path: key(path).into(), access, record })
    }

    fn insert(&mut self, path: Box<str>, node: Box<TreeNode>) {
        match node.record.owner {
            NodeOwner::Nothing => (),
            NodeOwner::Session(session_id) => {
                self.ephemerals.entry(session_id).or_default().insert(path.clone());
            }
            NodeOwner::Container => {
                self.containers.insert(path.clone());
            }
            NodeOwner::Ttl(_) => {
                self.ttls.insert(path.clone());
            }
        }
        self.data_bytes += path.len() + node.data_bytes();
        self.nodes.insert(path, node);
    }

    fn remove(&mut self, path: &str) -> Option<Box<TreeNode>> {
        let node = self.nodes.remove(path)?;
        self.data_bytes -= path.len() + node.data_bytes();
        match node.record.owner {
            NodeOwner::Nothing => (),
            NodeOwner::Session(session_id) => {
                if let Some(paths) = self.ephemerals.get_mut(&session_id) {
                    paths.remove(path);
                    if paths.is_empty() {
                        self.ephemerals.remove(&session_id);
                    }
                }
            }
            NodeOwner::Container => {
                self.containers.remove(path);
            }
            NodeOwner::Ttl(_) => {
                self.ttls.remove(path);
            }
        }
        Some(node)
    }

    fn unlink(&mut self, path: &str, parent_record: NodeRecord) {
        if let Some((parent_path, name)) = split_parent(path)
            && let Some(parent) = self.nodes.get_mut(parent_path)
        {
            parent.children.remove(name);
            parent.record = parent_record;
        }
    }
}

/// Has a snapshot that is being taken save a node as it is, before it changes.
fn save(walk: &mut Option<Walk>, path: &str, node: &TreeNode) {
    if let Some(walk) = walk {
        walk.save(path, node);
    }
}
