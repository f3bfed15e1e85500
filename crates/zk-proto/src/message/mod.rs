//! The messages of the protocol, each in both directions, and what they are made of.

mod acl;
mod connect;
mod create_mode;
mod envelope;
mod error_code;
mod multi;
mod opcode;
mod request;
mod request_decode;
mod response;
mod stat;
mod watch;

pub use acl::{Acl, Id, Permissions};
pub use connect::{ConnectRequest, ConnectResponse, ReadOnlyFlag};
pub use create_mode::CreateMode;
pub use envelope::{
    ReplyHeader, RequestHeader, XID_AUTH, XID_FIRST, XID_NOTIFICATION, XID_PING, XID_SET_WATCHES, decode_reply_body,
    decode_request, encode_event, encode_reply, encode_request,
};
pub use error_code::ErrorCode;
pub use multi::{MultiOperation, MultiReadOperation, MultiResult};
pub use opcode::{Effect, OpCode};
pub use request::{Auth, Create, Request};
pub use response::{ClientInfo, Response};
pub use stat::Stat;
pub use watch::{AddWatchMode, EventKind, KeeperState, SetWatches, WatcherEvent, WatcherKind};
