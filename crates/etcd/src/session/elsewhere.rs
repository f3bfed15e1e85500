//! Renews the lease over another member, while the one in use does not answer.
//!
//! A member whose leader stands still answers no renewal for seconds, even when the others have elected another leader.
//! Its connection may still be of use for all else, so it is given up later than that.

use std::time::Duration;

use lockkeeper_core::clock::BootInstant;
use lockkeeper_session::{Effect, Failure, Server, late};

use crate::rpc::KeepAlive;
use crate::session::belief::Renewal;
use crate::session::core::Core;
use crate::session::link::header;
use crate::session::renewal::{finds_session, proof};

/// The number of a connection that no session has: their numbers begin at 1.
const NO_CONNECTION: u64 = 0;

/// Tries the ways to the other members in turn until one has renewed the lease, and has proven it; or until the
/// deadline.
pub(super) async fn renew(core: &Core, silent: &Server, deadline: BootInstant) {
    let clock = &core.life.clock;
    let renewing = |way: Server, attempt_ends| async move {
        if way == *silent {
            return Err(Failure::late(Effect::None));
        }
        tokio::select! {
            biased;
            renewed = renew_over(core, &way, attempt_ends) => renewed,
            () = late(&**clock, attempt_ends) => Err(Failure::late(Effect::Unknown)),
        }
    };
    if let Err(failure) = core.config.finder(0, clock).round(deadline, renewing).await {
        tracing::debug!(target: "lockkeeper", %failure, "no other member has renewed the lease");
    }
}

/// Renews over one member. That the lease has ended is left to the connection in use to tell.
async fn renew_over(core: &Core, server: &Server, deadline: BootInstant) -> Result<(), Failure> {
    let connection = core.connect(server, deadline).await?;
    let sent_at = core.life.clock.now();
    let (_stream, answer) = KeepAlive::open(&connection, core.lease, deadline).await?;
    let Ok(seconds @ 1..) = u64::try_from(answer.ttl) else {
        return Err(Failure::unexpected());
    };
    let term = answer.header.ok_or_else(Failure::unexpected)?.raft_term;
    let renewal = Renewal { sent_at, connection: NO_CONNECTION, term };
    core.belief.lock().renewed(renewal, Duration::from_secs(seconds));
    let witness = core.belief.lock().witness(NO_CONNECTION);
    let answer = connection.call(proof(core), deadline).await?;
    let term = header(&answer)?.raft_term;
    if finds_session(&answer)
        && let Some(safe_until) = core.belief.lock().prove(witness, term)
    {
        core.life.bond().note_proof(sent_at);
        core.life.believe(safe_until);
    }
    Ok(())
}
