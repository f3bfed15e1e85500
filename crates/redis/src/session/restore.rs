//! Begins the use of a connection: the server gets to know the scripts, and the session's new epoch.

use std::sync::Arc;

use lockkeeper_core::clock::BootInstant;
use lockkeeper_session::Failure;
use redis::Value;

use crate::answers::{list, text};
use crate::connection::{Batch, Connection, answer};
use crate::layout::Layout;
use crate::script::Script;
use crate::session::Link;
use crate::session::core::Core;
use crate::session::replicas::{check, copied};

/// Begins a batch by which the server gets to know the scripts.
pub(crate) fn teach(layout: &Layout) -> Batch {
    layout.scripts().iter().fold(Batch::new(), Batch::load)
}

/// Reads the answers to such a batch; returns that to the script behind.
pub(crate) fn taught(mut answers: Vec<Value>, what: &str) -> Result<Value, Failure> {
    let last = answers.pop().ok_or_else(Failure::unexpected)?;
    for loaded in answers {
        answer(loaded, "SCRIPT LOAD")?;
    }
    answer(last, what)
}

/// Takes a session over to another connection. From then on no join of an older one takes effect.
pub(super) async fn restore(
    core: &Core,
    connection: Connection,
    number: u64,
    deadline: BootInstant,
) -> Result<Arc<Link>, Failure> {
    let sent_at = core.life.clock.now();
    let timeout = core.timing.timeout.as_millis().to_string();
    let arguments = [core.id.to_string(), timeout, core.epoch(number)];
    let batch = teach(&core.layout).script(core.layout.script(Script::Attach), &[core.layout.base()], &arguments[..]);
    let mut answers = connection.send_until(copied(batch, &core.config), deadline).await?;
    let copies = answers.split_off((core.layout.scripts().len() + 1).min(answers.len()));
    let mut answer = list(taught(answers, "attach")?)?.into_iter();
    match text(answer.next().ok_or_else(Failure::unexpected)?)?.as_str() {
        "ok" => {
            check(&core.config, &mut copies.into_iter())?;
            core.renewed(sent_at);
            Ok(Link::new(connection, number, ()))
        }
        "gone" => Err(Failure::session_gone()),
        _ => Err(Failure::superseded()),
    }
}
