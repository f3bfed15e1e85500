//! Keeps the lease alive over one connection, and proves each renewal by a read that goes through the quorum.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::Operation;
use lockkeeper_core::clock::BootInstant;
use lockkeeper_session::{Effect, Failure, Lookable as _, late};

use crate::proto::{RangeRequest, RangeResponse};
use crate::rpc::{KeepAlive, key_range};
use crate::session::belief::Renewal;
use crate::session::core::Core;
use crate::session::elsewhere;
use crate::session::link::{Link, header};

/// Renews until the connection fails, or the service has ended the session: then the failure's kind is
/// [`FailureKind::SessionGone`].
pub(super) async fn run(core: &Arc<Core>, link: &Link) -> Failure {
    let mut stream = None;
    loop {
        let sent_at = core.life.clock.now();
        if let Err(failure) = renew(core, link, &mut stream, sent_at).await {
            return failure;
        }
        core.life.proven(sent_at);
        until_due(core, sent_at).await;
    }
}

/// Waits until the renewal after one that was sent at this moment is due, or is asked for.
async fn until_due(core: &Core, sent_at: BootInstant) {
    loop {
        let interval = match core.has_dependents() {
            true => core.timing.holding_interval(),
            false => core.timing.idle_interval(),
        };
        tokio::select! {
            biased;
            () = core.life.urged() => return,
            () = core.entered.notified() => {}
            () = core.life.clock.sleep_until(sent_at.saturating_add(interval)) => return,
        }
    }
}

/// Renews over this connection; and over another member too, where that takes long.
async fn renew(
    core: &Arc<Core>,
    link: &Link,
    stream: &mut Option<KeepAlive>,
    sent_at: BootInstant,
) -> Result<(), Failure> {
    let deadline = sent_at.saturating_add(core.timing.patience());
    let renewing = renew_over(core, link, stream, sent_at, deadline);
    let elsewhere = async {
        core.life.clock.sleep_until(sent_at.saturating_add(core.timing.doubt())).await;
        elsewhere::renew(core, link.connection.server(), deadline).await;
        // This connection may still be of use.
        std::future::pending().await
    };
    tokio::select! {
        biased;
        renewed = renewing => renewed,
        () = late(&*core.life.clock, deadline) => Err(Failure::late(Effect::Unknown)),
        never = elsewhere => never,
    }
}

async fn renew_over(
    core: &Core,
    link: &Link,
    stream: &mut Option<KeepAlive>,
    sent_at: BootInstant,
    deadline: BootInstant,
) -> Result<(), Failure> {
    let answer = match stream {
        Some(stream) => stream.renew().await?,
        None => {
            let (opened, answer) = KeepAlive::open(&link.connection, core.lease, deadline).await?;
            *stream = Some(opened);
            answer
        }
    };
    let Ok(seconds @ 1..) = u64::try_from(answer.ttl) else {
        return Err(Failure::session_gone());
    };
    let term = answer.header.ok_or_else(Failure::unexpected)?.raft_term;
    let renewal = Renewal { sent_at, connection: link.number, term };
    core.belief.lock().renewed(renewal, Duration::from_secs(seconds));
    let answer = core.ask(link, proof(core), Operation::Connect, deadline).await?;
    header(&answer)?;
    if !finds_session(&answer) {
        return Err(Failure::session_gone());
    }
    Ok(())
}

/// A request that goes through the quorum, and shows whether the session is there.
pub(super) fn proof(core: &Core) -> RangeRequest {
    key_range(core.layout.session(core.lease))
}

/// Whether the session's key is there; it goes with the lease.
pub(super) fn finds_session(answer: &RangeResponse) -> bool {
    !answer.kvs.is_empty()
}
