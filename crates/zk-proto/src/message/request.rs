//! Requests of a client, in both directions.

use std::fmt;

use bytes::Bytes;

use crate::jute::{DecodeError, DecodeErrorKind, Reader, Writer};
use crate::message::multi::{MultiOperation, MultiReadOperation};
use crate::message::node::{Acl, Create};
use crate::message::opcode::OpCode;
use crate::message::watch::{AddWatchMode, SetWatches, WatcherKind};

/// Authenticates the connection.
#[derive(Clone, Eq, PartialEq)]
pub struct Auth {
    /// The scheme, `digest` for instance.
    pub scheme: String,
    /// The credentials in the scheme's own form, `user:password` for instance.
    pub credentials: Bytes,
}

/// Asks the service for something.
///
/// Paths are as they came or go over the wire: the client makes them from [`crate::path::ZnodePath`], the server checks
/// them. `watch` asks for a one-shot watch, set in the same step as the read.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the variants' fields carry the protocol's own names")]
pub enum ZkRequest {
    /// Creates a node; answers its path.
    Create(Create),
    /// Creates a node; answers its path and Stat.
    Create2(Create),
    /// Creates a container; answers its path and Stat.
    CreateContainer(Create),
    /// Creates a node with a time to live; answers its path and Stat.
    CreateTtl { create: Create, ttl_ms: i64 },
    /// Deletes a node if it has `version` (−1: any).
    Delete { path: String, version: i32 },
    /// Asks for a node's Stat; the watch is set even if there is no node.
    Exists { path: String, watch: bool },
    /// Reads a node's data.
    GetData { path: String, watch: bool },
    /// Sets a node's data if it has `version` (−1: any).
    SetData { path: String, data: Option<Bytes>, version: i32 },
    /// Lists a node's children.
    GetChildren { path: String, watch: bool },
    /// Lists a node's children; answers the node's Stat too.
    GetChildren2 { path: String, watch: bool },
    /// Reads a node's access list.
    GetAcl { path: String },
    /// Sets a node's access list if its access version is `version` (−1: any).
    SetAcl { path: String, acl: Vec<Acl>, version: i32 },
    /// Does all of the operations or none.
    Multi(Vec<MultiOperation>),
    /// Does several reads, each by itself.
    MultiRead(Vec<MultiReadOperation>),
    /// Waits until this server has caught up with its leader.
    Sync { path: String },
    /// Says that the client is alive.
    Ping,
    /// Authenticates the connection.
    Auth(Auth),
    /// Sets watches again after a reconnect.
    SetWatches(SetWatches),
    /// Sets a persistent watch.
    AddWatch { path: String, mode: AddWatchMode },
    /// Removes watches of this connection.
    RemoveWatches { path: String, kind: WatcherKind },
    /// Asks whether this connection has such a watch.
    CheckWatches { path: String, kind: WatcherKind },
    /// Lists the session's ephemeral nodes below a prefix; an empty one stands for all.
    GetEphemerals { prefix: String },
    /// Counts the descendants of a node.
    GetAllChildrenNumber { path: String },
    /// Asks for the identities of this connection at the server.
    WhoAmI,
    /// Ends the session: its ephemeral nodes go, then the server closes the connection.
    CloseSession,
}

impl ZkRequest {
    /// The operation it asks for.
    pub fn opcode(&self) -> OpCode {
        match self {
            Self::Create(_) => OpCode::Create,
            Self::Create2(_) => OpCode::Create2,
            Self::CreateContainer(_) => OpCode::CreateContainer,
            Self::CreateTtl { .. } => OpCode::CreateTtl,
            Self::Delete { .. } => OpCode::Delete,
            Self::Exists { .. } => OpCode::Exists,
            Self::GetData { .. } => OpCode::GetData,
            Self::SetData { .. } => OpCode::SetData,
            Self::GetChildren { .. } => OpCode::GetChildren,
            Self::GetChildren2 { .. } => OpCode::GetChildren2,
            Self::GetAcl { .. } => OpCode::GetAcl,
            Self::SetAcl { .. } => OpCode::SetAcl,
            Self::Multi(_) => OpCode::Multi,
            Self::MultiRead(_) => OpCode::MultiRead,
            Self::Sync { .. } => OpCode::Sync,
            Self::Ping => OpCode::Ping,
            Self::Auth(_) => OpCode::Auth,
            Self::SetWatches(watches) if watches.fits_old_form() => OpCode::SetWatches,
            Self::SetWatches(_) => OpCode::SetWatches2,
            Self::AddWatch { .. } => OpCode::AddWatch,
            Self::RemoveWatches { .. } => OpCode::RemoveWatches,
            Self::CheckWatches { .. } => OpCode::CheckWatches,
            Self::GetEphemerals { .. } => OpCode::GetEphemerals,
            Self::GetAllChildrenNumber { .. } => OpCode::GetAllChildrenNumber,
            Self::WhoAmI => OpCode::WhoAmI,
            Self::CloseSession => OpCode::CloseSession,
        }
    }

    /// Writes the body, without the header. (One flat match over all requests.)
    pub fn encode(&self, writer: &mut Writer) {
        match self {
            Self::Create(create) | Self::Create2(create) | Self::CreateContainer(create) => create.encode(writer),
            Self::CreateTtl { create, ttl_ms } => {
                create.encode(writer);
                writer.i64(*ttl_ms);
            }
            Self::Delete { path, version } => {
                writer.string(path);
                writer.i32(*version);
            }
            Self::Exists { path, watch }
            | Self::GetData { path, watch }
            | Self::GetChildren { path, watch }
            | Self::GetChildren2 { path, watch } => {
                writer.string(path);
                writer.boolean(*watch);
            }
            Self::SetData { path, data, version } => {
                writer.string(path);
                writer.buffer(data.as_deref());
                writer.i32(*version);
            }
            Self::SetAcl { path, acl, version } => {
                writer.string(path);
                Acl::encode_list(acl, writer);
                writer.i32(*version);
            }
            Self::Multi(operations) => MultiOperation::encode_list(operations, writer),
            Self::MultiRead(operations) => MultiReadOperation::encode_list(operations, writer),
            Self::Auth(auth) => {
                writer.i32(0);
                writer.string(&auth.scheme);
                writer.buffer(Some(&auth.credentials));
            }
            Self::SetWatches(watches) => watches.encode(writer),
            Self::AddWatch { path, mode } => {
                writer.string(path);
                writer.i32(mode.code());
            }
            Self::RemoveWatches { path, kind } | Self::CheckWatches { path, kind } => {
                writer.string(path);
                writer.i32(kind.code());
            }
            Self::GetAcl { path }
            | Self::Sync { path }
            | Self::GetAllChildrenNumber { path }
            | Self::GetEphemerals { prefix: path } => writer.string(path),
            Self::Ping | Self::WhoAmI | Self::CloseSession => (),
        }
    }

    /// Reads the body of a request for the operation numbered `code`. (One flat match over all requests.)
    ///
    /// # Errors
    ///
    /// Fails with [`DecodeErrorKind::UnknownOperation`] if no client may ask for the operation here, else on a
    /// malformed body. Either way the frame is over and the next one can be read.
    pub fn decode(code: i32, reader: &mut Reader) -> Result<Self, DecodeError> {
        let unknown = reader.error(DecodeErrorKind::UnknownOperation(code), "type");
        Ok(match OpCode::from_code(code).ok_or_else(|| unknown.clone())? {
            OpCode::Create => Self::Create(Create::decode(reader)?),
            OpCode::Create2 => Self::Create2(Create::decode(reader)?),
            OpCode::CreateContainer => Self::CreateContainer(Create::decode(reader)?),
            OpCode::CreateTtl => Self::CreateTtl { create: Create::decode(reader)?, ttl_ms: reader.i64("ttl")? },
            OpCode::Delete => Self::Delete { path: reader.string("path")?, version: reader.i32("version")? },
            OpCode::Exists => Self::Exists { path: reader.string("path")?, watch: reader.boolean("watch")? },
            OpCode::GetData => Self::GetData { path: reader.string("path")?, watch: reader.boolean("watch")? },
            OpCode::SetData => Self::SetData {
                path: reader.string("path")?,
                data: reader.buffer("data")?,
                version: reader.i32("version")?,
            },
            OpCode::GetChildren => Self::GetChildren { path: reader.string("path")?, watch: reader.boolean("watch")? },
            OpCode::GetChildren2 => {
                Self::GetChildren2 { path: reader.string("path")?, watch: reader.boolean("watch")? }
            }
            OpCode::GetAcl => Self::GetAcl { path: reader.string("path")? },
            OpCode::SetAcl => Self::SetAcl {
                path: reader.string("path")?,
                acl: Acl::decode_list(reader)?,
                version: reader.i32("version")?,
            },
            OpCode::Multi => Self::Multi(MultiOperation::decode_list(reader)?),
            OpCode::MultiRead => Self::MultiRead(MultiReadOperation::decode_list(reader)?),
            OpCode::Sync => Self::Sync { path: reader.string("path")? },
            OpCode::Ping => Self::Ping,
            OpCode::Auth => Self::Auth(decode_auth(reader)?),
            OpCode::SetWatches => Self::SetWatches(SetWatches::decode_old(reader)?),
            OpCode::SetWatches2 => Self::SetWatches(SetWatches::decode_new(reader)?),
            OpCode::AddWatch => Self::AddWatch { path: reader.string("path")?, mode: AddWatchMode::decode(reader)? },
            OpCode::RemoveWatches => {
                Self::RemoveWatches { path: reader.string("path")?, kind: WatcherKind::decode(reader)? }
            }
            OpCode::CheckWatches => {
                Self::CheckWatches { path: reader.string("path")?, kind: WatcherKind::decode(reader)? }
            }
            OpCode::GetEphemerals => Self::GetEphemerals { prefix: reader.string_or_empty("prefixPath")? },
            OpCode::GetAllChildrenNumber => Self::GetAllChildrenNumber { path: reader.string("path")? },
            OpCode::WhoAmI => Self::WhoAmI,
            OpCode::CloseSession => Self::CloseSession,
            // Used between servers only, or not supported here: SASL and reconfiguration.
            OpCode::Check | OpCode::Reconfig | OpCode::DeleteContainer | OpCode::Sasl | OpCode::CreateSession => {
                return Err(unknown);
            }
        })
    }
}

fn decode_auth(reader: &mut Reader) -> Result<Auth, DecodeError> {
    reader.i32("auth type")?;
    Ok(Auth { scheme: reader.string("scheme")?, credentials: reader.buffer("auth")?.unwrap_or_default() })
}

impl fmt::Debug for Auth {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Auth").field("scheme", &self.scheme).finish_non_exhaustive()
    }
}
