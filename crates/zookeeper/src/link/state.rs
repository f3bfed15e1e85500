//! The machine, and the callers that wait for its answers: what the lock protects.

use std::collections::BTreeMap;
use std::time::Duration;

use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{BoxFuture, LossReason, SafeUntil, SessionBond};
use lockkeeper_session::{Failure, FailureKind, Server};
use lockkeeper_zk_proto::client::{
    ClientSession, DisconnectReason, ProtocolError, Reply, RequestError, RequestId, SessionConfig, SessionEvent,
    SessionLoss,
};
use lockkeeper_zk_proto::message::{OpCode, RequestEffect, WatchEventKind, WatcherEvent, ZkResponse};
use lockkeeper_zk_proto::time::Timestamp;
use lockkeeper_zk_proto::watch::WatchId;
use tokio::sync::watch;

/// How often in each timeout the bond is told of a later deadline at most.
const RENEWALS_PER_TIMEOUT: u32 = 50;

/// How a session stands with the service; callers wait for a change of it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum LinkPhase {
    /// There is no connection, or none on which requests go out.
    Offline,
    /// There is no connection, because a new one was asked for. No attempt at it has failed yet.
    Renewing,
    /// Requests go out; watches of the connection before are being set again.
    Online,
    /// Requests go out, and all missed events have arrived.
    Restored,
    /// The session is over for good. Its end may still have to be told to the service.
    Over,
}

impl LinkPhase {
    pub(crate) const fn is_online(self) -> bool {
        matches!(self, Self::Online | Self::Restored)
    }
}

/// The phase, and the connection it is about.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct LinkStatus {
    pub(crate) phase: LinkPhase,
    /// Counts connections from 1.
    pub(crate) epoch: u64,
}

#[derive(Debug)]
pub(crate) struct RequestOutcome {
    /// The connection on which that became known.
    pub(crate) epoch: u64,
    /// The newest transaction that the server had applied: of a write that took effect, its own.
    pub(crate) zxid: i64,
    pub(crate) result: Result<ZkResponse, RequestError>,
}

#[derive(Clone, Debug)]
pub(crate) struct Happening {
    pub(crate) epoch: u64,
    pub(crate) kind: WatchEventKind,
}

/// The step after an answer was handed over.
pub(crate) enum Then {
    Done,
    /// No caller wants the answer: a watch that was set is removed again.
    Unwanted,
    /// This goes on in the background, run by the driver.
    Chore(BoxFuture<()>),
}

pub(crate) type OnReply = Box<dyn FnOnce(RequestOutcome) -> Then + Send>;
pub(crate) type OnFire = Box<dyn FnOnce(Happening) + Send>;
pub(crate) type OnEach = Box<dyn Fn(&WatcherEvent) + Send>;

/// A caller that waits for the events of a watch. It must be quick, and must not call back into the link.
pub(crate) enum Watcher {
    /// For the one event that ends the watch.
    Once(OnFire),
    /// For each event, as long as the session lives.
    Each(OnEach),
}

/// A caller that waits for an answer, and perhaps for an event after it.
pub(super) struct PendingReply {
    on_reply: OnReply,
    watcher: Option<Watcher>,
    /// Not later than it was sent.
    submitted_at: Timestamp,
    is_write: bool,
}

pub(super) struct LinkState {
    pub(super) machine: ClientSession,
    /// By the request's number, which is its watch's too.
    pub(super) pending: BTreeMap<u64, PendingReply>,
    watchers: BTreeMap<WatchId, Watcher>,
    pub(super) chores: Vec<BoxFuture<()>>,
    /// How many places depend on the session.
    pub(super) dependents: usize,
    /// Whether no place has depended on it for a while, so that the bond has no deadline.
    pub(super) is_resting: bool,
    /// When the last write that reached the quorum on this connection was asked for.
    pub(super) last_write_at: Option<Timestamp>,
    pub(super) closing_since: Option<Timestamp>,
    /// No task moves bytes any more.
    pub(super) is_done: bool,
    pub(super) trouble: Option<Failure>,
    /// Why each way could not be used last.
    pub(super) failures: BTreeMap<Server, Failure>,
    /// The last of them, with the server's name.
    pub(super) last_failure: Option<String>,
    /// What the bond was told last.
    published: Option<(bool, SafeUntil)>,
    /// The least timeout that was granted when the bond was told last what follows from it.
    timeout_told: Option<Duration>,
}

/// The callers that were waiting, to be dropped outside the lock.
pub(super) type Waiters = (BTreeMap<u64, PendingReply>, BTreeMap<WatchId, Watcher>);

impl LinkState {
    pub(super) fn new(config: SessionConfig) -> Self {
        Self {
            machine: ClientSession::new(config),
            pending: BTreeMap::new(),
            watchers: BTreeMap::new(),
            chores: Vec::new(),
            dependents: 0,
            is_resting: true,
            last_write_at: None,
            closing_since: None,
            is_done: false,
            trouble: None,
            failures: BTreeMap::new(),
            last_failure: None,
            published: None,
            timeout_told: None,
        }
    }

    /// Notes which caller waits for the reply to a request that the machine has taken on.
    pub(super) fn expect_reply(
        &mut self,
        id: RequestId,
        operation: OpCode,
        submitted_at: Timestamp,
        on_reply: OnReply,
        watcher: Option<Watcher>,
    ) {
        let is_write = operation.effect() == RequestEffect::Write;
        self.pending.insert(id.number(), PendingReply { on_reply, watcher, submitted_at, is_write });
    }

    /// How many answers and events are waited for.
    pub(super) fn expected(&self) -> usize {
        self.pending.len() + self.watchers.len()
    }

    pub(super) fn take_waiters(&mut self) -> Waiters {
        (std::mem::take(&mut self.pending), std::mem::take(&mut self.watchers))
    }

    /// Drops a watch; returns whether the server may have to be told.
    pub(super) fn forget_watch(&mut self, watch: WatchId) -> bool {
        if self.watchers.remove(&watch).is_some() {
            self.machine.unwatch(watch);
            return true;
        }
        if let Some(pending) = self.pending.get_mut(&watch.number()) {
            pending.watcher = None;
        }
        false
    }

    pub(super) fn route_events(&mut self, status: &watch::Sender<LinkStatus>, bond: &SessionBond) {
        while let Some(event) = self.machine.poll_event() {
            match event {
                SessionEvent::Connected { epoch, .. } => {
                    self.last_write_at = None;
                    self.trouble = None;
                    self.last_failure = None;
                    tell(status, LinkStatus { phase: LinkPhase::Online, epoch: epoch.number() });
                }
                SessionEvent::WatchesRestored { epoch } => {
                    tell(status, LinkStatus { phase: LinkPhase::Restored, epoch: epoch.number() });
                }
                SessionEvent::Disconnected { epoch, reason, .. } => {
                    let (phase, trouble) = match reason {
                        DisconnectReason::Renewed => (LinkPhase::Renewing, None),
                        _ => (LinkPhase::Offline, Some(of_disconnect(reason))),
                    };
                    self.trouble = trouble;
                    tell(status, LinkStatus { phase, epoch: epoch.number() });
                }
                SessionEvent::Reply(reply) => self.route_reply(reply),
                SessionEvent::Watch(notice) => {
                    for watch in notice.fired {
                        match self.watchers.remove(&watch) {
                            Some(Watcher::Once(on_fire)) => {
                                on_fire(Happening { epoch: notice.epoch.number(), kind: notice.event.kind });
                            }
                            Some(Watcher::Each(on_each)) => {
                                on_each(&notice.event);
                                self.watchers.insert(watch, Watcher::Each(on_each));
                            }
                            None => {}
                        }
                    }
                }
                SessionEvent::Over(reason) => {
                    // Before the requests that end with it are answered, so that their callers find the bond lost.
                    bond.lose(match reason {
                        SessionLoss::Closed => LossReason::Closed,
                        SessionLoss::OutOfReach => LossReason::Lapsed,
                        _ => LossReason::Expired,
                    });
                    self.watchers.clear();
                    status.send_modify(|status| status.phase = LinkPhase::Over);
                }
                // Events that a later version of the machine may add change nothing here.
                _ => (),
            }
        }
    }

    /// Returns the least timeout that was granted, if the bond was not told of it.
    pub(super) fn take_new_timeout(&mut self) -> Option<Duration> {
        let timeout = self.machine.anchor().timeout_least();
        if timeout == self.timeout_told {
            return None;
        }
        self.timeout_told = timeout;
        timeout
    }

    fn route_reply(&mut self, reply: Reply) {
        let Some(pending) = self.pending.remove(&reply.id.number()) else {
            return;
        };
        if pending.is_write && matches!(reply.outcome, Ok(_) | Err(RequestError::Refused(_))) {
            self.last_write_at = self.last_write_at.max(Some(pending.submitted_at));
        }
        let then =
            (pending.on_reply)(RequestOutcome { epoch: reply.epoch.number(), zxid: reply.zxid, result: reply.outcome });
        match (reply.watch, pending.watcher) {
            (Some(watch), Some(watcher)) if !matches!(then, Then::Unwanted) => {
                self.watchers.insert(watch, watcher);
            }
            (Some(watch), _) => self.machine.unwatch(watch),
            (None, _) => (),
        }
        if let Then::Chore(chore) = then {
            self.chores.push(chore);
        }
    }

    /// Tells the bond until when it may be believed, if that has changed enough to wake all callers that wait for a
    /// loss. An earlier deadline than the true one does no harm.
    pub(super) fn publish(&mut self, phase: LinkPhase, bond: &SessionBond) {
        let is_online = self.machine.state().is_online() || phase == LinkPhase::Renewing;
        let safe_until = match (self.is_resting, self.machine.safe_until()) {
            // Nothing is held by it, so nothing could be believed for too long.
            (true, _) => SafeUntil::ProcessEnd,
            (false, Some(until)) => SafeUntil::At(instant(until)),
            // A place is counted only after a proof, so this is a session that is over.
            (false, None) => return,
        };
        let quantum = self.machine.anchor().timeout_least().unwrap_or_default() / RENEWALS_PER_TIMEOUT;
        let is_changed = match (self.published, safe_until) {
            (Some((was_online, SafeUntil::At(known))), SafeUntil::At(until)) => {
                was_online != is_online || until < known || until >= known.saturating_add(quantum)
            }
            (published, _) => published != Some((is_online, safe_until)),
        };
        if is_changed {
            self.published = Some((is_online, safe_until));
            match is_online {
                true => bond.renew(safe_until),
                false => bond.jeopardize(safe_until),
            }
        }
    }
}

/// Tells callers of a new status, unless the session is over for them.
fn tell(status: &watch::Sender<LinkStatus>, now: LinkStatus) {
    status.send_if_modified(|current| {
        let goes_on = current.phase != LinkPhase::Over;
        if goes_on {
            *current = now;
        }
        goes_on
    });
}

/// Why a connection ended. A silent server may answer the next time.
fn of_disconnect(reason: DisconnectReason) -> Failure {
    let kind = match reason {
        DisconnectReason::HandshakeTimeout | DisconnectReason::Silent => FailureKind::Deadline,
        DisconnectReason::Protocol(ProtocolError::Frame(_) | ProtocolError::Message(_)) => FailureKind::Protocol,
        _ => FailureKind::Broken,
    };
    Failure::new(kind, lockkeeper_session::Effect::Unknown, reason.to_string())
}

pub(super) fn instant(timestamp: Timestamp) -> BootInstant {
    BootInstant::from_nanos(timestamp.as_nanos())
}
