//! Events of locks and sessions, for observers; nothing flows back.

#[cfg(not(feature = "metrics"))]
#[path = "event/meter/off.rs"]
pub(crate) mod meter;
#[cfg(feature = "metrics")]
pub mod meter;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lockkeeper_core::{
    ContenderId, Error, FencingToken, Finding, LossReason, Mode, Operation, QueueName, Revocation, SessionTimeout,
    Severity,
};

/// Something that happened to one of this process's contenders, or to the session under which they stand.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// It took a place in the queue.
    Joined {
        /// The lock.
        lock: QueueName,
        /// Our place.
        contender: ContenderId,
        /// How many contenders stood ahead of us when we joined; beyond a thousand it may be a lower bound.
        ahead: usize,
    },
    /// It lost its place while it waited, with its session, and joins again at the tail.
    Rejoining {
        /// The lock.
        lock: QueueName,
        /// Why the place was lost.
        reason: LossReason,
    },
    /// An attempt failed in a way that may pass, and another follows.
    Retrying {
        /// The lock.
        lock: QueueName,
        /// How many attempts have failed.
        attempt: u32,
        /// When the next one follows.
        delay: Duration,
        /// What went wrong.
        error: Error,
    },
    /// It was granted the lock.
    Granted {
        /// The lock.
        lock: QueueName,
        /// What it was granted.
        mode: Mode,
        /// The grant's token.
        token: FencingToken,
        /// How long it took from the call.
        waited: Duration,
    },
    /// Its time was up, or another contender held the lock and it was not to wait.
    NotAcquired {
        /// The lock.
        lock: QueueName,
        /// How long it took from the call.
        waited: Duration,
    },
    /// A client or an operator asked it to give the lock up, and its holder has received the request.
    Revoked {
        /// The lock.
        lock: QueueName,
        /// The grant's token.
        token: FencingToken,
        /// The request.
        revocation: Revocation,
    },
    /// It gave the lock back.
    Released {
        /// The lock.
        lock: QueueName,
        /// The grant's token.
        token: FencingToken,
        /// How long it was held.
        held: Duration,
        /// Why it had been lost before, if it had.
        lost: Option<LossReason>,
    },
    /// It gave up the place that its process [hands off](crate::Handoff) from task to task.
    Left {
        /// The lock.
        lock: QueueName,
        /// The token of the place's last turn.
        token: FencingToken,
        /// Why.
        why: ReleaseReason,
    },
    /// Its hold was lost: reported once, when the session is lost, or otherwise when the holder asks or gives the lock
    /// back.
    Lost {
        /// The lock.
        lock: QueueName,
        /// The grant's token.
        token: FencingToken,
        /// Why.
        reason: LossReason,
        /// How long before this it could be believed last: longer than a moment if the process stood still.
        late: Duration,
    },
    /// The work of a selector has failed while it led, and the lead was given up.
    WorkFailed {
        /// The election.
        lock: QueueName,
        /// The token of the lead.
        token: FencingToken,
        /// What the work has returned.
        error: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// A latch or a selector is over and does not stand for election any more.
    CampaignEnded {
        /// The election.
        lock: QueueName,
        /// What ended it; `None` if this process did.
        error: Option<Error>,
    },
    /// A session was opened.
    SessionOpened {
        /// The service, without secrets.
        service: String,
        /// How long the service keeps it without a sign of life; `None` where sessions have no timeout.
        timeout: Option<SessionTimeout>,
    },
    /// The service was examined at the keeper's first session, and is not as it should be: reported once, with what
    /// matters most. [`Admin::examine`](crate::Admin::examine) tells the rest.
    Weakened {
        /// The service, without secrets.
        service: String,
        /// A warning or an error.
        finding: Finding,
    },
    /// The connection to the service is broken: the session, and every hold under it, is lost unless it reconnects in
    /// time.
    Jeopardy {
        /// The service, without secrets.
        service: String,
        /// For how long the holds may still be believed; `None` if nothing is held.
        safe_for: Option<Duration>,
    },
    /// The connection to the service is open again, and the session has survived.
    JeopardyOver {
        /// The service, without secrets.
        service: String,
    },
    /// A session was lost, and with it all that was held and waited for under it.
    SessionLost {
        /// The service, without secrets.
        service: String,
        /// Why; [`LossReason::Closed`] if this process closed it.
        reason: LossReason,
    },
}

/// Why a process gives up a place that it could hand off to its next task.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum ReleaseReason {
    /// Another contender joined while the place was idle.
    Queued,
    /// A client or an operator asked for it.
    Asked,
    /// No task waits for it, and it is kept no longer.
    Idle,
    /// The turns or the time that others wait for at most are used up.
    Bound,
    /// Another place or another process depends on the turn that has ended.
    EndsPlace,
}

/// Receives events. It is called where they happen, so it should be quick, and must not use the same lock.
pub trait Observer: fmt::Debug + Send + Sync + 'static {
    /// Receives one event.
    fn on_event(&self, event: &Event);
}

/// The observers of one keeper.
#[derive(Debug, Default)]
pub(crate) struct Observers {
    all: Vec<Arc<dyn Observer>>,
    /// Whether a record has said why the service cannot be reached, since it was reached last.
    is_away: AtomicBool,
}

impl Observers {
    pub(crate) fn push(&mut self, observer: Arc<dyn Observer>) {
        self.all.push(observer);
    }

    #[cfg(feature = "metrics")]
    pub(crate) fn with(mut self, observer: Arc<dyn Observer>) -> Self {
        self.push(observer);
        self
    }

    /// Writes an event as a `tracing` record, and tells every observer of it.
    pub(crate) fn emit(&self, event: &Event) {
        trace(event, self.is_told(event));
        self.tell(event);
    }

    /// Does the same when the connection to the service is broken, for this reason, if it is known.
    pub(crate) fn emit_jeopardy(&self, service: String, safe_for: Option<Duration>, why: Option<Error>) {
        let reason = why.as_ref().map_or_else(|| "not known yet".to_owned(), |error| format!("{error:#}"));
        tracing::warn!(target: "lockkeeper", service, ?safe_for, reason, "the connection to the service is broken");
        self.is_away.store(why.is_some(), Ordering::Relaxed);
        self.tell(&Event::Jeopardy { service, safe_for });
    }

    fn tell(&self, event: &Event) {
        for observer in &self.all {
            observer.on_event(event);
        }
    }

    /// Whether an earlier record of the same outage tells as much: a thousand waiters need not say it each.
    fn is_told(&self, event: &Event) -> bool {
        match event {
            Event::Retrying { error, .. } if error.operation() == Operation::Connect => {
                self.is_away.swap(true, Ordering::Relaxed)
            }
            Event::SessionOpened { .. } | Event::JeopardyOver { .. } => {
                self.is_away.store(false, Ordering::Relaxed);
                false
            }
            // It went with its session, whose loss is a record.
            Event::Rejoining { reason, .. } => matches!(reason, LossReason::Expired | LossReason::Lapsed),
            _ => false,
        }
    }
}

/// Writes events as `tracing` records with the target `lockkeeper`; every keeper has it.
fn trace(event: &Event, is_told: bool) {
    match event {
        Event::Joined { lock, contender, ahead } => {
            tracing::debug!(target: "lockkeeper", %lock, %contender, ahead, "joined");
        }
        Event::Rejoining { lock, reason } => match is_told {
            false => tracing::warn!(target: "lockkeeper", %lock, %reason, "rejoining"),
            true => tracing::debug!(target: "lockkeeper", %lock, %reason, "rejoining"),
        },
        Event::Retrying { lock, attempt, delay, error } => {
            let error = format_args!("{error:#}");
            match is_told {
                false => tracing::warn!(target: "lockkeeper", %lock, attempt, ?delay, %error, "retrying"),
                true => tracing::debug!(target: "lockkeeper", %lock, attempt, ?delay, %error, "retrying"),
            }
        }
        Event::Granted { lock, token, waited, .. } => {
            tracing::debug!(target: "lockkeeper", %lock, %token, ?waited, "granted");
        }
        Event::NotAcquired { lock, waited } => {
            tracing::debug!(target: "lockkeeper", %lock, ?waited, "not acquired");
        }
        Event::Revoked { lock, token, revocation } => {
            let (why, within) = (&revocation.why, revocation.within);
            tracing::info!(target: "lockkeeper", %lock, %token, why, ?within, "revoked");
        }
        Event::Released { lock, token, held, lost } => {
            tracing::debug!(target: "lockkeeper", %lock, %token, ?held, ?lost, "released");
        }
        Event::Left { lock, token, why } => tracing::debug!(target: "lockkeeper", %lock, %token, ?why, "left"),
        Event::Lost { .. } | Event::WorkFailed { .. } | Event::CampaignEnded { .. } => trace_end(event),
        Event::SessionOpened { .. }
        | Event::Weakened { .. }
        | Event::JeopardyOver { .. }
        | Event::SessionLost { .. } => trace_session(event),
        Event::Jeopardy { .. } => {}
    }
}

/// Writes an end that this process did not ask for as an error, and one that it asked for as information.
fn trace_end(event: &Event) {
    match event {
        // The holder has asked for it.
        Event::Lost { lock, token, reason: reason @ (LossReason::Closed | LossReason::MaxHold), .. } => {
            tracing::warn!(target: "lockkeeper", %lock, %token, %reason, "the lock is no longer held");
        }
        Event::Lost { lock, token, reason, late } => {
            tracing::error!(target: "lockkeeper", %lock, %token, %reason, ?late, "the lock was lost");
        }
        Event::WorkFailed { lock, token, error } => {
            let error = with_causes(&**error);
            tracing::error!(target: "lockkeeper", %lock, %token, error, "the work of the leader has failed");
        }
        Event::CampaignEnded { lock, error: Some(error) } => {
            tracing::error!(target: "lockkeeper", %lock, error = format_args!("{error:#}"), "the campaign has failed");
        }
        Event::CampaignEnded { lock, error: None } => {
            tracing::info!(target: "lockkeeper", %lock, "the campaign has ended");
        }
        _ => {}
    }
}

/// An error of the program with all of its causes, which each tell of themselves alone.
fn with_causes(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

fn trace_session(event: &Event) {
    match event {
        Event::SessionOpened { service, timeout: None } => {
            tracing::info!(target: "lockkeeper", service, "session opened");
        }
        Event::SessionOpened { service, timeout: Some(timeout) } => {
            let SessionTimeout { asked, granted } = timeout;
            match timeout.is_clipped() {
                false => tracing::info!(target: "lockkeeper", service, ?granted, "session opened"),
                true => {
                    tracing::warn!(
                        target: "lockkeeper",
                        service, ?granted, ?asked,
                        "session opened with another timeout"
                    );
                }
            }
        }
        Event::Weakened { service, finding: Finding { severity, what, cure, .. } } => match severity {
            Severity::Error => tracing::error!(target: "lockkeeper", service, what, cure, "the service is weakened"),
            _ => tracing::warn!(target: "lockkeeper", service, what, cure, "the service is weakened"),
        },
        Event::JeopardyOver { service } => {
            tracing::info!(target: "lockkeeper", service, "the connection to the service is open again");
        }
        Event::SessionLost { service, reason: reason @ LossReason::Closed } => {
            tracing::info!(target: "lockkeeper", service, %reason, "session closed");
        }
        Event::SessionLost { service, reason } => {
            tracing::warn!(target: "lockkeeper", service, %reason, "session lost");
        }
        _ => {}
    }
}
