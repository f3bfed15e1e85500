//! The changes a transaction is made of: what the log holds and what is applied again after a restart.

use bytes::Bytes;

use crate::tree::access::AccessList;
use crate::tree::node::NodeOwner;

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
