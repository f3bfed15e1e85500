//! The bodies of replies.

use bytes::Bytes;

use crate::jute::{DecodeError, DecodeErrorKind, Reader, Writer};
use crate::message::multi::MultiResult;
use crate::message::node::{Acl, Stat};
use crate::message::opcode::OpCode;

/// The identity of a connection at the server, within one scheme.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ClientInfo {
    /// The scheme.
    pub scheme: String,
    /// The user, or the scheme's equivalent.
    pub user: String,
}

/// Answers a request that succeeded.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the variants' fields carry the protocol's own names")]
pub enum ZkResponse {
    /// The empty answer: to ping, delete, auth, the watch requests, closeSession.
    Done,
    /// Answers create.
    Create { path: String },
    /// Answers create2, createContainer and createTTL.
    Create2 { path: String, stat: Stat },
    /// Answers exists, setData and setACL.
    Stat(Stat),
    /// Answers getData.
    GetData { data: Option<Bytes>, stat: Stat },
    /// Answers getChildren.
    GetChildren { children: Vec<String> },
    /// Answers getChildren2.
    GetChildren2 { children: Vec<String>, stat: Stat },
    /// Answers getACL.
    GetAcl { acl: Vec<Acl>, stat: Stat },
    /// Answers multi and multiRead.
    Multi(Vec<MultiResult>),
    /// Answers sync.
    Sync { path: String },
    /// Answers addWatch: an empty success, written as an error code of 0.
    AddWatch,
    /// Answers getEphemerals.
    GetEphemerals { ephemerals: Vec<String> },
    /// Answers getAllChildrenNumber.
    GetAllChildrenNumber { total: i32 },
    /// Answers whoAmI.
    WhoAmI(Vec<ClientInfo>),
}

impl ClientInfo {
    /// The fewest bytes an entry takes on the wire.
    const ENCODED_BYTES_MIN: usize = 8;
}

impl ZkResponse {
    /// Writes the body, without the header.
    pub fn encode(&self, writer: &mut Writer) {
        match self {
            Self::Done => (),
            Self::Create { path } | Self::Sync { path } => writer.string(path),
            Self::Create2 { path, stat } => {
                writer.string(path);
                stat.encode(writer);
            }
            Self::Stat(stat) => stat.encode(writer),
            Self::GetData { data, stat } => {
                writer.buffer(data.as_deref());
                stat.encode(writer);
            }
            Self::GetChildren { children: strings } | Self::GetEphemerals { ephemerals: strings } => {
                writer.strings(strings);
            }
            Self::GetChildren2 { children, stat } => {
                writer.strings(children);
                stat.encode(writer);
            }
            Self::GetAcl { acl, stat } => {
                Acl::encode_list(acl, writer);
                stat.encode(writer);
            }
            Self::Multi(results) => MultiResult::encode_list(results, writer),
            Self::AddWatch => writer.i32(0),
            Self::GetAllChildrenNumber { total } => writer.i32(*total),
            Self::WhoAmI(infos) => writer.vector(infos, |writer, info| {
                writer.string(&info.scheme);
                writer.string(&info.user);
            }),
        }
    }

    /// Reads the body of the reply to a request for `opcode` that succeeded. (One flat match over all operations.)
    ///
    /// # Errors
    ///
    /// Fails on a malformed body, and on an operation of which no reply is known.
    pub fn decode(opcode: OpCode, reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(match opcode {
            OpCode::Create => Self::Create { path: reader.string("path")? },
            OpCode::Create2 | OpCode::CreateContainer | OpCode::CreateTtl => {
                Self::Create2 { path: reader.string("path")?, stat: Stat::decode(reader)? }
            }
            OpCode::Exists | OpCode::SetData | OpCode::SetAcl => Self::Stat(Stat::decode(reader)?),
            OpCode::GetData => Self::GetData { data: reader.buffer("data")?, stat: Stat::decode(reader)? },
            OpCode::GetChildren => Self::GetChildren { children: reader.strings("children")? },
            OpCode::GetChildren2 => {
                Self::GetChildren2 { children: reader.strings("children")?, stat: Stat::decode(reader)? }
            }
            OpCode::GetAcl => Self::GetAcl { acl: Acl::decode_list(reader)?, stat: Stat::decode(reader)? },
            OpCode::Multi | OpCode::MultiRead => Self::Multi(MultiResult::decode_list(reader)?),
            OpCode::Sync => Self::Sync { path: reader.string("path")? },
            OpCode::AddWatch => {
                reader.i32("err")?;
                Self::AddWatch
            }
            OpCode::GetEphemerals => Self::GetEphemerals { ephemerals: reader.strings("ephemerals")? },
            OpCode::GetAllChildrenNumber => Self::GetAllChildrenNumber { total: reader.i32("totalNumber")? },
            OpCode::WhoAmI => Self::WhoAmI(reader.vector("clientInfo", ClientInfo::ENCODED_BYTES_MIN, |reader| {
                Ok(ClientInfo { scheme: reader.string("authScheme")?, user: reader.string_or_empty("user")? })
            })?),
            OpCode::Delete
            | OpCode::Ping
            | OpCode::Auth
            | OpCode::SetWatches
            | OpCode::SetWatches2
            | OpCode::RemoveWatches
            | OpCode::CheckWatches
            | OpCode::CloseSession => Self::Done,
            OpCode::Check | OpCode::Reconfig | OpCode::DeleteContainer | OpCode::Sasl | OpCode::CreateSession => {
                return Err(reader.error(DecodeErrorKind::UnknownOperation(opcode.code()), "type"));
            }
        })
    }
}
