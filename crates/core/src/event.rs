//! What happens to locks, told to whoever wants to know; nothing flows back.

use std::fmt;
use std::time::Duration;

use crate::contender::{ContenderId, Revocation};
use crate::{Error, FencingToken, LossReason, QueueName};

/// Something that happened to one of this process's contenders.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// It took a place in the queue.
    Joined {
        /// The lock.
        lock: QueueName,
        /// Our place.
        contender: ContenderId,
        /// How many stood ahead of us when we joined.
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
        /// The grant's token.
        token: FencingToken,
        /// How long it took from the call.
        waited: Duration,
    },
    /// Its time was up, or somebody else held the lock and it was not to wait.
    NotAcquired {
        /// The lock.
        lock: QueueName,
        /// How long it took from the call.
        waited: Duration,
    },
    /// Somebody asked it to give the lock up, and whoever holds it has heard so.
    Revoked {
        /// The lock.
        lock: QueueName,
        /// The grant's token.
        token: FencingToken,
        /// What was said with it.
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
}

/// Hears of events. It is called where they happen, so it should be quick, and must not use the same lock.
pub trait Observer: fmt::Debug + Send + Sync + 'static {
    /// Hears of one event.
    fn on_event(&self, event: &Event);
}

/// Writes events as `tracing` records with the target `lockkeeper`; every keeper has it.
pub(crate) fn trace(event: &Event) {
    match event {
        Event::Joined { lock, contender, ahead } => {
            tracing::debug!(target: "lockkeeper", %lock, %contender, ahead, "joined");
        }
        Event::Rejoining { lock, reason } => tracing::warn!(target: "lockkeeper", %lock, %reason, "rejoining"),
        Event::Retrying { lock, attempt, delay, error } => {
            let error = format_args!("{error:#}");
            tracing::warn!(target: "lockkeeper", %lock, attempt, ?delay, %error, "retrying");
        }
        Event::Granted { lock, token, waited } => {
            tracing::debug!(target: "lockkeeper", %lock, %token, ?waited, "granted");
        }
        Event::NotAcquired { lock, waited } => {
            tracing::debug!(target: "lockkeeper", %lock, ?waited, "not acquired");
        }
        Event::Revoked { lock, token, revocation } => {
            tracing::info!(target: "lockkeeper", %lock, %token, why = revocation.why, within = ?revocation.within, "revoked");
        }
        Event::Released { lock, token, held, lost } => {
            tracing::debug!(target: "lockkeeper", %lock, %token, ?held, ?lost, "released");
        }
    }
}
