//! Transactions as records, in jute like everything else here.

use bytes::Bytes;
use lockkeeper_zk_proto::jute::{DecodeError, DecodeErrorKind, Reader, Writer};
use lockkeeper_zk_proto::message::Acl;

use crate::tree::{DataTree, NodeOwner, TreeChange, TreeTransaction};

/// The fewest bytes a change takes: its kind and a number.
const CHANGE_BYTES_MIN: usize = 8;

const CREATE: i32 = 1;
const DELETE: i32 = 2;
const SET_DATA: i32 = 3;
const SET_ACCESS: i32 = 4;
const OPEN_SESSION: i32 = 5;
const CLOSE_SESSION: i32 = 6;

/// Writes a transaction.
pub(crate) fn encode_transaction(transaction: &TreeTransaction) -> Bytes {
    let mut writer = Writer::new();
    writer.i64(transaction.zxid);
    writer.i64(transaction.time_ms);
    writer.vector(&transaction.changes, encode_change);
    writer.into_bytes().freeze()
}

/// Reads a transaction; access lists are shared with those of `tree`.
///
/// # Errors
///
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

/// Reads the owner of a node.
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

#[cfg(test)]
mod tests {
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
}
