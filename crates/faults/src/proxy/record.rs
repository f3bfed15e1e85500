//! The record of a proxy: counters per operation and direction, and a log with times.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::burst::Burst;
use super::frames::Operation;

/// The longest log, of frames and of bursts: a hundred thousand frames are some ten MB. Counters go on.
const LOG_FRAMES_MAX: usize = 100_000;

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
    log: Vec<FrameRecord>,
    bursts: Vec<Burst>,
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

    pub(super) fn closed(&mut self) {
        self.connections -= 1;
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

    pub(super) fn bursts(&self) -> Vec<Burst> {
        self.bursts.clone()
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

    pub(super) fn log(&self) -> Vec<FrameRecord> {
        self.log.clone()
    }

    pub(super) fn clear(&mut self) {
        self.counts.clear();
        self.log.clear();
        self.bursts.clear();
        self.answered = 0;
        self.first_opened = None;
    }
}
