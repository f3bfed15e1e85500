//! Delivery of the core's outputs: in order, none before its record is stored, and with the faults that were asked for.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use lockkeeper_zk_proto::message::OpCode;
use tokio::time::Instant;

use crate::machine::{CloseReason, Output, SendKind};
use crate::measures::{HANDSHAKE, ServerMeasures};
use crate::server::link::ClientLink;
use crate::session::ConnectionId;

/// Where the error is in a reply: behind its length, the request's number and the transaction's.
const ERROR_AT: usize = 4 + 4 + 8;

/// An output, and how many records must be stored before it may leave.
#[derive(Debug)]
struct HeldOutput {
    after_record: u64,
    /// When the request was read that it answers.
    asked_at: Option<Instant>,
    what: OutgoingItem,
}

/// What leaves.
#[derive(Debug)]
enum OutgoingItem {
    Send(ConnectionId, Bytes, SendKind),
    TellRead(ConnectionId),
    Close(ConnectionId, CloseReason),
}

/// What came of letting things go.
#[derive(Debug, Default)]
pub(super) struct Flushed {
    pub(super) cut: Vec<ConnectionId>,
    /// Those whose client has read all already.
    pub(super) read: Vec<ConnectionId>,
}

/// The connections, and what is on its way to them.
#[derive(Debug)]
pub(super) struct Delivery {
    links: HashMap<ConnectionId, ClientLink>,
    held: VecDeque<HeldOutput>,
    held_bytes: usize,
    /// How many bytes of answers may wait to be stored before nothing more is accepted.
    held_bytes_max: usize,
    /// How many records were handed out to be stored.
    records_out: u64,
    records_stored: u64,
    pub(super) delay: Duration,
    pub(super) is_blackholed: bool,
    drop_replies: VecDeque<OpCode>,
    /// How many answers are held.
    outstanding: u64,
    measures: Arc<ServerMeasures>,
}

impl Delivery {
    pub(super) fn new(held_bytes_max: usize, measures: Arc<ServerMeasures>) -> Self {
        Self {
            links: HashMap::new(),
            held: VecDeque::new(),
            held_bytes: 0,
            held_bytes_max,
            records_out: 0,
            records_stored: 0,
            delay: Duration::ZERO,
            is_blackholed: false,
            drop_replies: VecDeque::new(),
            outstanding: 0,
            measures,
        }
    }

    pub(super) fn add(&mut self, id: ConnectionId, link: ClientLink) {
        self.links.insert(id, link);
    }

    /// Forgets a connection whose task has ended.
    pub(super) fn forget(&mut self, id: ConnectionId) {
        self.links.remove(&id);
    }

    pub(super) fn connections_count(&self) -> usize {
        self.links.len()
    }

    pub(super) fn measures(&self) -> &ServerMeasures {
        &self.measures
    }

    pub(super) fn drop_next_reply(&mut self, opcode: OpCode) {
        self.drop_replies.push_back(opcode);
    }

    /// Whether so much waits to be stored that nothing more should be accepted.
    pub(super) const fn is_full(&self) -> bool {
        self.held_bytes > self.held_bytes_max
    }

    /// Whether everything that was handed out is stored.
    pub(super) const fn is_all_stored(&self) -> bool {
        self.records_out == self.records_stored
    }

    /// Takes an output, of a request that was read then; a record is handed back to be stored.
    pub(super) fn take(&mut self, output: Output, asked_at: Option<Instant>) -> Option<Bytes> {
        let what = match output {
            Output::Persist(record) => {
                self.records_out += 1;
                return Some(record);
            }
            Output::Send { connection, bytes, kind } => {
                self.held_bytes += bytes.len();
                self.outstanding += u64::from(is_answer(kind));
                OutgoingItem::Send(connection, bytes, kind)
            }
            Output::TellRead { connection } => {
                if let Some(link) = self.links.get(&connection) {
                    link.stop_reading();
                }
                OutgoingItem::TellRead(connection)
            }
            Output::Close { connection, reason } => {
                if let Some(reason) = reason.refusal() {
                    self.measures.refused(reason);
                }
                OutgoingItem::Close(connection, reason)
            }
        };
        self.held.push_back(HeldOutput { after_record: self.records_out, asked_at, what });
        None
    }

    /// Notes that this many more records are stored.
    pub(super) fn stored(&mut self, count: u64) {
        self.records_stored += count;
    }

    /// Cuts all connections and forgets what was on its way to them; returns those connections.
    pub(super) fn cut_all_links(&mut self) -> Vec<ConnectionId> {
        self.held.clear();
        self.held_bytes = 0;
        self.outstanding = 0;
        self.measures.set_outstanding(0);
        let cut = |(id, link): (ConnectionId, ClientLink)| {
            link.reset();
            id
        };
        self.links.drain().map(cut).collect()
    }

    /// Cuts all connections and forgets the records too: none of them will be stored.
    pub(super) fn cut_all(&mut self) {
        self.cut_all_links();
        self.records_stored = self.records_out;
    }

    /// Notes that a connection's client has read most of what was sent, and has its requests read again.
    pub(super) fn go_on_reading(&self, id: ConnectionId) {
        if let Some(link) = self.links.get(&id) {
            link.go_on_reading();
        }
    }

    /// Lets everything go that may.
    pub(super) fn flush(&mut self) -> Flushed {
        let mut flushed = Flushed::default();
        // One look at the clock for all that go together.
        let mut now = None;
        while !self.is_blackholed
            && let Some(held) = self.held.front()
            && held.after_record <= self.records_stored
            && let Some(held) = self.held.pop_front()
        {
            match held.what {
                OutgoingItem::Send(id, bytes, kind) => {
                    self.held_bytes -= bytes.len();
                    self.outstanding -= u64::from(is_answer(kind));
                    if let Some(asked_at) = held.asked_at {
                        let now = *now.get_or_insert_with(Instant::now);
                        self.measure(kind, &bytes, now.saturating_duration_since(asked_at));
                    }
                    if !self.send(id, bytes, kind) {
                        flushed.cut.push(id);
                    }
                }
                OutgoingItem::TellRead(id) => {
                    if self.links.get(&id).is_some_and(ClientLink::tell_when_read) {
                        flushed.read.push(id);
                    }
                }
                OutgoingItem::Close(id, reason) => {
                    tracing::debug!(connection = %id, %reason, "closing");
                    self.links.remove(&id);
                }
            }
        }
        self.measures.set_outstanding(self.outstanding);
        flushed
    }

    fn measure(&self, kind: SendKind, bytes: &[u8], took: Duration) {
        match kind {
            SendKind::Handshake => self.measures.answered(HANDSHAKE, 0, took),
            SendKind::Reply(operation) => self.measures.answered(operation, error_of(bytes), took),
            SendKind::Event | SendKind::Report => (),
        }
    }

    /// Sends bytes; `false` if the connection was cut instead.
    fn send(&mut self, id: ConnectionId, bytes: Bytes, kind: SendKind) -> bool {
        let is_dropped = self.is_to_be_dropped(kind);
        let Some(link) = self.links.get(&id) else {
            return true;
        };
        let due = (!self.delay.is_zero()).then(|| Instant::now() + self.delay);
        if !is_dropped && link.send(bytes, due) {
            return true;
        }
        if let Some(link) = self.links.remove(&id) {
            link.reset();
        }
        false
    }

    fn is_to_be_dropped(&mut self, kind: SendKind) -> bool {
        let SendKind::Reply(code) = kind else {
            return false;
        };
        let at = self.drop_replies.iter().position(|opcode| opcode.code() == code);
        at.is_some_and(|at| self.drop_replies.remove(at).is_some())
    }
}

const fn is_answer(kind: SendKind) -> bool {
    matches!(kind, SendKind::Handshake | SendKind::Reply(_))
}

/// The error in a reply; 0 for none.
fn error_of(reply: &[u8]) -> i32 {
    reply.get(ERROR_AT..).and_then(|rest| rest.first_chunk()).map_or(0, |error| i32::from_be_bytes(*error))
}
