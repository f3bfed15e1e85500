//! One node: its data, its children's names and its record.

use std::collections::BTreeSet;

use bytes::Bytes;
use lockkeeper_zk_proto::message::Stat;

use crate::tree::access::AccessList;

/// The owner field of a container.
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
    /// On the session with this id.
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

/// A node.
#[derive(Clone, Debug)]
pub(crate) struct TreeNode {
    pub(crate) data: Option<Bytes>,
    pub(crate) access: AccessList,
    pub(crate) record: NodeRecord,
    pub(crate) children: BTreeSet<Box<str>>,
}

impl NodeOwner {
    /// The field as it is stored.
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
}
