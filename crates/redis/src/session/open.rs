//! Opens a session: its record in the service, and the connection over which it was made.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{BoxFuture, Operation, Owner, Result, Ticket};
use lockkeeper_session::{FIRST_CONNECTION, Failure, Server, Unclaimed, keep, of_task, runtime_for};
use tokio::runtime::Handle;

use crate::connection::{Batch, Connection, OpenedConnection};
use crate::layout::RedisSessionId;
use crate::script::Script;
use crate::session::belief::Timing;
use crate::session::driver::{Driver, taught_and_copied, teach};
use crate::session::{Core, RedisLink, copied};
use crate::url::{ClockGuard, RedisSite};

/// The greatest step of the service's clock where the server's clock is trusted, in milliseconds: a century.
const TRUSTED_GUARD_MS: u128 = 100 * 365 * 24 * 60 * 60 * 1_000;

/// How long the end of a session that is not used may take.
const CLOSED_WITHIN: Duration = Duration::from_secs(2);

/// Opens a session at the first server that lets us. Dropping the future ends what it has begun.
pub(crate) async fn open(site: RedisSite) -> Result<Arc<Core>> {
    let runtime = runtime_for("Redis")?;
    let deadline = site.clock.now().saturating_add(site.config.connect_timeout);
    let mut finder = site.config.finder(&site.clock);
    let (site, place) = (&site, &runtime);
    let opened = finder.round(deadline, |server, attempt_ends| async move {
        // Each attempt opens another session: the end of one that failed may come late, and under another name of the
        // same server.
        let bits = Ticket::mint().map_err(|error| Failure::unreachable("no session can be named", error))?.bits();
        attempt(site, RedisSessionId::from_random(bits), server, attempt_ends, place).await
    });
    let (core, link) = opened.await.map_err(|failure| failure.into_core(Operation::Connect, false))?;
    runtime.spawn(keep(Driver(core.clone()), finder, link));
    Ok(core)
}

async fn attempt(
    site: &RedisSite,
    id: RedisSessionId,
    server: Server,
    deadline: BootInstant,
    runtime: &Handle,
) -> Result<(Arc<Core>, Arc<RedisLink>), Failure> {
    let RedisSite { config, layout, clock, .. } = site;
    let timing = Timing { timeout: config.session_timeout() };
    let guard_ms = match config.clock_guard {
        ClockGuard::Guarded => timing.guard().as_millis(),
        ClockGuard::Trusting => TRUSTED_GUARD_MS,
    };
    let owner = Owner::this_process().to_string();
    let arguments = [id.to_string(), timing.timeout.as_millis().to_string(), guard_ms.to_string(), owner];
    let batch = teach(layout).script(layout.script(Script::Open), &[layout.base()], &arguments[..]);
    let (first, way) = (copied(batch, config), (config.clone(), clock.clone()));
    // It goes on if the caller gives up, so that the session can be ended then.
    let connecting = runtime.spawn(async move {
        let (config, clock) = way;
        Connection::open_with(first, &server, &config.access, &clock, deadline).await
    });
    let mut opening = Unclaimed::new(connecting, |connecting| {
        let closing = close(site, id);
        runtime.spawn(async move {
            // Without an answer there is no way to the session, if there is one. It expires.
            if let Ok(Ok(opened)) = connecting.await {
                closing(opened.connection).await;
            }
        });
    });
    let opened = (&mut *opening).await.map_err(of_task);
    drop(opening.claim());
    let OpenedConnection { connection, sent_at: opened_at, answers } = opened??;
    let connection = Unclaimed::new(connection, |connection| drop(runtime.spawn(close(site, id)(connection))));
    config.check(&connection)?;
    if taught_and_copied(layout, config, answers?, "open")? != "ok" {
        return Err(Failure::unexpected());
    }
    let core = Arc::new(Core::new(site, id, opened_at, runtime.clone()));
    Ok((core, RedisLink::new(connection.claim(), FIRST_CONNECTION, ())))
}

fn close(site: &RedisSite, id: RedisSessionId) -> impl FnOnce(Connection) -> BoxFuture<()> + Send + use<> {
    let batch = Batch::new().script(site.layout.script(Script::Close), &[site.layout.base()], id.to_string());
    let clock = site.clock.clone();
    move |connection| {
        Box::pin(async move {
            // A session that could not be ended expires.
            let _ = connection.send_until(batch, clock.now().saturating_add(CLOSED_WITHIN)).await;
        })
    }
}
