//! The life of a session: connections come and go, timers run out, and the session ends once.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;

use crate::client::config::SessionConfig;
use crate::client::event::{
    ConnectionEpoch, DisconnectReason, ProtocolError, Reply, RequestError, RequestId, SessionEvent, SessionLoss,
    WhyUnanswered, WhyUnsent,
};
use crate::client::outbox::{Aside, Open};
use crate::client::session::{
    ClientSession, Closing, ControlFrame, Handshake, Online, SessionCredentials, SessionPhase,
};
use crate::frame::Deframer;
use crate::message::{ConnectRequest, ReadOnlyFlag, XID_SET_WATCHES, ZkRequest, encode_request};
use crate::time::Timestamp;

/// The password of a new session, as all clients send it: ZooKeeper 3.4 fills it in place, and never answers one that
/// sends none.
const NO_PASSWORD: [u8; 16] = [0; 16];

impl ClientSession {
    /// Gives the connections from now on this long to answer the handshake.
    pub const fn limit_handshakes(&mut self, handshake_timeout: Duration) {
        self.config.handshake_timeout = handshake_timeout;
    }

    /// Notes that there is a connection; the handshake is ready to be transmitted.
    ///
    /// A connection that was there before is given up. Does nothing once the session is over.
    pub fn handle_connected(&mut self, now: Timestamp) {
        self.fail_connection(now, DisconnectReason::Closed);
        if matches!(self.phase, SessionPhase::Over(_)) {
            return;
        }
        self.epoch = ConnectionEpoch(self.epoch.0 + 1);
        let request = ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: self.last_zxid,
            timeout_ms: self.config.session_timeout_ms(),
            session_id: self.credentials.as_ref().map_or(0, |credentials| credentials.session_id),
            password: Some(
                self.credentials.as_ref().map_or(Bytes::from_static(&NO_PASSWORD), |known| known.password.clone()),
            ),
            read_only: ReadOnlyFlag::No,
        };
        let frame = request.to_frame(self.config.frame_bytes_max);
        self.phase = SessionPhase::Handshake(Handshake {
            deframer: Deframer::new(self.config.frame_bytes_max),
            deadline: now.after(self.config.handshake_timeout),
            frame: None,
            sent_at: None,
        });
        match (frame, &mut self.phase) {
            (Ok(frame), SessionPhase::Handshake(handshake)) => handshake.frame = Some(frame),
            (Err(error), _) => self.fail_connection(now, DisconnectReason::Protocol(ProtocolError::Frame(error))),
            (Ok(_), _) => (),
        }
    }

    /// Notes that the connection is gone.
    ///
    /// The session is given up a whole timeout later, unless a server goes on with it before.
    pub fn handle_disconnected(&mut self, now: Timestamp) {
        self.fail_connection(now, DisconnectReason::Closed);
    }

    /// Goes on over a new connection, if this process has stood still on the present one since its last proof;
    /// answers whether it does. Requests wait meanwhile, and none fails: the connection is given up only after the
    /// answers to all sent ones.
    ///
    /// After a stall the newest answers are old. On the same connection it takes half a tick until newer ones prove
    /// anything (see [`Anchor`](crate::client::Anchor)); a handshake goes through the leader itself, and proves at
    /// once.
    pub fn renew(&mut self, now: Timestamp) -> bool {
        let proved_at = self.anchor.anchored_at();
        match &mut self.phase {
            SessionPhase::Online(online) if online.stalled_until > proved_at && self.closing == Closing::No => {
                online.is_leaving = true;
                self.leave_if_answered(now);
                true
            }
            _ => false,
        }
    }

    /// Gives up a connection that is to be left, once nothing is unanswered on it.
    pub(super) fn leave_if_answered(&mut self, now: Timestamp) {
        let is_leaving = matches!(&self.phase, SessionPhase::Online(online) if online.is_leaving);
        if is_leaving && self.in_flight.oldest_sent_at().is_none() {
            self.fail_connection(now, DisconnectReason::Renewed);
        }
    }

    pub(super) fn go_online(
        &mut self,
        now: Timestamp,
        sent_at: Timestamp,
        granted: SessionCredentials,
        timeout: Duration,
    ) {
        let SessionPhase::Handshake(Handshake { deframer, .. }) =
            std::mem::replace(&mut self.phase, SessionPhase::Offline)
        else {
            return;
        };
        self.reach_deadline = None;
        self.anchor.handle_connected(sent_at, now, timeout);
        self.credentials = Some(granted);
        let mut control: VecDeque<_> = (0..self.auths.len()).map(ControlFrame::Auth).collect();
        let restores = self.encode_restores();
        let restores_open = restores.len();
        control.extend(restores);
        self.phase = SessionPhase::Online(Online {
            deframer,
            timeout,
            last_sent_at: sent_at,
            last_heard_at: now,
            control,
            ping_waits_since: None,
            restores_open,
            stalled_until: None,
            is_leaving: false,
        });
        let epoch = self.epoch;
        self.events.push_back(SessionEvent::Connected { epoch });
        if restores_open == 0 {
            self.events.push_back(SessionEvent::WatchesRestored { epoch });
        }
        if self.closing == Closing::Asked {
            self.push_close();
        }
    }

    fn encode_restores(&self) -> Vec<ControlFrame> {
        let frame_bytes_max = self.config.frame_bytes_max;
        let encode = |watches| {
            let request = ZkRequest::SetWatches(watches);
            let frame = encode_request(XID_SET_WATCHES, &request, frame_bytes_max);
            ControlFrame::Restore(frame.expect("watches that do not fit were refused"), request.opcode())
        };
        self.watches.restore(self.last_zxid, frame_bytes_max / 2).into_iter().map(encode).collect()
    }

    /// Gives up the connection, if there is one, and tells how each request that was sent on it ended.
    pub(super) fn fail_connection(&mut self, now: Timestamp, reason: DisconnectReason) {
        match &self.phase {
            SessionPhase::Handshake(_) => (),
            SessionPhase::Online(online) => self.reach_deadline = Some(now.after(online.timeout)),
            SessionPhase::Offline | SessionPhase::Over(_) => return,
        }
        self.phase = SessionPhase::Offline;
        self.anchor.handle_disconnected();
        self.outbox.handle_disconnected();
        self.events.push_back(SessionEvent::Disconnected { epoch: self.epoch, reason });
        self.fail_in_flight(WhyUnanswered::ConnectionLost);
        if self.closing == Closing::Asked && self.credentials.is_none() {
            // There never was a session that we know of: there is nothing to close.
            self.lose(SessionLoss::Closed);
        }
    }

    /// Ends the session for good, and tells how each request ended.
    pub(super) fn lose(&mut self, reason: SessionLoss) {
        if matches!(self.phase, SessionPhase::Over(_)) {
            return;
        }
        self.phase = SessionPhase::Over(reason);
        self.watches.clear();
        self.events.push_back(SessionEvent::Over(reason));
        self.fail_in_flight(WhyUnanswered::Over(reason));
        let unsent = RequestError::NotSent(WhyUnsent::Over(reason));
        while let Some((id, request)) = self.outbox.pop() {
            if request.open.aside.is_told() {
                self.tell_failure(id, unsent.clone());
            }
        }
        let untold: Vec<_> = self.auths.drain(..).filter_map(|auth| auth.untold).collect();
        for id in untold {
            self.tell_failure(id, unsent.clone());
        }
        self.deadlines.clear();
    }

    /// Ends the session because the service has: an expiry while we close it is what we asked for.
    pub(super) fn lose_expired(&mut self) {
        self.lose(match self.closing {
            Closing::No => SessionLoss::Expired,
            Closing::Asked => SessionLoss::Closed,
        });
    }

    /// When the session is given up as things are: not while it is being closed, which its driver bounds.
    pub(super) fn reach_deadline(&self) -> Option<Timestamp> {
        match (&self.phase, self.closing) {
            (SessionPhase::Offline | SessionPhase::Handshake(_), Closing::No) => self.reach_deadline,
            _ => None,
        }
    }

    fn fail_in_flight(&mut self, why: WhyUnanswered) {
        for (id, open) in self.in_flight.take() {
            self.forget_deadline(open.deadline, id);
            self.fail_sent(id, &open, why);
        }
    }

    /// Tells that a request that was sent will not be answered.
    pub(super) fn fail_sent(&mut self, id: RequestId, open: &Open, why: WhyUnanswered) {
        if matches!(open.aside, Aside::Watch) {
            self.watches.forget(id.watch());
        }
        if open.aside.is_told() {
            self.tell_failure(id, RequestError::Unanswered { effect: open.opcode.effect(), why });
        }
    }

    pub(super) fn tell_failure(&mut self, id: RequestId, error: RequestError) {
        let reply = Reply { id, epoch: self.epoch, zxid: 0, watch: None, outcome: Err(error) };
        self.events.push_back(SessionEvent::Reply(reply));
    }

    /// How long the server may stay silent on the present connection.
    pub(super) fn silence_deadline(&self, online: &Online) -> Option<Timestamp> {
        let unanswered_since =
            [self.in_flight.oldest_sent_at(), online.ping_waits_since].into_iter().flatten().min()?;
        Some(unanswered_since.max(online.last_heard_at).after(SessionConfig::silence_max(online.timeout)))
    }

    /// Takes the next event; `None` until there is one.
    pub fn poll_event(&mut self) -> Option<SessionEvent> {
        self.events.pop_front()
    }

    /// When to call [`handle_timeout`](Self::handle_timeout); `None` if there is no timer now.
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        let deadline = self.deadlines.first().map(|(deadline, _)| *deadline);
        let connection = match &self.phase {
            SessionPhase::Offline | SessionPhase::Over(_) => None,
            SessionPhase::Handshake(handshake) => Some(handshake.deadline),
            SessionPhase::Online(online) => {
                [self.ping_due(online), self.silence_deadline(online)].into_iter().flatten().min()
            }
        };
        [deadline, connection, self.reach_deadline()].into_iter().flatten().min()
    }

    /// Handles the passing of time: gives up requests at their deadlines, connections that have gone silent and a
    /// session that no server went on with, and has a ping sent when one is due.
    ///
    /// Calling it early or often does no harm.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        while let Some((_, id)) = self.deadlines.first().copied().filter(|(deadline, _)| *deadline <= now) {
            self.deadlines.pop_first();
            self.give_up(id);
        }
        if self.reach_deadline().is_some_and(|deadline| deadline <= now) {
            self.lose(SessionLoss::OutOfReach);
        }
        match &self.phase {
            SessionPhase::Handshake(handshake) if handshake.deadline <= now => {
                self.fail_connection(now, DisconnectReason::HandshakeTimeout);
            }
            SessionPhase::Online(online) if self.silence_deadline(online).is_some_and(|deadline| deadline <= now) => {
                self.fail_connection(now, DisconnectReason::Silent);
            }
            SessionPhase::Online(online) if self.ping_due(online).is_some_and(|due| due <= now) => self.push_ping(now),
            _ => (),
        }
    }

    /// When the next ping is due; `None` while one waits to be handed out.
    fn ping_due(&self, online: &Online) -> Option<Timestamp> {
        let due = online.last_sent_at.after(SessionConfig::ping_after(online.timeout));
        (online.ping_waits_since.is_none() && !online.is_leaving).then_some(due)
    }

    fn push_ping(&mut self, now: Timestamp) {
        if let SessionPhase::Online(online) = &mut self.phase {
            online.control.push_back(ControlFrame::Ping);
            online.ping_waits_since = Some(now);
        }
    }

    fn give_up(&mut self, id: RequestId) {
        if let Some(unsent) = self.outbox.remove(id) {
            if matches!(unsent.open.aside, Aside::Watch) {
                self.watches.forget(id.watch());
            }
            self.tell_failure(id, RequestError::NotSent(WhyUnsent::Deadline));
        } else if let Some(open) = self.in_flight.open.remove(&id) {
            self.fail_sent(id, &open, WhyUnanswered::Deadline);
        }
    }
}
