//! The dead contenders of a lock, for calls that do not wait.
//!
//! A session is proven dead by another one that observes its silence, for longer than a short-lived process runs. Where
//! only such processes come, and none of them waits, a dead holder would stay for good. So a session that is too young
//! to have observed the others finds out which contenders may be dead, and waits until they are removed or beat.
//!
//! Which may be, tokens and beats say, which are times: that is a hint, since clocks may be wrong. Nothing follows from
//! it but whether a call waits.

use lockkeeper_core::{Extent, Part, QueueName, Ticket};
use lockkeeper_session::Failure;

use crate::queue::Sql;
use crate::session::WaitEnd;
use crate::statement::looking;
use crate::timing::joined_lately;

/// Waits until all contenders of a lock seem to live, and returns false, or until one has departed.
pub(super) async fn outwait(service: &Sql, lock: &QueueName) -> bool {
    let core = &service.core;
    let Some(link) = core.life.present_link() else { return false };
    if core.life.clock.now().saturating_duration_since(core.opened_at) >= core.timing.doubt() {
        return false;
    }
    // Without an answer nothing is known, which is what the call knew before.
    let doubtful = doubtful(service, lock).await.unwrap_or_default();
    if doubtful.is_empty() {
        return false;
    }
    let waits: Vec<_> = doubtful.into_iter().map(|ticket| core.waits.departure_if_dead(&link, ticket)).collect();
    // The next beat asks for their sessions.
    core.life.urge();
    for wait in waits {
        match wait.await {
            WaitEnd::Departed => return true,
            WaitEnd::Stays => {}
            WaitEnd::Look | WaitEnd::ConnectionOver => return false,
        }
    }
    false
}

/// Names the contenders that did not join lately, of those that decide whether a newcomer has to wait.
async fn doubtful(service: &Sql, lock: &QueueName) -> Result<Vec<Ticket>, Failure> {
    let core = &service.core;
    let look = |part, extent| {
        let statement = looking(&lock.with_part(part), extent);
        core.life.look(service.run(move |_| statement.clone(), |_, answer| answer.standing()))
    };
    let line = look(Part::Line, Extent::Around(None)).await?;
    let standing = if line.is_empty() {
        let (waiters, permits) = (look(Part::Waiters, Extent::Around(None)), look(Part::Permits, Extent::Whole));
        let (mut standing, permits) = (waiters.await?, permits.await?);
        standing.extend(permits);
        standing
    } else {
        line
    };
    let now_unix = core.life.clock.unix_time();
    let doubtful = standing.iter().filter(|stored| !joined_lately(stored.token, now_unix, core.timing));
    Ok(doubtful.map(|stored| stored.ticket).collect())
}
