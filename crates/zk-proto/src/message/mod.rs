//! The messages of the protocol, each in both directions, and their parts.
//!
//! Decoding fails if the message ends first, and on a number without a meaning there. Encoding a whole frame fails if
//! it would be longer than `length_max`: the peer would close the connection.

mod connect;
mod envelope;
mod error_code;
mod multi;
mod node;
mod opcode;
mod request;
mod response;
mod watch;

pub use connect::{ConnectRequest, ConnectResponse, ReadOnlyFlag};
pub use envelope::{
    ReplyHeader, RequestHeader, XID_AUTH, XID_FIRST, XID_NOTIFICATION, XID_PING, XID_SET_WATCHES, decode_reply_body,
    decode_request, encode_event, encode_reply, encode_request,
};
pub use error_code::ErrorCode;
pub use multi::{MultiOperation, MultiReadOperation, MultiResult};
pub use node::{Acl, Create, CreateMode, Id, Permissions, Stat};
pub use opcode::{OpCode, RequestEffect};
pub use request::{Auth, ZkRequest};
pub use response::{ClientInfo, ZkResponse};
pub use watch::{AddWatchMode, SetWatches, WatchEventKind, WatcherEvent, WatcherKind};
