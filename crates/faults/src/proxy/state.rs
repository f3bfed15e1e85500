//! State that all connections of a proxy share: the plan they follow, and what is to be lost.
//!
//! `record` keeps what passed. Nothing waits here.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{oneshot, watch};

use super::frames::Operation;
use super::record::{FrameRecord, Record};

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
    Postgres,
    MySql,
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
    fn transparent() -> Self {
        Self {
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
    pub(super) target: SocketAddr,
    pub(super) protocol: Protocol,
    plan: watch::Sender<Plan>,
    armed: Mutex<VecDeque<Armed>>,
    record: Mutex<Record>,
}

impl Shared {
    pub(super) fn new(target: SocketAddr, protocol: Protocol) -> Self {
        Self {
            target,
            protocol,
            plan: watch::Sender::new(Plan::transparent()),
            armed: Mutex::default(),
            record: Mutex::new(Record::new()),
        }
    }

    /// Changes the plan and wakes all connections.
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
