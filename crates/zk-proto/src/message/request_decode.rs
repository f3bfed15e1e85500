//! Decoding of requests: the server's half of [`Request`].

use crate::jute::{DecodeError, DecodeErrorKind, Reader};
use crate::message::acl::Acl;
use crate::message::multi::{MultiOperation, MultiReadOperation};
use crate::message::opcode::OpCode;
use crate::message::request::{Auth, Create, Request};
use crate::message::watch::{AddWatchMode, SetWatches, WatcherKind};

impl Request {
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
