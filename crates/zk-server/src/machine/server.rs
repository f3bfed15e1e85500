//! The machine: its connections, the frames they send, and the passing of time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use lockkeeper_zk_proto::frame::FrameError;
use lockkeeper_zk_proto::message::{Permissions, WatchEventKind, WatcherEvent, encode_event};
use lockkeeper_zk_proto::time::Timestamp;

use crate::auth::is_permitted;
use crate::machine::connection::{Connection, ConnectionStage, HEAD_BYTES};
use crate::machine::io::{ClockReading, CloseReason, Input, Output, RequestHook, SendKind};
use crate::machine::settings::{HANDSHAKE_TIMEOUT, MachineSettings, UNREAD_BYTES_MAX};
use crate::machine::state::{Seed, ServerState};
use crate::measures::ServerMeasures;
use crate::record::encode_transaction;
use crate::session::ConnectionId;
use crate::tree::{AccessList, ChangeError, TreeChange, TreeTransaction, Undo, split_parent};
use crate::watch::ServerWatches;

/// The zxid in the header of events; clients of 3.8 expect no other.
const EVENT_ZXID: i64 = -1;
/// What is sent is never limited here: a list of children may be longer than any request.
pub(super) const SENT_BYTES_MAX: usize = i32::MAX as usize;

/// A change that was made, and what decides who may see it: the access lists of the node and of its parent.
#[derive(Debug)]
pub(super) struct AppliedChange {
    change: TreeChange,
    node: Option<AccessList>,
    parent: Option<AccessList>,
}

/// Counts packets as Apache does: one a frame or four-letter word, each way.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Counters {
    /// Frames and words that came.
    pub received: u64,
    /// Replies and events that were sent.
    pub sent: u64,
}

/// A ZooKeeper server without I/O.
///
/// Everything is decided in [`ServerMachine::handle`]; afterwards all outputs are to be taken by
/// [`ServerMachine::poll_output`] and performed in order. Time must not run backwards. The same inputs give the same
/// outputs: the machine reads no clock and uses no randomness.
pub struct ServerMachine {
    pub(super) settings: MachineSettings,
    pub(super) state: ServerState,
    pub(super) watches: ServerWatches,
    pub(super) connections: BTreeMap<ConnectionId, Connection>,
    pub(super) counters: Counters,
    pub(super) hook: Option<RequestHook>,
    pub(super) measures: Option<Arc<ServerMeasures>>,
    /// While set, nothing may change: what cannot be stored is refused.
    pub(super) refuses_writes: bool,
    /// A planted fault: a session that moves leaves its former connection open.
    pub(super) keeps_former_connections: bool,
    pub(super) outputs: VecDeque<Output>,
    /// How many bytes in the outputs are to be sent.
    pub(super) answered_bytes: usize,
    /// How many bytes of requests are there that were not served yet.
    request_bytes: usize,
    /// Connections without a session, by when they must have one.
    handshakes: BTreeSet<(Timestamp, ConnectionId)>,
    container_check_at: Timestamp,
}

impl fmt::Debug for ServerMachine {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ServerMachine")
            .field("zxid", &format_args!("{:#x}", self.state.zxid))
            .field("nodes", &self.state.tree.len())
            .field("sessions", &self.state.sessions.len())
            .field("connections", &self.connections.len())
            .finish_non_exhaustive()
    }
}

impl ServerMachine {
    /// A server that has never run.
    pub fn new(settings: MachineSettings, seed: Seed, moment: ClockReading) -> Self {
        let state = ServerState::new(settings.tick, seed);
        Self::from_state(settings, state, moment)
    }

    /// A server that continues a state. Its sessions have their whole timeout again, as after a restart of Apache.
    pub(crate) fn from_state(settings: MachineSettings, state: ServerState, moment: ClockReading) -> Self {
        let mut machine = Self {
            settings,
            state,
            watches: ServerWatches::default(),
            connections: BTreeMap::new(),
            counters: Counters::default(),
            hook: None,
            measures: None,
            refuses_writes: false,
            keeps_former_connections: false,
            outputs: VecDeque::new(),
            answered_bytes: 0,
            request_bytes: 0,
            handshakes: BTreeSet::new(),
            container_check_at: moment.now,
        };
        machine.begin_without_connections(moment);
        machine
    }

    fn begin_without_connections(&mut self, moment: ClockReading) {
        let sessions: Vec<_> = self.state.sessions.iter().map(|(id, session)| (id, session.timeout_ms)).collect();
        for (id, timeout_ms) in sessions {
            self.state.sessions.attach(id, None);
            self.state.sessions.touch(id, timeout_ms, moment.now);
        }
        (self.refuses_writes, self.keeps_former_connections) = (false, false);
        (self.answered_bytes, self.request_bytes) = (0, 0);
        self.watches = ServerWatches::default();
        self.connections.clear();
        self.outputs.clear();
        self.handshakes.clear();
        self.container_check_at = moment.now.after(self.settings.container_check);
    }

    /// Handles an input. (The one place where inputs come in.)
    pub fn handle(&mut self, moment: ClockReading, input: Input<'_>) {
        match input {
            Input::Accepted { connection, peer } => self.accept(moment, connection, peer),
            Input::Bytes { connection, bytes } => self.take_bytes(moment, connection, bytes),
            Input::Read { connection } => self.go_on(moment, connection),
            Input::Closed { connection } => {
                self.forget_connection(connection);
            }
            Input::Tick => self.pass_time(moment),
            Input::Expire { session_id } => {
                if self.state.sessions.get(session_id).is_some() {
                    self.expire(moment, session_id);
                }
            }
        }
    }

    /// The next thing to be done outside.
    pub fn poll_output(&mut self) -> Option<Output> {
        let output = self.outputs.pop_front()?;
        if let Output::Send { bytes, .. } = &output {
            self.answered_bytes -= bytes.len();
        }
        Some(output)
    }

    /// When [`Input::Tick`] is due, if nothing else comes.
    pub fn next_wake(&self) -> Option<Timestamp> {
        let handshake = self.handshakes.first().map(|(deadline, _)| *deadline);
        let containers = self.state.tree.has_containers().then_some(self.container_check_at);
        [self.state.sessions.next_expiry(), handshake, containers].into_iter().flatten().min()
    }

    /// Begins a new life with the same nodes and sessions, without connections and watches.
    pub(crate) fn restart(&mut self, moment: ClockReading) {
        self.state.begin_life(moment.wall_ms);
        self.counters = Counters::default();
        self.begin_without_connections(moment);
    }

    /// Goes back to an earlier state, without connections and watches. Numbers still go on from the latest.
    pub(crate) fn go_back(&mut self, mut state: ServerState, moment: ClockReading) {
        state.zxid = state.zxid.max(self.state.zxid);
        self.state = state;
        self.begin_without_connections(moment);
    }

    fn accept(&mut self, moment: ClockReading, id: ConnectionId, peer: SocketAddr) {
        if self.connections.len() >= self.settings.limits.connections_max {
            let reason = CloseReason::ConnectionsFull;
            tracing::info!("refused {peer}: {reason}");
            self.outputs.push_back(Output::Close { connection: id, reason });
            return;
        }
        // A listener for both families sees IPv4 peers as `::ffff:a.b.c.d`; access lists name them as IPv4.
        let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
        let deadline = moment.now.after(HANDSHAKE_TIMEOUT);
        let connection = Connection::new(peer, self.settings.frame_bytes_max, moment, deadline);
        self.connections.insert(id, connection);
        self.handshakes.insert((deadline, id));
    }

    fn take_bytes(&mut self, moment: ClockReading, id: ConnectionId, bytes: &[u8]) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        let mut bytes = bytes;
        if connection.stage == ConnectionStage::Head {
            let missing = HEAD_BYTES - connection.head.len();
            let (head, rest) = bytes.split_at(missing.min(bytes.len()));
            connection.head.extend_from_slice(head);
            bytes = rest;
            if connection.head.len() < HEAD_BYTES {
                return;
            }
            let head = std::mem::take(&mut connection.head);
            if self.report(moment, id, &head) {
                return;
            }
            let Some(connection) = self.connections.get_mut(&id) else {
                return;
            };
            connection.stage = ConnectionStage::Handshake;
            connection.deframer.push(&head);
        }
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.deframer.push(bytes);
        }
        self.take_frames(moment, id);
        self.count_requests(id);
        if self.request_bytes > self.settings.limits.request_bytes_max {
            self.close(id, CloseReason::RequestsFull);
        }
    }

    /// Goes on with a connection whose client has read what was sent to it.
    fn go_on(&mut self, moment: ClockReading, id: ConnectionId) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.unread_bytes = 0;
            connection.is_awaited = false;
        }
        self.take_frames(moment, id);
        self.count_requests(id);
    }

    /// Counts anew what a connection has sent and was not served yet.
    fn count_requests(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.get_mut(&id) {
            let before = std::mem::replace(&mut connection.request_bytes, connection.deframer.len());
            self.request_bytes = self.request_bytes + connection.request_bytes - before;
        }
    }

    fn take_frames(&mut self, moment: ClockReading, id: ConnectionId) {
        loop {
            // A frame can end its own connection; the frames after it are ignored.
            let Some(connection) = self.connections.get_mut(&id) else {
                return;
            };
            if connection.unread_bytes > UNREAD_BYTES_MAX {
                if !std::mem::replace(&mut connection.is_awaited, true) {
                    self.outputs.push_back(Output::TellRead { connection: id });
                }
                return;
            }
            match connection.deframer.next_frame() {
                Ok(Some(_)) if self.answered_bytes > self.settings.limits.answered_bytes_max => {
                    return self.close(id, CloseReason::AnswersFull);
                }
                Ok(None) => return,
                Err(_) => return self.close(id, CloseReason::FrameLength),
                Ok(Some(frame)) => {
                    connection.received_count += 1;
                    self.counters.received += 1;
                    match connection.stage {
                        ConnectionStage::Head | ConnectionStage::Handshake => self.shake_hands(moment, id, frame),
                        ConnectionStage::Serving => self.serve(moment, id, frame),
                    }
                }
            }
        }
    }

    fn pass_time(&mut self, moment: ClockReading) {
        for session_id in self.state.sessions.take_expired(moment.now) {
            self.expire(moment, session_id);
        }
        while let Some((deadline, id)) = self.handshakes.first().copied()
            && deadline <= moment.now
        {
            self.handshakes.remove(&(deadline, id));
            self.close(id, CloseReason::HandshakeTimeout);
        }
        if self.container_check_at <= moment.now {
            self.container_check_at = moment.now.after(self.settings.container_check);
            if !self.refuses_writes {
                for path in self.state.tree.expired_containers(moment.wall_ms) {
                    self.commit_one(moment, TreeChange::Delete { path });
                }
            }
        }
    }

    /// The number of the next transaction.
    pub(super) const fn take_zxid(&mut self) -> i64 {
        self.state.zxid += 1;
        self.state.zxid
    }

    /// Makes a change that was found to be allowed, in a separate transaction.
    pub(super) fn commit_one(&mut self, moment: ClockReading, change: TreeChange) {
        let zxid = self.take_zxid();
        self.commit(moment, zxid, vec![change]);
    }

    /// Makes changes that were found to be allowed, in one transaction.
    pub(super) fn commit(&mut self, moment: ClockReading, zxid: i64, changes: Vec<TreeChange>) {
        let mut done = Vec::with_capacity(changes.len());
        for change in changes {
            let applied = self.apply(moment, zxid, change);
            debug_assert!(applied.is_ok(), "{applied:?}");
            done.extend(applied.map(|(one, _)| one));
        }
        self.publish(moment, zxid, done);
    }

    /// Makes a change, and notes what decides who may see it.
    pub(super) fn apply(
        &mut self,
        moment: ClockReading,
        zxid: i64,
        change: TreeChange,
    ) -> Result<(AppliedChange, Undo), ChangeError> {
        let tree = &mut self.state.tree;
        let undo = tree.apply(&change, zxid, moment.wall_ms)?;
        let access_of = |path: &str| tree.get(path).map(|node| node.access.clone());
        let (node, parent) = match (&change, &undo) {
            (TreeChange::Create { path, access, .. }, _) => (Some(access.clone()), split_parent(path)),
            (TreeChange::Delete { path }, Undo::Deleted { node, .. }) => {
                (Some(node.access.clone()), split_parent(path))
            }
            (TreeChange::SetData { path, .. }, _) => (access_of(path), None),
            _ => (None, None),
        };
        let parent = parent.and_then(|(parent, _)| access_of(parent));
        Ok((AppliedChange { change, node, parent }, undo))
    }

    /// Has changes that were made stored, and their watches fired. A client that may not read a node gets no event of
    /// it, though its watch is over.
    pub(super) fn publish(&mut self, moment: ClockReading, zxid: i64, done: Vec<AppliedChange>) {
        let mut changes = Vec::with_capacity(done.len());
        let mut events = Vec::new();
        for AppliedChange { change, node, parent } in done {
            self.watches.fire(&change, |fired| {
                let of_parent = fired.kind == WatchEventKind::NodeChildrenChanged;
                let access = if of_parent { parent.clone() } else { node.clone() };
                events.push((WatcherEvent::new(fired.kind, fired.path), access, fired.connections));
            });
            changes.push(change);
        }
        if self.settings.keeps_records {
            let transaction = TreeTransaction { zxid, time_ms: moment.wall_ms, changes };
            self.outputs.push_back(Output::Persist(encode_transaction(&transaction)));
        }
        for (event, access, mut connections) in events {
            connections.retain(|id| self.may_hear(*id, access.as_ref()));
            self.send_event(&event, connections);
        }
    }

    fn may_hear(&self, id: ConnectionId, access: Option<&AccessList>) -> bool {
        let Some(connection) = self.connections.get(&id) else {
            return false;
        };
        access.is_none_or(|list| is_permitted(list, Permissions::READ, &connection.identities))
    }

    /// Notes that a connection has its session, new or resumed.
    pub(super) fn begin_serving(&mut self, id: ConnectionId, session_id: i64, timeout_ms: i32, is_new: bool) {
        if let Some(connection) = self.connections.get_mut(&id) {
            let how = if is_new { "opened" } else { "resumed" };
            tracing::info!("{how} session {session_id:#x} of {}, timeout {timeout_ms} ms", connection.peer);
            self.handshakes.remove(&(connection.handshake_deadline, id));
            connection.stage = ConnectionStage::Serving;
            connection.session_id = session_id;
            connection.timeout_ms = timeout_ms;
        }
    }

    pub(super) fn send_event(&mut self, event: &WatcherEvent, to: impl IntoIterator<Item = ConnectionId>) {
        debug_assert_ne!(event.kind, WatchEventKind::None);
        let Ok(frame) = encode_event(EVENT_ZXID, event, SENT_BYTES_MAX) else {
            return;
        };
        let bytes = frame.freeze();
        for connection in to {
            self.send(connection, bytes.clone(), SendKind::Event);
        }
    }

    /// Sends a frame; one that could not be built, because it is too long, ends the connection.
    pub(super) fn send_frame(&mut self, id: ConnectionId, frame: Result<BytesMut, FrameError>, kind: SendKind) {
        match frame {
            Ok(frame) => self.send(id, frame.freeze(), kind),
            Err(_) => self.close(id, CloseReason::FrameLength),
        }
    }

    pub(super) fn send(&mut self, id: ConnectionId, bytes: Bytes, kind: SendKind) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.sent_count += 1;
            connection.unread_bytes += bytes.len();
            self.counters.sent += 1;
            self.answered_bytes += bytes.len();
            self.outputs.push_back(Output::Send { connection: id, bytes, kind });
        }
    }

    /// Closes a connection. Its session lives on.
    pub(super) fn close(&mut self, id: ConnectionId, reason: CloseReason) {
        if let Some(connection) = self.forget_connection(id) {
            let Connection { peer, session_id, .. } = connection;
            match reason {
                CloseReason::SessionClosed => tracing::info!("closed session {session_id:#x} of {peer}"),
                CloseReason::SessionExpired | CloseReason::SessionMoved | CloseReason::Reported => (),
                _ => tracing::info!("refused {peer}: {reason}"),
            }
            self.outputs.push_back(Output::Close { connection: id, reason });
        }
    }

    fn forget_connection(&mut self, id: ConnectionId) -> Option<Connection> {
        let connection = self.connections.remove(&id)?;
        self.request_bytes -= connection.request_bytes;
        self.handshakes.remove(&(connection.handshake_deadline, id));
        self.watches.remove_connection(id);
        let session = self.state.sessions.get(connection.session_id);
        if session.is_some_and(|session| session.connection == Some(id)) {
            self.state.sessions.attach(connection.session_id, None);
        }
        Some(connection)
    }
}
