//! From a frame to its reply; the first frame is a handshake, by which a session begins or goes on.

use std::sync::Arc;

use bytes::Bytes;
use lockkeeper_zk_proto::jute::{DecodeError, DecodeErrorKind};
use lockkeeper_zk_proto::message::{
    Auth, ConnectRequest, ConnectResponse, ErrorCode, Id, OpCode, ReadOnlyFlag, ReplyHeader, RequestEffect,
    RequestHeader, XID_PING, ZkRequest, ZkResponse, decode_request, encode_reply,
};

use crate::auth::{DIGEST, IP, SUPER, client_info, digest_identity};
use crate::machine::connection::LastReply;
use crate::machine::io::{ClockReading, CloseReason, SeenRequest, SendKind};
use crate::machine::server::{SENT_BYTES_MAX, ServerMachine};
use crate::machine::settings::IDENTITIES_MAX;
use crate::session::ConnectionId;
use crate::tree::TreeChange;

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
        if let Ok(ZkRequest::Auth(auth)) = &request {
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
    fn execute(&mut self, moment: ClockReading, caller: &Requester, header: RequestHeader, request: ZkRequest) {
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
    fn write(&mut self, moment: ClockReading, caller: &Requester, request: ZkRequest) -> Result<ZkResponse, ErrorCode> {
        if self.refuses_writes {
            return Err(ErrorCode::SystemError);
        }
        match request {
            ZkRequest::Multi(operations) => self.multi(moment, caller, operations).map(ZkResponse::Multi),
            ZkRequest::CloseSession => {
                self.end_session(moment, caller.session_id);
                Ok(ZkResponse::Done)
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
        result: Result<ZkResponse, ErrorCode>,
    ) {
        self.reply_with(moment, id, header, self.state.zxid, result);
    }

    fn reply_with(
        &mut self,
        moment: ClockReading,
        id: ConnectionId,
        header: RequestHeader,
        zxid: i64,
        result: Result<ZkResponse, ErrorCode>,
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
    pub(super) fn who_am_i(caller: &Requester) -> ZkResponse {
        ZkResponse::WhoAmI(caller.identities.iter().map(client_info).collect())
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

/// The password that a refused client gets: as many zeros as a password has bytes.
const NO_PASSWORD: [u8; 16] = [0; 16];

impl ServerMachine {
    /// Answers the first frame of a connection.
    pub(super) fn shake_hands(&mut self, moment: ClockReading, id: ConnectionId, frame: Bytes) {
        let Ok(request) = ConnectRequest::decode(frame) else {
            return self.close(id, CloseReason::Malformed);
        };
        if request.last_zxid_seen > self.state.zxid {
            return self.close(id, CloseReason::ClientAhead);
        }
        let timeout_ms = self.settings.negotiate(request.timeout_ms);
        let session_id = if request.session_id == 0 {
            if let Some(reason) = self.reason_against_new_session() {
                return self.close(id, reason);
            }
            self.open_session(moment, timeout_ms)
        } else if self.resume_session(moment, id, &request, timeout_ms) {
            request.session_id
        } else {
            self.answer_handshake(id, 0, 0, request.read_only);
            return self.close(id, CloseReason::SessionRefused);
        };
        self.state.sessions.attach(session_id, Some(id));
        self.begin_serving(id, session_id, timeout_ms, request.session_id == 0);
        self.answer_handshake(id, session_id, timeout_ms, request.read_only);
    }

    /// Ends a session that was silent for its timeout, and its connection with it.
    pub(super) fn expire(&mut self, moment: ClockReading, session_id: i64) {
        if self.refuses_writes {
            // Its end cannot be stored. It is tried again a tick later; until then only the clients that wait for it
            // are affected.
            let timeout_ms = i32::try_from(self.settings.tick.as_millis()).unwrap_or(i32::MAX);
            self.state.sessions.touch(session_id, timeout_ms, moment.now);
            return;
        }
        tracing::info!("expired session {session_id:#x}: its client was silent for the timeout");
        if let Some(connection) = self.end_session(moment, session_id) {
            self.close(connection, CloseReason::SessionExpired);
        }
    }

    /// Ends a session and deletes its nodes, in one transaction; returns the connection it was on.
    pub(super) fn end_session(&mut self, moment: ClockReading, session_id: i64) -> Option<ConnectionId> {
        let zxid = self.take_zxid();
        let mut changes: Vec<TreeChange> =
            self.state.tree.ephemerals_of(session_id).map(|path| TreeChange::Delete { path: path.into() }).collect();
        changes.push(TreeChange::CloseSession { session_id });
        let session = self.state.sessions.close(session_id);
        self.commit(moment, zxid, changes);
        session?.connection
    }

    fn reason_against_new_session(&self) -> Option<CloseReason> {
        if self.refuses_writes {
            Some(CloseReason::NotStored)
        } else if self.state.sessions.len() >= self.settings.limits.sessions_max {
            Some(CloseReason::SessionsFull)
        } else {
            None
        }
    }

    fn open_session(&mut self, moment: ClockReading, timeout_ms: i32) -> i64 {
        let session_id = self.state.sessions.mint_id();
        self.state.sessions.open(session_id, timeout_ms, moment.now);
        self.commit_one(moment, TreeChange::OpenSession { session_id, timeout_ms });
        session_id
    }

    /// Continues a session if it lives and the password is right; its former connection then ends.
    fn resume_session(
        &mut self,
        moment: ClockReading,
        id: ConnectionId,
        request: &ConnectRequest,
        timeout_ms: i32,
    ) -> bool {
        let session_id = request.session_id;
        let password = request.password.as_deref().unwrap_or_default();
        if !self.state.sessions.is_password(session_id, password)
            || !self.state.sessions.touch(session_id, timeout_ms, moment.now)
        {
            return false;
        }
        let former = self.state.sessions.attach(session_id, Some(id));
        if let Some(former) = former.filter(|former| *former != id && !self.keeps_former_connections) {
            self.close(former, CloseReason::SessionMoved);
        }
        true
    }

    fn answer_handshake(&mut self, id: ConnectionId, session_id: i64, timeout_ms: i32, asked: ReadOnlyFlag) {
        let password = match session_id {
            0 => Bytes::from_static(&NO_PASSWORD),
            session_id => self.state.sessions.password(session_id),
        };
        let response = ConnectResponse {
            protocol_version: 0,
            timeout_ms,
            session_id,
            password: Some(password),
            // Answered in the form in which it was asked; this server is never read-only.
            read_only: match asked {
                ReadOnlyFlag::Absent => ReadOnlyFlag::Absent,
                ReadOnlyFlag::No | ReadOnlyFlag::Yes => ReadOnlyFlag::No,
            },
        };
        self.send_frame(id, response.to_frame(SENT_BYTES_MAX), SendKind::Handshake);
    }
}
