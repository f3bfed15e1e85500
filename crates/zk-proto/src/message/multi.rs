//! Transactions of several operations, and several reads in one request.
//!
//! On the wire each operation has its own header, and a header that says "done" ends the list. A list has no count, so
//! its length is bounded by the frame's.

use bytes::Bytes;

use crate::jute::{DecodeError, DecodeErrorKind, Reader, Writer};
use crate::message::error_code::ErrorCode;
use crate::message::node::{Create, Stat};
use crate::message::opcode::OpCode;

/// The operation code of the header that ends a list, and of a failed operation's result.
const NO_OPERATION: i32 = -1;

/// One operation of a transaction: all take effect, or none does.
#[derive(Clone, Debug, Eq, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "the server performs every one")]
#[expect(missing_docs, reason = "the variants' fields carry the protocol's own names")]
pub enum MultiOperation {
    /// Creates a node; the result holds its path.
    Create(Create),
    /// Creates a node; the result holds its path and Stat, but from servers before 3.7.2, 3.8.2 and 3.9.0 it is a
    /// [`MultiResult::Create`] without one (ZOOKEEPER-4026).
    Create2(Create),
    /// Creates a container.
    CreateContainer(Create),
    /// Creates a node with a time to live.
    CreateTtl { create: Create, ttl_ms: i64 },
    /// Deletes a node.
    Delete { path: String, version: i32 },
    /// Sets a node's data.
    SetData { path: String, data: Option<Bytes>, version: i32 },
    /// Fails the transaction unless the node exists with this version.
    Check { path: String, version: i32 },
}

/// One read of several in a request; each succeeds or fails by itself.
#[derive(Clone, Debug, Eq, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "the server performs every one")]
#[expect(missing_docs, reason = "the variants' fields carry the protocol's own names")]
pub enum MultiReadOperation {
    /// Reads a node's data.
    GetData { path: String },
    /// Lists a node's children.
    GetChildren { path: String },
}

/// What became of one operation of a multi or multiRead.
#[derive(Clone, Debug, Eq, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "a client reads every one")]
#[expect(missing_docs, reason = "the variants' fields carry the protocol's own names")]
pub enum MultiResult {
    /// Created; the path it has. Older servers answer a [`MultiOperation::Create2`] so too.
    Create { path: String },
    /// Created; the path it has, and a Stat. Answers containers and nodes with a time to live too.
    Create2 { path: String, stat: Stat },
    /// Deleted.
    Delete,
    /// Set.
    SetData { stat: Stat },
    /// Checked.
    Check,
    /// Listed.
    GetChildren { children: Vec<String> },
    /// Read.
    GetData { data: Option<Bytes>, stat: Stat },
    /// Not done.
    ///
    /// In a failed transaction the operation to blame has its own code, those before it have `Ok`, and those after it
    /// [`ErrorCode::RuntimeInconsistency`].
    Error(ErrorCode),
}

impl MultiOperation {
    const fn opcode(&self) -> OpCode {
        match self {
            Self::Create(_) => OpCode::Create,
            Self::Create2(_) => OpCode::Create2,
            Self::CreateContainer(_) => OpCode::CreateContainer,
            Self::CreateTtl { .. } => OpCode::CreateTtl,
            Self::Delete { .. } => OpCode::Delete,
            Self::SetData { .. } => OpCode::SetData,
            Self::Check { .. } => OpCode::Check,
        }
    }

    pub(crate) fn encode_list(list: &[Self], writer: &mut Writer) {
        for operation in list {
            put_header(writer, operation.opcode().code(), -1);
            match operation {
                Self::Create(create) | Self::Create2(create) | Self::CreateContainer(create) => create.encode(writer),
                Self::CreateTtl { create, ttl_ms } => {
                    create.encode(writer);
                    writer.i64(*ttl_ms);
                }
                Self::Delete { path, version } | Self::Check { path, version } => {
                    writer.string(path);
                    writer.i32(*version);
                }
                Self::SetData { path, data, version } => {
                    writer.string(path);
                    writer.buffer(data.as_deref());
                    writer.i32(*version);
                }
            }
        }
        put_end(writer);
    }

    pub(crate) fn decode_list(reader: &mut Reader) -> Result<Vec<Self>, DecodeError> {
        decode_list(reader, |code, reader| {
            Ok(Some(match OpCode::from_code(code) {
                Some(OpCode::Create) => Self::Create(Create::decode(reader)?),
                Some(OpCode::Create2) => Self::Create2(Create::decode(reader)?),
                Some(OpCode::CreateContainer) => Self::CreateContainer(Create::decode(reader)?),
                Some(OpCode::CreateTtl) => {
                    Self::CreateTtl { create: Create::decode(reader)?, ttl_ms: reader.i64("ttl")? }
                }
                Some(OpCode::Delete) => Self::Delete { path: reader.string("path")?, version: reader.i32("version")? },
                Some(OpCode::SetData) => Self::SetData {
                    path: reader.string("path")?,
                    data: reader.buffer("data")?,
                    version: reader.i32("version")?,
                },
                Some(OpCode::Check) => Self::Check { path: reader.string("path")?, version: reader.i32("version")? },
                _ => return Ok(None),
            }))
        })
    }
}

impl MultiReadOperation {
    pub(crate) fn encode_list(list: &[Self], writer: &mut Writer) {
        for operation in list {
            let (opcode, path) = match operation {
                Self::GetData { path } => (OpCode::GetData, path),
                Self::GetChildren { path } => (OpCode::GetChildren, path),
            };
            put_header(writer, opcode.code(), -1);
            writer.string(path);
            writer.boolean(false);
        }
        put_end(writer);
    }

    /// Reads the list; a request to watch is dropped, as Apache drops it.
    pub(crate) fn decode_list(reader: &mut Reader) -> Result<Vec<Self>, DecodeError> {
        decode_list(reader, |code, reader| {
            let opcode = OpCode::from_code(code);
            if !matches!(opcode, Some(OpCode::GetData | OpCode::GetChildren)) {
                return Ok(None);
            }
            let path = reader.string("path")?;
            reader.boolean("watch")?;
            Ok(Some(match opcode {
                Some(OpCode::GetData) => Self::GetData { path },
                _ => Self::GetChildren { path },
            }))
        })
    }
}

impl MultiResult {
    /// Finds the operation to blame for a transaction that failed, by its place, and why.
    pub fn blamed(results: &[Self]) -> Option<(usize, ErrorCode)> {
        results.iter().enumerate().find_map(|(at, result)| match result {
            Self::Error(ErrorCode::Ok | ErrorCode::RuntimeInconsistency) => None,
            Self::Error(code) => Some((at, *code)),
            _ => None,
        })
    }

    pub(crate) fn encode_list(list: &[Self], writer: &mut Writer) {
        for result in list {
            let (code, error) = match result {
                Self::Create { .. } => (OpCode::Create.code(), ErrorCode::Ok),
                Self::Create2 { .. } => (OpCode::Create2.code(), ErrorCode::Ok),
                Self::Delete => (OpCode::Delete.code(), ErrorCode::Ok),
                Self::SetData { .. } => (OpCode::SetData.code(), ErrorCode::Ok),
                Self::Check => (OpCode::Check.code(), ErrorCode::Ok),
                Self::GetChildren { .. } => (OpCode::GetChildren.code(), ErrorCode::Ok),
                Self::GetData { .. } => (OpCode::GetData.code(), ErrorCode::Ok),
                Self::Error(error) => (NO_OPERATION, *error),
            };
            put_header(writer, code, error.code());
            match result {
                Self::Create { path } => writer.string(path),
                Self::Create2 { path, stat } => {
                    writer.string(path);
                    stat.encode(writer);
                }
                Self::SetData { stat } => stat.encode(writer),
                Self::GetChildren { children } => writer.strings(children),
                Self::GetData { data, stat } => {
                    writer.buffer(data.as_deref());
                    stat.encode(writer);
                }
                Self::Delete | Self::Check => (),
                Self::Error(error) => writer.i32(error.code()),
            }
        }
        put_end(writer);
    }

    pub(crate) fn decode_list(reader: &mut Reader) -> Result<Vec<Self>, DecodeError> {
        decode_list(reader, |code, reader| {
            if code == NO_OPERATION {
                return Ok(Some(Self::Error(ErrorCode::from_code(reader.i32("err")?))));
            }
            Ok(Some(match OpCode::from_code(code) {
                Some(OpCode::Create) => Self::Create { path: reader.string("path")? },
                Some(OpCode::Create2) => Self::Create2 { path: reader.string("path")?, stat: Stat::decode(reader)? },
                Some(OpCode::Delete) => Self::Delete,
                Some(OpCode::SetData) => Self::SetData { stat: Stat::decode(reader)? },
                Some(OpCode::Check) => Self::Check,
                Some(OpCode::GetChildren) => Self::GetChildren { children: reader.strings("children")? },
                Some(OpCode::GetData) => Self::GetData { data: reader.buffer("data")?, stat: Stat::decode(reader)? },
                _ => return Ok(None),
            }))
        })
    }
}

fn put_header(writer: &mut Writer, code: i32, error: i32) {
    writer.i32(code);
    writer.boolean(false);
    writer.i32(error);
}

fn put_end(writer: &mut Writer) {
    writer.i32(NO_OPERATION);
    writer.boolean(true);
    writer.i32(-1);
}

/// Reads headers until the one that ends the list, and after each other one an element; `None` from `element` says
/// that its code has no place there.
fn decode_list<T>(
    reader: &mut Reader,
    mut element: impl FnMut(i32, &mut Reader) -> Result<Option<T>, DecodeError>,
) -> Result<Vec<T>, DecodeError> {
    let mut list = Vec::new();
    loop {
        let start = reader.position();
        let code = reader.i32("operation type")?;
        let done = reader.boolean("done")?;
        reader.i32("operation err")?;
        if done {
            return Ok(list);
        }
        let unknown = DecodeError::new(DecodeErrorKind::UnknownOperation(code), "operation type", start);
        list.push(element(code, reader)?.ok_or(unknown)?);
    }
}
