//! Whether a write that a service takes in late, when its contender has left, does harm to the next one of the session.

use std::time::Duration;

use lockkeeper_conformance::soon;
use lockkeeper_core::{Enqueued, Session, Ticket};

use crate::waist::{door, entry, ticket, tickets};

/// How long the harm of a late write is looked for.
pub const LOOKED_FOR: Duration = Duration::from_millis(100);

/// Joins.
///
/// # Panics
///
/// The service failed, or took too long.
pub async fn join(session: &dyn Session, ticket: Ticket) -> Enqueued {
    soon("a place", session.enqueue_one(&door(), entry(ticket))).await.expect("a place")
}

/// Joins again after a contender of `ours` has left, with a contender of `next` behind it; lets the late write `pass`,
/// and says what became of the second contender if it did not stay first in the queue, or its owner was asked for
/// something. `ours` ends then.
///
/// # Panics
///
/// As [`join`].
pub async fn harm(ours: &dyn Session, next: &dyn Session, pass: impl FnOnce(&Enqueued)) -> Option<String> {
    let (second, behind) = (ticket(), ticket());
    let place = join(ours, second).await;
    join(next, behind).await;
    pass(&place);
    let looking = async {
        loop {
            let seen = tickets(next).await;
            if seen != [Some(second), Some(behind)] {
                return format!("the queue is {seen:?}, not {:?}", [second, behind]);
            }
        }
    };
    let looked = tokio::time::timeout(LOOKED_FOR, async {
        tokio::select! {
            harm = looking => harm,
            asked = place.standing.revoked() => format!("its owner is asked to give up: {asked:?}"),
        }
    });
    let harm = looked.await.ok();
    let left = soon("the release", ours.withdraw(&door(), second)).await;
    let harm = harm.or_else(|| left.err().map(|error| error.to_string()));
    soon("the release", next.withdraw(&door(), behind)).await.expect("it stands");
    soon("the end", ours.close()).await.expect("the end");
    harm
}
