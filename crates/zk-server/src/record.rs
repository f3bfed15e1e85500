//! The written form of the state and its changes: the bytes of log records and snapshots.
//!
//! What a file is, when it is flushed and how a torn one is handled is the matter of `storage`.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use lockkeeper_zk_proto::jute::{DecodeError, DecodeErrorKind, Reader, Writer};
use lockkeeper_zk_proto::message::Acl;
use lockkeeper_zk_proto::time::Timestamp;

use crate::machine::ServerState;
use crate::session::SessionTable;
use crate::tree::{DataTree, NodeOwner, NodeRecord, TreeChange, TreeTransaction, Visited};

/// The fewest bytes a change takes: its kind and a number.
const CHANGE_BYTES_MIN: usize = 8;

const CREATE: i32 = 1;
const DELETE: i32 = 2;
const SET_DATA: i32 = 3;
const SET_ACCESS: i32 = 4;
const OPEN_SESSION: i32 = 5;
const CLOSE_SESSION: i32 = 6;

pub(crate) fn encode_transaction(transaction: &TreeTransaction) -> Bytes {
    let mut writer = Writer::new();
    writer.i64(transaction.zxid);
    writer.i64(transaction.time_ms);
    writer.vector(&transaction.changes, encode_change);
    writer.into_bytes().freeze()
}

/// Reads a transaction; access lists are shared with those of `tree`.
/// Fails on bytes that [`encode_transaction`] would not have written.
pub(crate) fn decode_transaction(bytes: Bytes, tree: &mut DataTree) -> Result<TreeTransaction, DecodeError> {
    let mut reader = Reader::new(bytes);
    let transaction = TreeTransaction {
        zxid: reader.i64("zxid")?,
        time_ms: reader.i64("time")?,
        changes: reader.vector("changes", CHANGE_BYTES_MIN, |reader| decode_change(reader, tree))?,
    };
    match reader.left() {
        0 => Ok(transaction),
        _ => Err(reader.error(DecodeErrorKind::UnknownValue(0), "end of record")),
    }
}

pub(super) fn decode_owner(reader: &mut Reader) -> Result<NodeOwner, DecodeError> {
    let unknown = reader.error(DecodeErrorKind::UnknownValue(0), "owner");
    NodeOwner::from_field(reader.i64("owner")?).ok_or(unknown)
}

fn encode_change(writer: &mut Writer, change: &TreeChange) {
    match change {
        TreeChange::Create { path, data, access, owner } => {
            writer.i32(CREATE);
            writer.string(path);
            writer.buffer(data.as_deref());
            Acl::encode_list(access, writer);
            writer.i64(owner.to_field());
        }
        TreeChange::Delete { path } => {
            writer.i32(DELETE);
            writer.string(path);
        }
        TreeChange::SetData { path, data } => {
            writer.i32(SET_DATA);
            writer.string(path);
            writer.buffer(data.as_deref());
        }
        TreeChange::SetAccess { path, access } => {
            writer.i32(SET_ACCESS);
            writer.string(path);
            Acl::encode_list(access, writer);
        }
        TreeChange::OpenSession { session_id, timeout_ms } => {
            writer.i32(OPEN_SESSION);
            writer.i64(*session_id);
            writer.i32(*timeout_ms);
        }
        TreeChange::CloseSession { session_id } => {
            writer.i32(CLOSE_SESSION);
            writer.i64(*session_id);
        }
    }
}

fn decode_change(reader: &mut Reader, tree: &mut DataTree) -> Result<TreeChange, DecodeError> {
    let start = reader.position();
    Ok(match reader.i32("change")? {
        CREATE => TreeChange::Create {
            path: reader.string("path")?.into(),
            data: decode_data(reader)?,
            access: tree.share_access(Acl::decode_list(reader)?),
            owner: decode_owner(reader)?,
        },
        DELETE => TreeChange::Delete { path: reader.string("path")?.into() },
        SET_DATA => TreeChange::SetData { path: reader.string("path")?.into(), data: decode_data(reader)? },
        SET_ACCESS => TreeChange::SetAccess {
            path: reader.string("path")?.into(),
            access: tree.share_access(Acl::decode_list(reader)?),
        },
        OPEN_SESSION => {
            TreeChange::OpenSession { session_id: reader.i64("session")?, timeout_ms: reader.i32("timeout")? }
        }
        CLOSE_SESSION => TreeChange::CloseSession { session_id: reader.i64("session")? },
        kind => {
            return Err(DecodeError::new(DecodeErrorKind::UnknownValue(kind), "change", start));
        }
    })
}

/// Reads data as a separate copy: a slice would keep the whole file in memory.
pub(super) fn decode_data(reader: &mut Reader) -> Result<Option<Bytes>, DecodeError> {
    Ok(reader.buffer("data")?.map(|data| Bytes::copy_from_slice(&data)))
}

/// The fewest bytes a session takes.
const SESSION_BYTES_MIN: usize = 12;
/// The fewest bytes a node takes.
const NODE_BYTES_MIN: usize = 72;

/// Says why a snapshot is not valid.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum SnapshotError {
    /// It cannot be read.
    Unreadable(DecodeError),
    /// A node has no parent.
    Orphan(Box<str>),
    /// The secret has the wrong length.
    Secret,
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(error) => write!(formatter, "the snapshot cannot be read: {error}"),
            Self::Orphan(path) => write!(formatter, "the snapshot has the node {path} without its parent"),
            Self::Secret => formatter.write_str("the snapshot's secret has the wrong length"),
        }
    }
}

impl Error for SnapshotError {}

impl From<DecodeError> for SnapshotError {
    fn from(error: DecodeError) -> Self {
        Self::Unreadable(error)
    }
}

/// Writes what comes before the nodes, and how many of them there are.
pub(crate) fn encode_head(state: &ServerState) -> Bytes {
    let mut writer = Writer::new();
    writer.i64(state.zxid);
    writer.buffer(Some(state.sessions.secret()));
    let sessions: Vec<_> = state.sessions.iter().collect();
    writer.vector(&sessions, |writer, (id, session)| {
        writer.i64(*id);
        writer.i32(session.timeout_ms);
    });
    writer.i32(i32::try_from(state.tree.len()).unwrap_or(i32::MAX));
    writer.into_bytes().freeze()
}

/// Writes a node; all of them follow the head, in any order.
pub(crate) fn encode_node(writer: &mut Writer, node: Visited<'_>) {
    let Visited { path, data, access, record } = node;
    writer.string(path);
    writer.buffer(data.map(|data| &**data));
    Acl::encode_list(access, writer);
    writer.i64(record.czxid);
    writer.i64(record.mzxid);
    writer.i64(record.pzxid);
    writer.i64(record.ctime_ms);
    writer.i64(record.mtime_ms);
    writer.i32(record.version);
    writer.i32(record.children_created);
    writer.i32(record.aversion);
    writer.i64(record.owner.to_field());
}

/// Writes the state at once, its nodes by path: equal states give equal bytes.
#[cfg(test)]
pub(crate) fn encode_state(state: &ServerState) -> Bytes {
    let mut writer = Writer::new();
    for (path, node) in state.tree.sorted() {
        let (data, access, record) = (node.data.as_ref(), &node.access, &node.record);
        encode_node(&mut writer, Visited { path, data, access, record });
    }
    [&*encode_head(state), &*writer.into_bytes()].concat().into()
}

/// Reads a state. The sessions in it have yet to get their time.
/// Fails on bytes that [`encode_head`] and [`encode_node`] would not have written.
pub(crate) fn decode_state(bytes: Bytes, tick: Duration) -> Result<ServerState, SnapshotError> {
    let mut reader = Reader::new(bytes);
    let zxid = reader.i64("zxid")?;
    let secret = reader.buffer("secret")?.unwrap_or_default();
    let secret = <[u8; 32]>::try_from(&*secret).map_err(|_| SnapshotError::Secret)?;
    let mut sessions = SessionTable::new(tick, 0, secret);
    reader.vector("sessions", SESSION_BYTES_MIN, |reader| {
        sessions.open(reader.i64("session")?, reader.i32("timeout")?, Timestamp::ZERO);
        Ok(())
    })?;
    let mut tree = DataTree::empty();
    reader.vector("nodes", NODE_BYTES_MIN, |reader| decode_node(reader, &mut tree))?;
    match tree.link_children() {
        Some(orphan) => Err(SnapshotError::Orphan(orphan)),
        None => Ok(ServerState { tree, sessions, zxid }),
    }
}

fn decode_node(reader: &mut Reader, tree: &mut DataTree) -> Result<(), DecodeError> {
    let path = reader.string("path")?;
    let data = decode_data(reader)?;
    let access = tree.share_access(Acl::decode_list(reader)?);
    let record = NodeRecord {
        czxid: reader.i64("czxid")?,
        mzxid: reader.i64("mzxid")?,
        pzxid: reader.i64("pzxid")?,
        ctime_ms: reader.i64("ctime")?,
        mtime_ms: reader.i64("mtime")?,
        version: reader.i32("version")?,
        children_created: reader.i32("children created")?,
        aversion: reader.i32("aversion")?,
        owner: decode_owner(reader)?,
    };
    tree.restore(path.into(), data, access, record);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::machine::Seed;

    use super::*;

    fn every_change(tree: &mut DataTree) -> Vec<TreeChange> {
        let access = tree.share_access(vec![Acl::open(), Acl::creator()]);
        vec![
            TreeChange::OpenSession { session_id: 7, timeout_ms: 4_000 },
            TreeChange::Create {
                path: "/a".into(),
                data: Some(Bytes::from_static(b"x")),
                access: access.clone(),
                owner: NodeOwner::Session(7),
            },
            TreeChange::SetData { path: "/a".into(), data: None },
            TreeChange::SetAccess { path: "/a".into(), access },
            TreeChange::Delete { path: "/a".into() },
            TreeChange::CloseSession { session_id: 7 },
        ]
    }

    #[test]
    fn a_transaction_survives_the_way_to_the_record_and_back() {
        let mut tree = DataTree::new();
        let transaction = TreeTransaction { zxid: 9, time_ms: 11, changes: every_change(&mut tree) };
        let bytes = encode_transaction(&transaction);
        assert_eq!(decode_transaction(bytes.clone(), &mut tree).unwrap(), transaction);
        for length in 0..bytes.len() {
            assert!(decode_transaction(bytes.slice(..length), &mut tree).is_err(), "{length}");
        }
    }

    const TICK: Duration = Duration::from_secs(2);

    #[test]
    fn a_snapshot_cut_anywhere_is_refused() {
        let whole = encode_state(&ServerState::new(TICK, Seed { secret: [5; 32], wall_ms: 0 }));
        for length in 0..whole.len() {
            assert!(decode_state(whole.slice(..length), TICK).is_err(), "cut at {length}");
        }
        assert!(decode_state(whole, TICK).is_ok());
    }
}
