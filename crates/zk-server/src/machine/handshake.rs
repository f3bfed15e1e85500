//! Handshakes: sessions begin, continue on another connection, and end.

use bytes::Bytes;
use lockkeeper_zk_proto::message::{ConnectRequest, ConnectResponse, ReadOnlyFlag};

use crate::connection_id::ConnectionId;
use crate::machine::io::{ClockReading, CloseReason, SendKind};
use crate::machine::server::{SENT_BYTES_MAX, ServerMachine};
use crate::tree::TreeChange;

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
