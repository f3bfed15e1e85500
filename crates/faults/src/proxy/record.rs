//! The state that all connections of a proxy share: the plan they follow, what is to be lost, and the record of what
//! passed, in counters and logs with times.
//!
//! Round trips are counted by what came of what, and not by the clock: what a client sends has the number of the latest
//! answer that had reached it, over any connection; an answer has one more than the latest request that had reached the
//! server over its own. So requests that were sent at once share a round trip, however slow the machine is. The delay
//! has to be long beside what the client needs to send its next request: what it sends late counts as sent after the
//! answers that came meanwhile.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

/// The longest log, of frames and of bursts: a hundred thousand frames are some ten MB. Counters go on.
const LOG_FRAMES_MAX: usize = 100_000;

/// What a frame asks, or answers: ZooKeeper's operation code.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Operation(pub i32);

#[expect(missing_docs, reason = "named as in ZooKeeper's protocol, where they are described")]
impl Operation {
    /// The first frame of a connection, each way (ZooKeeper's `createSession`).
    pub const CONNECT: Self = Self(-10);
    /// An event that a watch announces.
    pub const NOTIFICATION: Self = Self(0);
    /// A reply whose request was not seen (ZooKeeper's `error`).
    pub const UNMATCHED: Self = Self(-1);
    pub const DELETE: Self = Self(2);
    pub const EXISTS: Self = Self(3);
    pub const GET_DATA: Self = Self(4);
    pub const SET_DATA: Self = Self(5);
    pub const GET_CHILDREN: Self = Self(8);
    pub const SYNC: Self = Self(9);
    pub const PING: Self = Self(11);
    pub const GET_CHILDREN2: Self = Self(12);
    pub const MULTI: Self = Self(14);
    pub const CREATE2: Self = Self(15);
}

/// Names for people, as the protocol has them.
const NAMES: &[(Operation, &str)] = &[
    (Operation::CONNECT, "connect"),
    (Operation::NOTIFICATION, "notification"),
    (Operation::UNMATCHED, "unmatched reply"),
    (Operation::DELETE, "delete"),
    (Operation::EXISTS, "exists"),
    (Operation::GET_DATA, "getData"),
    (Operation::SET_DATA, "setData"),
    (Operation::GET_CHILDREN, "getChildren"),
    (Operation::SYNC, "sync"),
    (Operation::PING, "ping"),
    (Operation::GET_CHILDREN2, "getChildren2"),
    (Operation::MULTI, "multi"),
    (Operation::CREATE2, "create2"),
];

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match NAMES.iter().find(|(operation, _)| operation == self) {
            Some((_, name)) => f.write_str(name),
            None => write!(f, "operation {}", self.0),
        }
    }
}

/// Which way a frame goes.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Direction {
    /// From the client.
    ToServer,
    /// From the server: replies and notifications.
    ToClient,
}

impl Direction {
    pub(super) fn index(self) -> usize {
        match self {
            Self::ToServer => 0,
            Self::ToClient => 1,
        }
    }
}

/// What happened to a frame.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fate {
    /// It was written to its receiver, at this time since the proxy started.
    Delivered(Duration),
    /// It was lost in the proxy.
    Lost,
}

/// One frame that was seen.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FrameRecord {
    /// Which connection it was on, counted from 0.
    pub connection: u64,
    /// Which way it went.
    pub direction: Direction,
    /// What it asked, or answered.
    pub operation: Operation,
    /// The client's number for the request; none in a connection's first frame each way.
    pub xid: Option<i32>,
    /// The server's error code, in a reply, where it is a number.
    pub error: Option<i32>,
    /// Of a request, how many round trips lay before it; of an answer, how many there were with it.
    pub round_trips: u32,
    /// Its length with the length field.
    pub bytes: usize,
    /// When the whole of it had come in, since the proxy started.
    pub seen: Duration,
    /// What happened to it.
    pub fate: Fate,
}

/// Counters, log and clock of a proxy.
#[derive(Debug)]
pub(super) struct Record {
    start: Instant,
    counts: BTreeMap<(Direction, Operation), u64>,
    pub(super) log: Vec<FrameRecord>,
    pub(super) bursts: Vec<Burst>,
    /// The round trips of the latest answer that has reached a client.
    pub(super) answered: u32,
    first_opened: Option<Duration>,
    pub(super) connections: usize,
    connections_ever: u64,
}

impl Record {
    pub(super) fn new() -> Self {
        Self {
            start: Instant::now(),
            counts: BTreeMap::new(),
            log: Vec::new(),
            bursts: Vec::new(),
            answered: 0,
            first_opened: None,
            connections: 0,
            connections_ever: 0,
        }
    }

    /// Counts a new connection and answers its number.
    pub(super) fn opened(&mut self) -> u64 {
        let now = self.since_start();
        self.first_opened.get_or_insert(now);
        self.connections += 1;
        self.connections_ever += 1;
        self.connections_ever - 1
    }

    pub(super) fn since_start(&self) -> Duration {
        self.start.elapsed()
    }

    /// How long ago the first connection was accepted; zero before.
    pub(super) fn since_first_opened(&self) -> Duration {
        self.first_opened.map_or(Duration::ZERO, |first| self.since_start().saturating_sub(first))
    }

    /// Notes a burst that was written to its receiver.
    pub(super) fn push_burst(&mut self, burst: Burst) {
        if burst.direction == Direction::ToClient {
            self.answered = self.answered.max(burst.round_trips);
        }
        if self.bursts.len() < LOG_FRAMES_MAX {
            self.bursts.push(burst);
        }
    }

    pub(super) fn count(&mut self, direction: Direction, operation: Operation) {
        *self.counts.entry((direction, operation)).or_default() += 1;
    }

    pub(super) fn push(&mut self, frame: FrameRecord) {
        if self.log.len() < LOG_FRAMES_MAX {
            self.log.push(frame);
        }
    }

    pub(super) fn counts(&self, direction: Direction) -> BTreeMap<Operation, u64> {
        let of_direction = self.counts.iter().filter(|((found, _), _)| *found == direction);
        of_direction.map(|((_, operation), count)| (*operation, *count)).collect()
    }

    pub(super) fn clear(&mut self) {
        self.counts.clear();
        self.log.clear();
        self.bursts.clear();
        self.answered = 0;
        self.first_opened = None;
    }
}

/// What came in with one read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Burst {
    /// Which connection it was on, counted from 0.
    pub connection: u64,
    /// Which way it went.
    pub direction: Direction,
    /// Of a request, how many round trips lay before it; of an answer, how many there were with it.
    pub round_trips: u32,
    /// How long it is.
    pub bytes: usize,
    /// When it was written to its receiver, since the first connection was accepted.
    pub delivered: Duration,
}

/// What happens to the frames in one direction.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Flow {
    /// They are passed on.
    Pass,
    /// They are held back, and passed on in order once the direction passes again.
    Hold,
    /// They are accepted and lost.
    Swallow,
}

/// What the connections speak.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Protocol {
    ZooKeeper,
    /// Anything else: bytes are passed on as they come, and not counted.
    Other,
}

/// What happens on a connection after a reply was dropped.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AfterDrop {
    /// Both sides are closed.
    Close,
    /// It stays open but carries nothing more, in either direction.
    Silence,
}

/// What all connections do; direction `i` of an array is that of `Direction::index`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    /// The server that new connections go to.
    pub(super) target: SocketAddr,
    pub(super) delay: [Duration; 2],
    pub(super) flow: [Flow; 2],
    /// Counted, not flagged: a connection acts when the number grows during its life.
    pub(super) half_closes: [u64; 2],
    pub(super) cuts: u64,
    pub(super) resets: u64,
    pub(super) accepts: bool,
}

impl Plan {
    /// What a proxy does by default.
    fn transparent(target: SocketAddr) -> Self {
        Self {
            target,
            delay: [Duration::ZERO; 2],
            flow: [Flow::Pass; 2],
            half_closes: [0; 2],
            cuts: 0,
            resets: 0,
            accepts: true,
        }
    }
}

/// A reply to be lost, waiting for its request.
#[derive(Debug)]
pub(super) struct Armed {
    /// What the request asks.
    pub(super) wanted: Operation,
    pub(super) then: AfterDrop,
    pub(super) dropped: oneshot::Sender<FrameRecord>,
}

/// The state between the handle and the connections.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) protocol: Protocol,
    plan: watch::Sender<Plan>,
    armed: Mutex<VecDeque<Armed>>,
    record: Mutex<Record>,
}

impl Shared {
    pub(super) fn new(target: SocketAddr, protocol: Protocol) -> Self {
        Self {
            protocol,
            plan: watch::Sender::new(Plan::transparent(target)),
            armed: Mutex::default(),
            record: Mutex::new(Record::new()),
        }
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut Plan)) {
        self.plan.send_modify(change);
    }

    pub(super) fn plan(&self) -> watch::Receiver<Plan> {
        self.plan.subscribe()
    }

    pub(super) fn now(&self) -> Plan {
        *self.plan.borrow()
    }

    pub(super) fn arm(&self, wanted: Operation, then: AfterDrop) -> oneshot::Receiver<FrameRecord> {
        let (dropped, receiver) = oneshot::channel();
        self.armed().push_back(Armed { wanted, then, dropped });
        receiver
    }

    /// Takes the oldest that waits for a request of this operation, unless the test no longer waits for it.
    pub(super) fn take_armed(&self, operation: Operation) -> Option<Armed> {
        let mut armed = self.armed();
        armed.retain(|armed| !armed.dropped.is_closed());
        let index = armed.iter().position(|armed| armed.wanted == operation)?;
        armed.remove(index)
    }

    /// Puts one back whose request had no effect.
    pub(super) fn rearm(&self, armed: Armed) {
        self.armed().push_front(armed);
    }

    pub(super) fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn armed(&self) -> MutexGuard<'_, VecDeque<Armed>> {
        self.armed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
