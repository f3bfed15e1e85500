//! Keeps a session alive over one connection, and removes what dead ones have left.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{Operation, Ticket};
use lockkeeper_session::{Effect, Failure, News, late};
use redis::Value;

use crate::answers::{list, number, only, text};
use crate::connection::{Batch, Connection, Wake, answer};
use crate::script::Script;
use crate::session::Link;
use crate::session::core::Core;
use crate::session::replicas::{check, copied};

/// The pause before the next renewal if more of the dead is to be removed: others wait for the server too.
const BURIAL_PAUSE: Duration = Duration::from_millis(5);

/// What a renewal was answered.
struct Renewed {
    /// By how much the service's clock goes on at most at once.
    guard: Duration,
    /// Whether the dead have left more.
    has_more_dead: bool,
}

/// Renews until the connection fails, or the service has ended the session: then the failure's kind is
/// [`FailureKind::SessionGone`](lockkeeper_session::FailureKind::SessionGone).
pub(super) async fn run(core: &Arc<Core>, link: &Arc<Link>) -> Failure {
    loop {
        let sent_at = core.life.clock.now();
        let pause = match renew(core, link, sent_at).await {
            Ok(Renewed { has_more_dead: true, .. }) => BURIAL_PAUSE,
            Ok(Renewed { guard, .. }) => core.timing.interval_under(guard),
            // The server turns us away for now; the session may still be renewed in time.
            Err(failure) if failure.is_passing() && failure.effect == Effect::None && !failure.needs_another() => {
                core.life.set_trouble(Some(failure));
                core.timing.interval() / 4
            }
            Err(failure) => return failure,
        };
        tokio::select! {
            biased;
            () = core.life.urged() => {}
            () = core.life.clock.sleep_until(sent_at.saturating_add(pause)) => {}
        }
    }
}

async fn renew(core: &Arc<Core>, link: &Arc<Link>, sent_at: BootInstant) -> Result<Renewed, Failure> {
    let mut arguments = vec![core.id.to_string(), core.timing.timeout.as_millis().to_string()];
    arguments.extend(core.contenders.next().into_iter().flat_map(|(_, at)| at));
    let batch = Batch::new().script(core.layout.script(Script::Renew), &[core.layout.base()], arguments);
    let asking = core.send(link, copied(batch, &core.config), Operation::Connect);
    let answers = tokio::select! {
        biased;
        answers = asking => answers?,
        () = late(&*core.life.clock, sent_at.saturating_add(core.timing.patience())) => {
            return Err(Failure::broken(Effect::Unknown));
        }
    };
    let mut answers = answers.into_iter();
    let mut answer = list(answer(answers.next().ok_or_else(Failure::unexpected)?, "renew")?)?.into_iter();
    let mut next = || answer.next().ok_or_else(Failure::unexpected);
    if text(next()?)? == "gone" {
        return Err(Failure::session_gone());
    }
    let (guard_ms, has_more_dead) = (number(&next()?)?, number(&next()?)? != 0);
    check(&core.config, &mut answers)?;
    core.renews_under(guard_ms);
    core.renewed(sent_at);
    core.life.set_trouble(None);
    for gone in answer {
        if let Some(ticket) = Ticket::parse(&text(gone)?) {
            core.contenders.tell(News::Missing(ticket));
        }
    }
    Ok(Renewed { guard: Duration::from_millis(guard_ms), has_more_dead })
}

/// Waits until the service says that the session is over: the key that is there while the session is was deleted.
/// Returns at any failure too.
pub(super) async fn until_gone(core: &Core, connection: &Connection) -> Failure {
    loop {
        match watch_once(core, connection).await {
            Ok(Wake::Changed) => {}
            Ok(Wake::ConnectionOver) => return Failure::broken(Effect::None),
            Err(failure) => return failure,
        }
    }
}

async fn watch_once(core: &Core, connection: &Connection) -> Result<Wake, Failure> {
    let told = connection.wait_for(core.layout.alive(core.id).as_bytes())?;
    let answers = connection.send(Batch::new().tracked_get(&told)).await?;
    match answer(only(answers)?, "GET")? {
        Value::Nil => Err(Failure::session_gone()),
        _ => Ok(told.await),
    }
}
