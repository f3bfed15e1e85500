//! Waits until no session can believe in a lock that another state of the data had granted.
//!
//! After a promotion or a restore, or the restart of a server that does not flush, the data may lack what was
//! acknowledged before, a holder's row among it. So no lock is granted until every session of before has run out: for
//! the greatest timeout that a session was ever opened with, and the margin. Each client counts that on its own clock,
//! from the answer that told it; no server's clock has a part in it.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::Operation;
use lockkeeper_core::clock::BootInstant;

use crate::failure::{Effect, Failure, FailureKind};
use crate::session::belief::Timing;
use crate::session::core::Core;
use crate::session::link::Link;
use crate::statement::{Argument, Row, Statement, status};

/// The longest time that is waited, in milliseconds: a day. No session has a timeout as long.
const TIMEOUT_MS_MAX: i64 = 24 * 60 * 60 * 1_000;

/// A state of the data that is not settled.
#[derive(Clone, Debug)]
pub(super) struct Unsettled {
    instance: String,
    settles_at: BootInstant,
}

/// Asks whether this state of the data is settled.
pub(super) fn hello(instance: &str) -> Statement {
    Statement::new("hello", vec![Argument::Text(instance.to_owned())])
}

impl Unsettled {
    /// Reads the answer of `hello`, received at this moment; `None` if it is settled. `before` is what was known over
    /// an earlier connection.
    pub(super) fn read(
        rows: &[Row],
        instance: &str,
        at: BootInstant,
        before: Option<&Self>,
    ) -> Result<Option<Self>, Failure> {
        let status = status(rows)?;
        match status.text.as_deref() {
            Some("ok") => Ok(None),
            Some("unsettled") => {
                // The wait goes on that was begun over another connection to the same.
                if let Some(before) = before.filter(|before| before.instance == instance) {
                    return Ok(Some(before.clone()));
                }
                let timeout_ms = status.timeout_ms.unwrap_or(TIMEOUT_MS_MAX).clamp(0, TIMEOUT_MS_MAX);
                let timeout = Duration::from_millis(timeout_ms.unsigned_abs());
                let settles_at = at.saturating_add(Timing { timeout }.doubt());
                Ok(Some(Self { instance: instance.to_owned(), settles_at }))
            }
            _ => Err(Failure::unexpected()),
        }
    }

    /// Why calls wait meanwhile.
    fn trouble(&self, now: BootInstant) -> Failure {
        let left = self.settles_at.saturating_duration_since(now);
        let message = format!(
            "the server may lack what it had acknowledged, after a promotion, a restore, or a restart without flushed \
             data: it grants no lock for {} s, until all who held one of before have given it up",
            left.as_secs() + 1
        );
        Failure::new(FailureKind::Unavailable, Effect::None, message)
    }
}

/// Puts a connection to use: at once, or once the state of its data is settled.
pub(super) async fn attach(
    core: &Core,
    link: &Arc<Link>,
    unsettled: Option<&Unsettled>,
) -> Result<Infallible, Failure> {
    if let Some(unsettled) = unsettled {
        until_settled(core, link, unsettled).await?;
    }
    core.attach(link.clone());
    std::future::pending().await
}

async fn until_settled(core: &Core, link: &Arc<Link>, unsettled: &Unsettled) -> Result<(), Failure> {
    tracing::debug!(target: "lockkeeper", server = %link.server, "{}", unsettled.trouble(core.clock.now()));
    loop {
        let now = core.clock.now();
        core.set_trouble(Some(unsettled.trouble(now).at(&link.server)));
        let next = now.saturating_add(core.timing.busy_interval()).min(unsettled.settles_at);
        core.clock.sleep_until(next).await;
        // Another client may have settled it.
        let is_due = core.clock.now() >= unsettled.settles_at;
        let statement = if is_due {
            Statement::new("settle", vec![Argument::Text(unsettled.instance.clone())])
        } else {
            hello(&unsettled.instance)
        };
        match core.ask(link, statement, Operation::Connect).await {
            Ok(rows) if status(&rows)?.text.as_deref() == Some("ok") => return Ok(()),
            // The data changed its state again.
            Ok(_) if is_due => return Err(Failure::broken(Effect::None)),
            Ok(_) => {}
            Err(failure) if failure.is_passing() && !failure.needs_another() => {
                core.clock.sleep_until(core.clock.now().saturating_add(core.timing.busy_interval() / 4)).await;
            }
            Err(failure) => return Err(failure),
        }
    }
}
