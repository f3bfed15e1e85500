//! From a frame to its reply.

use std::sync::Arc;

use bytes::Bytes;
use lockkeeper_zk_proto::jute::{DecodeError, DecodeErrorKind};
use lockkeeper_zk_proto::message::{
    Auth, ErrorCode, Id, OpCode, ReplyHeader, Request, RequestEffect, RequestHeader, Response, XID_PING,
    decode_request, encode_reply,
};

use crate::auth::{DIGEST, IP, SUPER, client_info, digest_identity};
use crate::connection_id::ConnectionId;
use crate::machine::connection::LastReply;
use crate::machine::io::{ClockReading, CloseReason, SeenRequest, SendKind};
use crate::machine::limits::IDENTITIES_MAX;
use crate::machine::server::{SENT_BYTES_MAX, ServerMachine};

/// The zxid in the reply to a request that does not reach the nodes, as in Apache.
const ZXID_AUTH: i64 = 0;
/// The zxid in the reply to an unknown operation, as in Apache.
const ZXID_UNIMPLEMENTED: i64 = -1;

/// Where a request comes from: what it is judged by.
#[derive(Clone, Debug)]
pub(super) struct Requester {
    pub(super) connection: ConnectionId,
    pub(super) session_id: i64,
    pub(super) identities: Arc<[Id]>,
}

impl ServerMachine {
    /// Answers a frame of a connection that is on a session.
    pub(super) fn serve(&mut self, moment: ClockReading, id: ConnectionId, frame: Bytes) {
        let Ok((header, request)) = decode_request(frame) else {
            return self.close(id, CloseReason::Malformed);
        };
        let Some(connection) = self.connections.get(&id) else {
            return;
        };
        let caller = Requester {
            connection: id,
            session_id: connection.session_id,
            identities: Arc::clone(&connection.identities),
        };
        let timeout_ms = connection.timeout_ms;
        if let (Ok(request), Some(hook)) = (&request, &mut self.hook) {
            hook(&SeenRequest { connection: id, session_id: caller.session_id, xid: header.xid, request });
        }
        if let Ok(Request::Auth(auth)) = &request {
            return self.authenticate(id, header, auth);
        }
        // A client that asks for anything is alive, even if the request makes no sense.
        if !self.state.sessions.touch(caller.session_id, timeout_ms, moment.now) {
            return self.close(id, CloseReason::SessionExpired);
        }
        match request {
            Ok(request) => self.execute(moment, &caller, header, request),
            Err(error) => self.refuse_unreadable(moment, id, header, &error),
        }
    }

    /// Does what is asked and replies.
    fn execute(&mut self, moment: ClockReading, caller: &Requester, header: RequestHeader, request: Request) {
        let opcode = request.opcode();
        let result = if opcode.effect() == RequestEffect::Write {
            self.write(moment, caller, request)
        } else {
            self.read(caller, request)
        };
        let xid = if opcode == OpCode::Ping { XID_PING } else { header.xid };
        self.reply(moment, caller.connection, RequestHeader { xid, ..header }, result);
        if opcode == OpCode::CloseSession {
            self.close(caller.connection, CloseReason::SessionClosed);
        }
        if self.is_over_watch_limit(caller.connection) {
            self.close(caller.connection, CloseReason::WatchesFull);
        }
    }

    /// Performs a request that changes something; each attempt takes a transaction number, successful or not.
    fn write(&mut self, moment: ClockReading, caller: &Requester, request: Request) -> Result<Response, ErrorCode> {
        if self.refuses_writes {
            return Err(ErrorCode::SystemError);
        }
        match request {
            Request::Multi(operations) => self.multi(moment, caller, operations).map(Response::Multi),
            Request::CloseSession => {
                self.end_session(moment, caller.session_id);
                Ok(Response::Done)
            }
            request => self.write_one(moment, caller, request),
        }
    }

    fn refuse_unreadable(
        &mut self,
        moment: ClockReading,
        id: ConnectionId,
        header: RequestHeader,
        error: &DecodeError,
    ) {
        let opcode = OpCode::from_code(header.code);
        let code = match (opcode, error.kind()) {
            (Some(OpCode::Reconfig), _) => ErrorCode::ReconfigDisabled,
            (Some(OpCode::Multi | OpCode::MultiRead), _) => ErrorCode::MarshallingError,
            (_, DecodeErrorKind::UnknownOperation(_)) | (None, _) => {
                self.reply_with(moment, id, header, ZXID_UNIMPLEMENTED, Err(ErrorCode::Unimplemented));
                return self.close(id, CloseReason::Unimplemented);
            }
            (_, DecodeErrorKind::UnknownValue(_)) if error.field() == "flags" => ErrorCode::BadArguments,
            _ => ErrorCode::MarshallingError,
        };
        if opcode.is_some_and(|opcode| opcode.effect() == RequestEffect::Write) {
            self.take_zxid();
        }
        self.reply(moment, id, header, Err(code));
    }

    fn authenticate(&mut self, id: ConnectionId, header: RequestHeader, auth: &Auth) {
        let super_digest = self.settings.super_digest.clone();
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        let is_known = match auth.scheme.as_str() {
            _ if connection.identities.len() >= IDENTITIES_MAX => false,
            DIGEST => {
                let identity = digest_identity(&auth.credentials);
                if super_digest.as_ref() == Some(&identity.id) {
                    connection.add_identity(Id { scheme: SUPER.to_owned(), id: String::new() });
                }
                connection.add_identity(identity);
                true
            }
            // The address has been an identity from the start.
            scheme => scheme == IP,
        };
        let error = if is_known { ErrorCode::Ok } else { ErrorCode::AuthFailed };
        let reply = ReplyHeader { xid: header.xid, zxid: ZXID_AUTH, error };
        let frame = encode_reply(reply, None, SENT_BYTES_MAX);
        self.send_frame(id, frame, SendKind::Reply(header.code));
        if !is_known {
            self.close(id, CloseReason::AuthFailed);
        }
    }

    /// Replies with the number of the latest transaction.
    fn reply(
        &mut self,
        moment: ClockReading,
        id: ConnectionId,
        header: RequestHeader,
        result: Result<Response, ErrorCode>,
    ) {
        self.reply_with(moment, id, header, self.state.zxid, result);
    }

    fn reply_with(
        &mut self,
        moment: ClockReading,
        id: ConnectionId,
        header: RequestHeader,
        zxid: i64,
        result: Result<Response, ErrorCode>,
    ) {
        let reply =
            ReplyHeader { xid: header.xid, zxid, error: result.as_ref().err().copied().unwrap_or(ErrorCode::Ok) };
        let frame = encode_reply(reply, result.as_ref().ok(), SENT_BYTES_MAX);
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.last =
                LastReply { operation: operation_word(header.code), xid: header.xid, zxid, at_ms: moment.wall_ms };
        }
        self.send_frame(id, frame, SendKind::Reply(header.code));
    }

    /// The identities of a connection at the server.
    pub(super) fn who_am_i(caller: &Requester) -> Response {
        Response::WhoAmI(caller.identities.iter().map(client_info).collect())
    }
}

/// The name of an operation in the report on connections.
fn operation_word(code: i32) -> &'static str {
    match OpCode::from_code(code) {
        Some(OpCode::Create | OpCode::Create2 | OpCode::CreateContainer | OpCode::CreateTtl) => "CREA",
        Some(OpCode::Delete) => "DELE",
        Some(OpCode::Exists) => "EXIS",
        Some(OpCode::GetData) => "GETD",
        Some(OpCode::SetData) => "SETD",
        Some(OpCode::GetAcl) => "GETA",
        Some(OpCode::SetAcl) => "SETA",
        Some(OpCode::GetChildren | OpCode::GetChildren2) => "GETC",
        Some(OpCode::Sync) => "SYNC",
        Some(OpCode::Ping) => "PING",
        Some(OpCode::Multi) => "MULT",
        Some(OpCode::MultiRead) => "MLTR",
        Some(OpCode::CheckWatches) => "CHKW",
        Some(OpCode::RemoveWatches) => "REMW",
        Some(OpCode::SetWatches) => "SETW",
        Some(OpCode::SetWatches2) => "STW2",
        Some(OpCode::AddWatch) => "ADDW",
        Some(OpCode::GetEphemerals) => "GETE",
        Some(OpCode::GetAllChildrenNumber) => "GETACN",
        Some(OpCode::WhoAmI) => "HOMI",
        Some(OpCode::CloseSession) => "CLOS",
        _ => "NA",
    }
}
