//! The spans of waits and holds, for programs that collect traces: of the level DEBUG, with the target `lockkeeper`.
//! While none is collected, each costs a look at whether it is.

#[cfg(test)]
mod tests;

use std::time::Duration;

use lockkeeper_core::{ContenderId, FencingToken, Mode, QueueName};
use tracing::field::{Empty, display};
use tracing::{Level, Span, debug_span};

use crate::shared::Shared;

/// The name of the span of a wait.
const WAIT: &str = "lockkeeper.wait";

/// How long a contender is waited for before its owner is asked of the service: most waits are over sooner.
const OWNER_AFTER: Duration = Duration::from_secs(1);

/// How many contenders may stand ahead of a waiter that asks for an owner: the answer shows the whole queue, so that
/// one asks at a time.
const AHEAD_MAX: usize = 1;

/// A span, if it is collected. In a box, since calls and guards are moved, and mostly none is.
pub(crate) type Collected = Option<Box<Span>>;

/// Makes the span of a call that waits for the lock.
pub(crate) fn wait(lock: &QueueName, mode: Mode) -> Collected {
    let span = debug_span!(
        target: "lockkeeper",
        "lockkeeper.wait",
        %lock,
        mode = mode.as_str(),
        contender = Empty,
        ahead = Empty,
        waited_for = Empty,
        owner = Empty,
    );
    collected(span)
}

/// Makes the span of a hold, which follows from the wait for it.
pub(crate) fn hold(lock: &QueueName, token: FencingToken, wait: Option<&Span>) -> Collected {
    let span = collected(debug_span!(target: "lockkeeper", "lockkeeper.hold", %lock, %token, lost = Empty))?;
    if let Some(wait) = wait {
        span.follows_from(wait);
    }
    Some(span)
}

fn collected(span: Span) -> Collected {
    (!span.is_disabled()).then(|| Box::new(span))
}

/// Returns the span of the wait that goes on here, if it is collected.
fn present_wait() -> Option<Span> {
    if !tracing::enabled!(target: "lockkeeper", Level::DEBUG) {
        return None;
    }
    let span = Span::current();
    let is_wait = span.metadata().is_some_and(|metadata| metadata.name() == WAIT && metadata.target() == "lockkeeper");
    is_wait.then_some(span)
}

/// Notes the place that the wait has.
pub(crate) fn note_place(contender: &ContenderId, ahead: usize) {
    if let Some(span) = present_wait() {
        span.record("contender", display(contender)).record("ahead", ahead);
    }
}

/// Waits for a contender to leave, as `departure` does, and notes which one it is and, after a second, whose.
pub(crate) async fn while_waiting_for<T>(
    shared: &Shared,
    queue: &QueueName,
    contender: &ContenderId,
    ahead: usize,
    departure: impl Future<Output = T>,
) -> T {
    let Some(span) = present_wait() else {
        return departure.await;
    };
    span.record("waited_for", display(contender));
    let note_owner = async {
        if ahead <= AHEAD_MAX {
            shared.clock.sleep_until(shared.clock.now().saturating_add(OWNER_AFTER)).await;
            // A look that fails changes nothing: the wait goes on without the owner's name.
            let shown = shared.backend.admin().inspect(queue).await.unwrap_or_default();
            if let Some(owner) = shown.iter().find(|info| info.id == *contender).and_then(|info| info.owner.as_ref()) {
                span.record("owner", display(owner));
            }
        }
        std::future::pending().await
    };
    tokio::select! {
        biased;
        departed = departure => departed,
        never = note_owner => never,
    }
}
