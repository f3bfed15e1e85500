//! The whole state as one record.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use lockkeeper_zk_proto::jute::{DecodeError, Reader, Writer};
use lockkeeper_zk_proto::message::Acl;
use lockkeeper_zk_proto::time::Timestamp;

use crate::machine::ServerState;
use crate::record::transaction::{decode_data, decode_owner};
use crate::session::SessionTable;
use crate::tree::{DataTree, NodeRecord, Visited};

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
///
/// # Errors
///
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
    use super::*;
    use crate::machine::Seed;

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
