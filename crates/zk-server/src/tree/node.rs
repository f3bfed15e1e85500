//! One node: its data, its children's names, its record, its path and its access list; and the changes that are made of
//! nodes, as the log holds them. Paths are taken apart as Apache does it: by the last slash, without checking the rest.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use lockkeeper_zk_proto::message::{Acl, Stat};

const CONTAINER_OWNER: i64 = i64::MIN;
/// The high byte that marks extended types, of which time to live is the only one.
const EXTENDED_MASK: i64 = 0xff << 56;
/// The bits between the mark and the value: which extended type it is; 0 is time to live.
const EXTENDED_TYPE_MASK: i64 = 0xffff << 40;
/// The largest time to live, in milliseconds: what fits into the field.
pub(crate) const TTL_MS_MAX: i64 = (1 << 40) - 1;

/// What a node's life depends on; one field on disk and in Apache's own files.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum NodeOwner {
    /// On nothing: it lives until it is deleted.
    Nothing,
    Session(i64),
    /// On its children.
    Container,
    /// On its children, or this many milliseconds.
    Ttl(i64),
}

/// A node's own history.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct NodeRecord {
    pub(crate) czxid: i64,
    pub(crate) mzxid: i64,
    pub(crate) pzxid: i64,
    pub(crate) ctime_ms: i64,
    pub(crate) mtime_ms: i64,
    pub(crate) version: i32,
    /// How many children were ever created here: the next sequence number. Clients see creations and deletions
    /// together, which is twice this less the children there are.
    pub(crate) children_created: i32,
    pub(crate) aversion: i32,
    pub(crate) owner: NodeOwner,
}

#[derive(Clone, Debug)]
pub(crate) struct TreeNode {
    pub(crate) data: Option<Bytes>,
    pub(crate) access: AccessList,
    pub(crate) record: NodeRecord,
    pub(crate) children: BTreeSet<Box<str>>,
}

/// All nodes by path. Boxed: half of the map's places are empty ones, and all are moved when it grows.
pub(crate) type NodeMap = HashMap<Box<str>, Box<TreeNode>>;

impl NodeOwner {
    pub(crate) const fn to_field(self) -> i64 {
        match self {
            Self::Nothing => 0,
            Self::Session(session) => session,
            Self::Container => CONTAINER_OWNER,
            Self::Ttl(ttl_ms) => EXTENDED_MASK | ttl_ms,
        }
    }

    /// Reads the field as it is stored; `None` for an unknown extended type.
    pub(crate) const fn from_field(field: i64) -> Option<Self> {
        match field {
            0 => Some(Self::Nothing),
            CONTAINER_OWNER => Some(Self::Container),
            field if field & EXTENDED_MASK == EXTENDED_MASK => match field & EXTENDED_TYPE_MASK {
                0 => Some(Self::Ttl(field & TTL_MS_MAX)),
                _ => None,
            },
            session => Some(Self::Session(session)),
        }
    }
}

impl NodeRecord {
    /// The record of a node made by transaction `zxid`.
    pub(crate) const fn new(zxid: i64, time_ms: i64, owner: NodeOwner) -> Self {
        Self {
            czxid: zxid,
            mzxid: zxid,
            pzxid: zxid,
            ctime_ms: time_ms,
            mtime_ms: time_ms,
            version: 0,
            children_created: 0,
            aversion: 0,
            owner,
        }
    }
}

impl TreeNode {
    /// What clients are told of the node.
    pub(crate) fn stat(&self) -> Stat {
        let record = &self.record;
        let num_children = i32::try_from(self.children.len()).unwrap_or(i32::MAX);
        Stat {
            czxid: record.czxid,
            mzxid: record.mzxid,
            ctime: record.ctime_ms,
            mtime: record.mtime_ms,
            version: record.version,
            cversion: record.children_created.wrapping_mul(2).wrapping_sub(num_children),
            aversion: record.aversion,
            ephemeral_owner: match record.owner {
                NodeOwner::Session(session) => session,
                NodeOwner::Nothing | NodeOwner::Container | NodeOwner::Ttl(_) => 0,
            },
            data_length: i32::try_from(self.data_bytes()).unwrap_or(i32::MAX),
            num_children,
            pzxid: record.pzxid,
        }
    }

    /// The length of the data; null has none.
    pub(crate) fn data_bytes(&self) -> usize {
        self.data.as_ref().map_or(0, Bytes::len)
    }
}

/// One step of a transaction, already found to be allowed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum TreeChange {
    /// Makes a node.
    Create { path: Box<str>, data: Option<Bytes>, access: AccessList, owner: NodeOwner },
    /// Deletes a node that has no children.
    Delete { path: Box<str> },
    /// Sets a node's data and counts its version up.
    SetData { path: Box<str>, data: Option<Bytes> },
    /// Sets a node's access list and counts its access version up.
    SetAccess { path: Box<str>, access: AccessList },
    /// Begins a session.
    OpenSession { session_id: i64, timeout_ms: i32 },
    /// Ends a session; the deletions of its nodes stand before it in the same transaction.
    CloseSession { session_id: i64 },
}

/// Changes that take effect together, in order, under one number.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct TreeTransaction {
    pub(crate) zxid: i64,
    /// The wall time written into the nodes, in milliseconds since 1970.
    pub(crate) time_ms: i64,
    pub(crate) changes: Vec<TreeChange>,
}

/// The root's key. The empty path is another name of the root.
pub(crate) const ROOT: &str = "/";
/// Where the service keeps its own nodes.
pub(crate) const SYSTEM: &str = "/zookeeper";
/// Where limits of subtrees would be kept.
pub(crate) const SYSTEM_QUOTA: &str = "/zookeeper/quota";
/// Where the members of an ensemble would be kept.
pub(crate) const SYSTEM_CONFIG: &str = "/zookeeper/config";

/// Whether the node belongs to the service and can never be deleted.
pub(crate) fn is_system_path(path: &str) -> bool {
    matches!(path, ROOT | SYSTEM | SYSTEM_QUOTA | SYSTEM_CONFIG)
}

/// The parent's key and the name; `None` without a slash.
pub(crate) fn split_parent(path: &str) -> Option<(&str, &str)> {
    let (parent, name) = path.rsplit_once('/')?;
    Some((key(parent), name))
}

/// The key a path is stored under.
pub(crate) const fn key(path: &str) -> &str {
    if path.is_empty() { ROOT } else { path }
}

/// An access list as a node holds it.
pub(crate) type AccessList = Arc<[Acl]>;

/// How many distinct lists are kept before unused ones are looked for; doubles with the lists in use.
const SWEEP_LISTS_MIN: usize = 64;

/// The distinct access lists in use.
#[derive(Debug)]
pub(crate) struct AccessLists {
    lists: HashSet<AccessList>,
    sweep_at: usize,
}

impl Default for AccessLists {
    fn default() -> Self {
        Self { lists: HashSet::new(), sweep_at: SWEEP_LISTS_MIN }
    }
}

impl AccessLists {
    pub(crate) fn share(&mut self, list: Vec<Acl>) -> AccessList {
        if let Some(shared) = self.lists.get(list.as_slice()) {
            return Arc::clone(shared);
        }
        if self.lists.len() >= self.sweep_at {
            self.lists.retain(|shared| Arc::strong_count(shared) > 1);
            self.sweep_at = (self.lists.len() * 2).max(SWEEP_LISTS_MIN);
        }
        let shared: AccessList = list.into();
        self.lists.insert(Arc::clone(&shared));
        shared
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_survive_the_way_to_the_field_and_back() {
        for owner in [
            NodeOwner::Nothing,
            NodeOwner::Session(0x0100_0000_0000_0001),
            NodeOwner::Container,
            NodeOwner::Ttl(1),
            NodeOwner::Ttl(TTL_MS_MAX),
        ] {
            assert_eq!(NodeOwner::from_field(owner.to_field()), Some(owner));
        }
        assert_eq!(NodeOwner::from_field(EXTENDED_MASK | 1 << 40), None);
        assert_eq!(NodeOwner::Ttl(5).to_field(), 0xff00_0000_0000_0005_u64.cast_signed());
    }

    #[test]
    fn equal_lists_are_one_and_unused_ones_are_forgotten() {
        let mut lists = AccessLists::default();
        let first = lists.share(vec![Acl::open()]);
        assert!(Arc::ptr_eq(&first, &lists.share(vec![Acl::open()])));
        for number in 0..10_000 {
            lists.share(vec![Acl::new(Acl::open().permissions, "ip", number.to_string())]);
        }
        assert!(lists.lists.len() <= SWEEP_LISTS_MIN + 1, "{}", lists.lists.len());
        assert!(Arc::ptr_eq(&first, &lists.share(vec![Acl::open()])));
    }
}
