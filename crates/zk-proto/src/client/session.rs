//! The machine: its state, its commands and its getters. Inputs and outputs have separate files.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::time::Duration;

use bytes::{Bytes, BytesMut};

use crate::client::anchor::Anchor;
use crate::client::config::{AUTHS_MAX, SessionConfig};
use crate::client::event::{ConnectionEpoch, RequestId, SessionEvent, SessionLoss, SubmitError};
use crate::client::in_flight::{InFlight, ListLengths};
use crate::client::outbox::{Aside, Audience, RequestQueue, SendRank, Unsent};
use crate::frame::{Deframer, FrameError};
use crate::message::{Auth, OpCode, WatcherKind, XID_AUTH, XID_FIRST, ZkRequest, encode_request};
use crate::time::Timestamp;
use crate::watch::{WatchId, WatchRegistry};

/// Runs the client's half of one session, over one connection after another.
///
/// It has no socket and no clock. Its methods come in four kinds:
///
/// - *getters*, named by nouns: [`state`](Self::state), [`safe_until`](Self::safe_until), …
/// - *commands* of the application: [`submit`](Self::submit), [`submit_ahead`](Self::submit_ahead),
///   [`postpone_all`](Self::postpone_all), [`add_auth`](Self::add_auth),
///   [`unwatch`](Self::unwatch), [`cancel`](Self::cancel), [`close`](Self::close);
/// - *inputs*, named `handle_*`, which take the time: [`handle_connected`](Self::handle_connected),
///   [`handle_bytes`](Self::handle_bytes), [`handle_disconnected`](Self::handle_disconnected),
///   [`handle_timeout`](Self::handle_timeout);
/// - *outputs*, named `poll_*`, to be drained after every command and input, in this order:
///   [`poll_event`](Self::poll_event) until there is none, [`poll_transmit`](Self::poll_transmit) while the socket
///   takes bytes, then [`poll_timeout`](Self::poll_timeout) for when to call `handle_timeout`.
///
/// Time must not run backwards. Stamps must err on the safe side: read the time given to `poll_transmit` before the
/// bytes are written, and the time given to `handle_bytes` after they were read. Bytes that have arrived should be
/// handled before a timeout that has passed, or a process that was stopped gives up a good connection.
///
/// One object is one session. Once [`SessionEvent::Over`] was told it stays over; the next session is another object.
pub struct ClientSession {
    pub(super) config: SessionConfig,
    pub(super) phase: SessionPhase,
    pub(super) epoch: ConnectionEpoch,
    pub(super) credentials: Option<SessionCredentials>,
    pub(super) last_zxid: i64,
    pub(super) closing: Closing,
    /// When the session is given up unless a server goes on with it; `None` while one does, and before the first.
    pub(super) reach_deadline: Option<Timestamp>,
    pub(super) anchor: Anchor,
    pub(super) auths: Vec<StoredAuth>,
    pub(super) watches: WatchRegistry,
    pub(super) outbox: RequestQueue,
    pub(super) in_flight: InFlight,
    pub(super) lengths: ListLengths,
    pub(super) deadlines: BTreeSet<(Timestamp, RequestId)>,
    pub(super) events: VecDeque<SessionEvent>,
    next_id: u64,
    next_xid: i32,
}

/// Proves to a server that a session is ours. It holds a secret: a client that has it can go on with the session or end
/// it.
#[derive(Clone, Eq, PartialEq)]
pub struct SessionCredentials {
    /// The session.
    pub session_id: i64,
    /// Its password.
    pub password: Bytes,
}

/// Tells how a session stands with the service.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "a driver handles every one")]
pub enum SessionState {
    /// There is no connection.
    Offline,
    /// There is a connection, and the server has not answered the handshake.
    Handshake,
    /// Requests go out and are answered.
    Online,
    /// The session is over for good.
    Over(SessionLoss),
}

/// The state, with what belongs to one connection.
#[derive(Debug)]
pub(super) enum SessionPhase {
    Offline,
    Handshake(Handshake),
    Online(Online),
    Over(SessionLoss),
}

#[derive(Debug)]
pub(super) struct Handshake {
    pub(super) deframer: Deframer,
    pub(super) deadline: Timestamp,
    /// The request, until it is handed out.
    pub(super) frame: Option<BytesMut>,
    pub(super) sent_at: Option<Timestamp>,
}

#[derive(Debug)]
pub(super) struct Online {
    pub(super) deframer: Deframer,
    pub(super) timeout: Duration,
    pub(super) last_sent_at: Timestamp,
    pub(super) last_heard_at: Timestamp,
    /// What goes out before any request: credentials, watches, pings.
    pub(super) control: VecDeque<ControlFrame>,
    /// Since when a ping waits to be handed out.
    pub(super) ping_waits_since: Option<Timestamp>,
    /// How many requests to set watches again are unanswered.
    pub(super) restores_open: usize,
    /// When something was sent last after so long a time that this process must have stood still.
    pub(super) stalled_until: Option<Timestamp>,
    /// Whether nothing goes out any more, and the connection is given up once all is answered.
    pub(super) is_leaving: bool,
}

#[derive(Debug)]
pub(super) enum ControlFrame {
    Auth(usize),
    Restore(BytesMut, OpCode),
    Ping,
}

#[derive(Debug)]
pub(super) struct StoredAuth {
    pub(super) auth: Auth,
    /// The request whose caller is to be told of the first answer.
    pub(super) untold: Option<RequestId>,
}

/// How far closing has come.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Closing {
    No,
    Asked,
}

impl ClientSession {
    /// Starts offline; the first connection makes a new session.
    pub fn new(config: SessionConfig) -> Self {
        Self {
            config,
            phase: SessionPhase::Offline,
            epoch: ConnectionEpoch::default(),
            credentials: None,
            last_zxid: 0,
            closing: Closing::No,
            reach_deadline: None,
            anchor: Anchor::new(config.anchor),
            auths: Vec::new(),
            watches: WatchRegistry::new(),
            outbox: RequestQueue::default(),
            in_flight: InFlight::default(),
            lengths: ListLengths::default(),
            deadlines: BTreeSet::new(),
            events: VecDeque::new(),
            next_id: 1,
            next_xid: XID_FIRST,
        }
    }

    /// Authenticates this connection and every later one, before anything else is sent on it.
    ///
    /// A [`SessionEvent::Reply`] tells of the first time. Refused credentials end the session.
    ///
    /// # Errors
    ///
    /// Fails, without any effect, if the credentials are too large or the session has [`AUTHS_MAX`] of them.
    pub fn add_auth(&mut self, auth: Auth) -> Result<RequestId, SubmitError> {
        self.check_open()?;
        if self.auths.len() >= AUTHS_MAX {
            return Err(SubmitError::TooMany);
        }
        encode_auth(&auth, self.config.frame_bytes_max).map_err(SubmitError::TooLarge)?;
        let id = self.mint_id();
        if let SessionPhase::Online(online) = &mut self.phase {
            online.control.push_back(ControlFrame::Auth(self.auths.len()));
        }
        self.auths.push(StoredAuth { auth, untold: Some(id) });
        Ok(id)
    }

    /// Drops a watch that no caller waits for any more, and has the server drop it too where that hits no other.
    pub fn unwatch(&mut self, watch: WatchId) {
        let removable = self.watches.forget(watch);
        if let (Some((path, kind)), SessionPhase::Online(_), Closing::No) = (removable, &self.phase, self.closing) {
            self.push_removal(path, kind);
        }
    }

    /// Ends the session once everything submitted so far is sent, over as many connections as it takes.
    ///
    /// [`SessionEvent::Over`] tells when the server has ended it, or at once if there was none. A caller that cannot
    /// wait drops the object; the service then ends the session at its timeout.
    pub fn close(&mut self) {
        if matches!(self.phase, SessionPhase::Over(_)) || self.closing == Closing::Asked {
            return;
        }
        self.closing = Closing::Asked;
        match self.phase {
            SessionPhase::Offline if self.credentials.is_none() => self.lose(SessionLoss::Closed),
            SessionPhase::Online(ref mut online) => {
                // The end of the session is as good on this connection as on another one.
                online.is_leaving = false;
                self.push_close();
            }
            SessionPhase::Offline | SessionPhase::Handshake(_) | SessionPhase::Over(_) => (),
        }
    }

    /// How the session stands.
    pub const fn state(&self) -> SessionState {
        match self.phase {
            SessionPhase::Offline => SessionState::Offline,
            SessionPhase::Handshake(_) => SessionState::Handshake,
            SessionPhase::Online(_) => SessionState::Online,
            SessionPhase::Over(reason) => SessionState::Over(reason),
        }
    }

    /// The present connection, or the last one; 0 before the first.
    pub const fn epoch(&self) -> ConnectionEpoch {
        self.epoch
    }

    /// The credentials to go on with the session elsewhere; `None` before there is one.
    pub const fn credentials(&self) -> Option<&SessionCredentials> {
        self.credentials.as_ref()
    }

    /// The timeout granted on the present connection.
    pub const fn timeout(&self) -> Option<Duration> {
        match &self.phase {
            SessionPhase::Online(online) => Some(online.timeout),
            _ => None,
        }
    }

    /// Until when the service has certainly not ended the session; `None` while nothing is proved, when we are closing
    /// the session, and when it is over.
    ///
    /// See [`Anchor`] for the bounds under which that is so.
    pub fn safe_until(&self) -> Option<Timestamp> {
        match (&self.phase, self.closing) {
            (SessionPhase::Over(_), _) | (_, Closing::Asked) => None,
            (_, Closing::No) => self.anchor.safe_until(),
        }
    }

    /// The account from which [`safe_until`](Self::safe_until) is drawn.
    pub const fn anchor(&self) -> &Anchor {
        &self.anchor
    }

    /// The newest transaction seen in a reply.
    pub const fn last_zxid(&self) -> i64 {
        self.last_zxid
    }

    /// How many requests wait to be sent.
    pub fn queued(&self) -> usize {
        self.outbox.len()
    }

    /// Whether a request waits that goes ahead of all others.
    pub fn has_urgent(&self) -> bool {
        self.outbox.next().is_some_and(|(rank, _)| rank == SendRank::Ahead)
    }

    /// How many requests were sent and are not answered, pings and authentications aside.
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// What the session watches.
    pub const fn watches(&self) -> &WatchRegistry {
        &self.watches
    }

    pub(super) fn check_open(&self) -> Result<(), SubmitError> {
        match (&self.phase, self.closing) {
            (SessionPhase::Over(reason), _) => Err(SubmitError::Over(*reason)),
            (_, Closing::Asked) => Err(SubmitError::Closing),
            (_, Closing::No) => Ok(()),
        }
    }

    pub(super) fn mint_id(&mut self) -> RequestId {
        let id = RequestId(self.next_id);
        self.next_id += 1;
        id
    }

    /// The next xid of an ordinary request; they grow over all connections of the session.
    ///
    /// A member of an ensemble knows the outcome of a write by session and xid alone. A write that was sent over one
    /// connection and commits after the session moved to another member ends the request there that has its xid: a
    /// `sync` is answered before the member has caught up, or with the error of the write.
    pub(super) const fn mint_xid(&mut self) -> i32 {
        let xid = self.next_xid;
        self.next_xid = if xid == i32::MAX { XID_FIRST } else { xid + 1 };
        xid
    }

    pub(super) fn forget_deadline(&mut self, deadline: Option<Timestamp>, id: RequestId) {
        if let Some(deadline) = deadline {
            self.deadlines.remove(&(deadline, id));
        }
    }

    /// Queues the request that ends the session, behind all others.
    pub(super) fn push_close(&mut self) {
        let frame = encode_request(0, &ZkRequest::CloseSession, self.config.frame_bytes_max);
        let frame = frame.expect("a bare header fits into any frame");
        let id = self.mint_id();
        self.outbox.push(id, Unsent::own(frame, OpCode::CloseSession, Aside::Close), SendRank::InTurn);
    }

    /// Queues the removal of a forgotten watch; skips it if there is no room, since a stray event does no harm.
    fn push_removal(&mut self, path: String, kind: WatcherKind) {
        let request = ZkRequest::RemoveWatches { path: path.clone(), kind };
        let Ok(frame) = encode_request(0, &request, self.config.frame_bytes_max) else {
            return;
        };
        if self.outbox.is_full_for(frame.len(), SendRank::InTurn) {
            return;
        }
        let id = self.mint_id();
        let aside = Aside::Removal { path, kind, audience: Audience::NoCaller };
        self.outbox.push(id, Unsent::own(frame, OpCode::RemoveWatches, aside), SendRank::InTurn);
    }
}

pub(super) fn encode_auth(auth: &Auth, frame_bytes_max: usize) -> Result<BytesMut, FrameError> {
    encode_request(XID_AUTH, &ZkRequest::Auth(auth.clone()), frame_bytes_max)
}

impl SessionState {
    /// Whether requests go out now.
    pub const fn is_online(self) -> bool {
        matches!(self, Self::Online)
    }
}

impl fmt::Debug for ClientSession {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ClientSession")
            .field("state", &self.state())
            .field("epoch", &self.epoch)
            .field("credentials", &self.credentials)
            .field("queued", &self.queued())
            .field("in_flight", &self.in_flight())
            .field("watches", &self.watches.len())
            .field("safe_until", &self.safe_until())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for SessionCredentials {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "session {:#x}", self.session_id)
    }
}
