//! Incoming frames: the answer to the handshake, replies and watch events, in the order in which they came.

use std::time::Duration;

use bytes::Bytes;

use crate::client::anchor::{Exchange, ProofKind};
use crate::client::event::{
    DisconnectReason, ProtocolError, Reply, RequestError, SessionEvent, SessionLoss, WatchNotice,
};
use crate::client::in_flight::SentRequest;
use crate::client::outbox::{Aside, Open};
use crate::client::session::{ClientSession, SessionCredentials, SessionPhase};
use crate::frame::FrameError;
use crate::jute::{DecodeError, Reader};
use crate::message::{
    ConnectResponse, ErrorCode, OpCode, ReadOnlyFlag, ReplyHeader, RequestEffect, WatcherEvent, XID_AUTH,
    XID_NOTIFICATION, XID_PING, ZkResponse, decode_reply_body,
};
use crate::time::Timestamp;

impl ClientSession {
    /// Takes bytes that were read from the connection; `now` must not be earlier than the reading.
    ///
    /// Bytes that are not ZooKeeper's protocol end the connection, told by [`SessionEvent::Disconnected`].
    pub fn handle_bytes(&mut self, now: Timestamp, bytes: &[u8]) {
        match &mut self.phase {
            SessionPhase::Handshake(handshake) => handshake.deframer.push(bytes),
            SessionPhase::Online(online) => {
                online.last_heard_at = now;
                online.deframer.push(bytes);
            }
            SessionPhase::Offline | SessionPhase::Over(_) => return,
        }
        while let Some(frame) = self.next_frame() {
            let handled = frame.map_err(DisconnectReason::from).and_then(|frame| self.handle_frame(now, frame));
            if let Err(reason) = handled {
                self.fail_connection(now, reason);
            }
        }
        self.leave_if_answered(now);
    }

    fn next_frame(&mut self) -> Option<Result<Bytes, FrameError>> {
        match &mut self.phase {
            SessionPhase::Handshake(handshake) => handshake.deframer.next_frame().transpose(),
            SessionPhase::Online(online) => online.deframer.next_frame().transpose(),
            SessionPhase::Offline | SessionPhase::Over(_) => None,
        }
    }

    fn handle_frame(&mut self, now: Timestamp, frame: Bytes) -> Result<(), DisconnectReason> {
        if matches!(self.phase, SessionPhase::Handshake(_)) {
            return self.handle_handshake(now, frame);
        }
        let bytes = frame.len();
        let mut reader = Reader::new(frame);
        let header = ReplyHeader::decode(&mut reader)?;
        match header.xid {
            XID_NOTIFICATION => self.handle_event(header, &mut reader),
            XID_PING => {
                let sent_at = self.in_flight.pop_ping()?;
                self.note_exchange(now, sent_at, OpCode::Ping, header.error);
                Ok(())
            }
            XID_AUTH => self.handle_auth_reply(header),
            xid => {
                let (sent, open) = self.in_flight.pop(xid)?;
                if let Some(node) = open.as_ref().and_then(|open| open.lists.clone()) {
                    self.lengths.note(node, bytes);
                }
                self.note_exchange(now, sent.sent_at, sent.opcode, header.error);
                // Not from pings and events, as in Apache's client: missed events are counted from replies.
                self.last_zxid = self.last_zxid.max(header.zxid);
                if let Some(together) = self.in_flight.together.remove(&xid) {
                    self.handle_together(header, together, open, &mut reader)?;
                    return self.handle_verdict(header.error);
                }
                match open {
                    Some(open) => self.handle_reply(header, sent, open, &mut reader),
                    None if sent.id.is_none() => self.handle_restored(header),
                    None => self.handle_verdict(header.error),
                }
            }
        }
    }

    fn handle_handshake(&mut self, now: Timestamp, frame: Bytes) -> Result<(), DisconnectReason> {
        let response = ConnectResponse::decode(frame)?;
        let SessionPhase::Handshake(handshake) = &self.phase else {
            return Ok(());
        };
        let sent_at = handshake.sent_at.ok_or(ProtocolError::UnaskedHandshake)?;
        if response.read_only == ReadOnlyFlag::Yes {
            return Err(DisconnectReason::ReadOnlyServer);
        }
        let timeout_ms = u64::try_from(response.timeout_ms).unwrap_or(0);
        let is_granted = timeout_ms > 0 && response.session_id != 0;
        match &self.credentials {
            Some(credentials) if !is_granted || response.session_id != credentials.session_id => {
                self.lose_expired();
                return Ok(());
            }
            None if !is_granted => return Err(ProtocolError::SessionRefused.into()),
            Some(_) | None => (),
        }
        let (session_id, password) = (response.session_id, response.password.unwrap_or_default());
        self.go_online(now, sent_at, SessionCredentials { session_id, password }, Duration::from_millis(timeout_ms));
        Ok(())
    }

    fn handle_event(&mut self, header: ReplyHeader, reader: &mut Reader) -> Result<(), DisconnectReason> {
        let event = WatcherEvent::decode(reader)?;
        if !event.path.is_empty() {
            let fired = self.watches.fire(&event);
            let notice = WatchNotice { epoch: self.epoch, zxid: header.zxid, event, fired };
            self.events.push_back(SessionEvent::Watch(notice));
        }
        Ok(())
    }

    fn handle_auth_reply(&mut self, header: ReplyHeader) -> Result<(), DisconnectReason> {
        let sent = self.in_flight.pop_auth()?;
        if header.error != ErrorCode::Ok {
            self.lose(SessionLoss::AuthFailed);
            return Ok(());
        }
        if let Some(id) = self.auths.get_mut(sent.index).and_then(|auth| auth.untold.take()) {
            let reply = Reply { id, epoch: self.epoch, zxid: header.zxid, watch: None, outcome: Ok(ZkResponse::Done) };
            self.events.push_back(SessionEvent::Reply(reply));
        }
        Ok(())
    }

    fn handle_restored(&mut self, header: ReplyHeader) -> Result<(), DisconnectReason> {
        // A server that does not let us in refuses whatever is asked first.
        self.handle_verdict(header.error)?;
        if header.error != ErrorCode::Ok {
            return Err(ProtocolError::WatchesRefused(header.error).into());
        }
        if let SessionPhase::Online(online) = &mut self.phase {
            online.restores_open -= 1;
            if online.restores_open == 0 {
                self.events.push_back(SessionEvent::WatchesRestored { epoch: self.epoch });
            }
        }
        Ok(())
    }

    fn handle_reply(
        &mut self,
        header: ReplyHeader,
        sent: SentRequest,
        open: Open,
        reader: &mut Reader,
    ) -> Result<(), DisconnectReason> {
        let Some(id) = sent.id else {
            return Ok(());
        };
        if let (true, Some(node), ErrorCode::Ok) = (open.is_outdated, open.lists.clone(), header.error) {
            self.list_again(id, &node, open);
            return Ok(());
        }
        self.forget_deadline(open.deadline, id);
        let is_set = matches!(open.aside, Aside::Watch) && self.watches.answer(id.watch(), header.error);
        if let (Aside::Removal { path, kind, .. }, ErrorCode::Ok) = (&open.aside, header.error) {
            self.watches.remove(path, *kind);
        }
        let decoded = decode_reply_body(header, open.opcode, reader);
        let unreadable = decoded.as_ref().err().cloned();
        if open.aside.is_told() {
            let outcome = decoded.map_err(RequestError::Malformed);
            let outcome = outcome.and_then(|answer| answer.map_err(RequestError::Refused));
            let watch = is_set.then(|| id.watch());
            let reply = Reply { id, epoch: self.epoch, zxid: header.zxid, watch, outcome };
            self.events.push_back(SessionEvent::Reply(reply));
        }
        if let Some(error) = unreadable {
            return Err(error.into());
        }
        self.handle_verdict(header.error)?;
        match (open.aside, header.error) {
            (Aside::Close, ErrorCode::Ok) => self.lose(SessionLoss::Closed),
            // Not closed, for an overload perhaps: the next connection tries again.
            (Aside::Close, _) => return Err(DisconnectReason::Closed),
            _ => (),
        }
        Ok(())
    }

    /// Draws from a reply's error its meaning for the session.
    fn handle_verdict(&mut self, error: ErrorCode) -> Result<(), DisconnectReason> {
        match error {
            ErrorCode::SessionExpired => self.lose_expired(),
            ErrorCode::AuthFailed | ErrorCode::SessionClosedRequireSaslAuth => self.lose(SessionLoss::AuthFailed),
            ErrorCode::SessionMoved => return Err(DisconnectReason::SessionMoved),
            _ => (),
        }
        Ok(())
    }

    /// Tells the anchor of an answered request, if the answer is one that proves anything.
    fn note_exchange(&mut self, received_at: Timestamp, sent_at: Timestamp, opcode: OpCode, error: ErrorCode) {
        if error.is_verdict() {
            let proof = match opcode.effect() {
                RequestEffect::Write => ProofKind::Write,
                RequestEffect::Read => ProofKind::SignOfLife,
            };
            self.anchor.handle_exchange(Exchange { sent_at, received_at, proof });
        }
    }
}

impl From<FrameError> for DisconnectReason {
    fn from(error: FrameError) -> Self {
        Self::Protocol(ProtocolError::Frame(error))
    }
}

impl From<DecodeError> for DisconnectReason {
    fn from(error: DecodeError) -> Self {
        Self::Protocol(ProtocolError::Message(error))
    }
}

impl From<ProtocolError> for DisconnectReason {
    fn from(error: ProtocolError) -> Self {
        Self::Protocol(error)
    }
}
