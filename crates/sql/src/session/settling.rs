//! Waits until no session can believe in a lock that another state of the data had granted.
//!
//! After a promotion, a restore or another start of the server, the data may lack what was acknowledged before, a
//! holder's row among it, and the timeouts of sessions too. So no lock is granted until every session of before has run
//! out: for the greatest timeout that any may have, and the margin. Where nothing seems to be lost, the wait is
//! [`BRIEF`](crate::timing::BRIEF): a former client that is back within it, and misses what it had, has all wait for
//! that greatest timeout.
//!
//! Data from before a greater longest timeout was set know nothing of it. So a client that settled data have told of
//! it sets it again before it waits. Where no such client comes within the wait, a session with that timeout may
//! believe for longer, unless an operator sets it again within the wait (`lockkeeper setup --max-session-timeout`).
//!
//! Each client counts that on its own clock, from the answer that told it; no server's clock has a part in it.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::Ticket;
use lockkeeper_core::clock::BootInstant;
use lockkeeper_session::{Effect, Failure, FailureKind, Link as _, SessionTiming as _};

use crate::look::SqlLink;
use crate::session::Core;
use crate::statement::{AnswerRow, Argument, RowKind, Statement, status, tickets};
use crate::timing::{BRIEF, Timing};

/// The longest time that is waited, in milliseconds: a day. No session has a timeout as long.
const WAIT_MS_MAX: i64 = 24 * 60 * 60 * 1_000;

/// What a server says of the state of its data.
#[derive(Clone, Debug)]
pub(super) enum DataState {
    /// Locks are granted. The name that the tables have for it.
    Settled(String),
    Unsettled(Unsettled),
}

/// A state of the data that is not settled.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Unsettled {
    /// The name that the tables have for it.
    pub(super) state: String,
    /// For how long it is waited for.
    wait: Duration,
    /// When a client that has waited from now on may settle it.
    pub(super) settles_at: BootInstant,
}

/// Fails if the answer to a beat tells that this state is not served any more: then what was withdrawn may have come
/// back, and the session is to be taken over anew. Functions of an older schema tell nothing.
pub(super) fn still_served(name: &str, beaten: &[AnswerRow]) -> Result<(), Failure> {
    match &status(beaten)?.ask {
        Some(told) if told != name => {
            let message = "the connection leads to another state of the data than the one that was greeted over it";
            Err(Failure::new(FailureKind::Broken, Effect::None, message))
        }
        _ => Ok(()),
    }
}

/// Asks whether the state of the data is settled. `instance` is the server's account of itself at the connection's
/// beginning; another one begins another state.
pub(super) fn greet(instance: &str) -> Statement {
    Statement::new("greet", vec![Argument::OptionalText(Some(instance.to_owned()))])
}

/// Asks the same over a connection that may have come to another server since.
fn ask() -> Statement {
    Statement::new("greet", vec![Argument::OptionalText(None)])
}

/// Sets the longest timeout of sessions.
fn longest(timeout_max: Duration) -> Statement {
    let timeout_ms = i64::try_from(timeout_max.as_millis()).ok();
    Statement::new("limit", vec![Argument::OptionalInt(timeout_ms), Argument::Flag(false)])
}

impl DataState {
    /// Reads the answer of `greet`, received at this moment. `before` is what was known over an earlier connection.
    pub(super) fn read(rows: &[AnswerRow], at: BootInstant, before: Option<&Unsettled>) -> Result<Self, Failure> {
        let status = status(rows)?;
        match (status.text.as_deref(), &status.ask) {
            (Some("ok"), Some(state)) => Ok(Self::Settled(state.clone())),
            (Some("unsettled"), Some(state)) => {
                // The wait goes on that was begun over another connection to the same.
                if let Some(before) = before.filter(|before| before.state == *state) {
                    return Ok(Self::Unsettled(before.clone()));
                }
                let wait_ms = status.timeout_ms.unwrap_or(WAIT_MS_MAX).clamp(0, WAIT_MS_MAX);
                let wait = Duration::from_millis(wait_ms.unsigned_abs());
                let settles_at = at.saturating_add(Timing { timeout: wait }.doubt());
                Ok(Self::Unsettled(Unsettled { state: state.clone(), wait, settles_at }))
            }
            _ => Err(Failure::unexpected()),
        }
    }

    pub(super) fn unsettled(&self) -> Option<&Unsettled> {
        match self {
            Self::Settled(_) => None,
            Self::Unsettled(unsettled) => Some(unsettled),
        }
    }
}

impl Unsettled {
    /// Whether these data are from before a longest timeout that a client was told of: a session with that one may
    /// believe for longer than they are waited for. A brief wait says nothing of the longest timeout.
    pub(super) fn forgets(&self, timeout_max: Duration) -> bool {
        BRIEF < self.wait && self.wait < timeout_max
    }

    /// Whether no session of before can believe any more, so that the state may be settled.
    pub(super) fn is_over(&self, now: BootInstant) -> bool {
        now >= self.settles_at
    }

    /// Why calls wait meanwhile.
    fn trouble(&self, now: BootInstant) -> Failure {
        let left = self.settles_at.saturating_duration_since(now);
        let message = format!(
            "the server may lack what it had acknowledged, after a promotion, a restore, or another start: it grants \
             no lock for {} s, until all who held one of before have given it up or have come back",
            left.as_secs() + 1
        );
        Failure::new(FailureKind::Unavailable, Effect::None, message)
    }
}

/// Takes in that the data have no row of this session; returns the failure of what found it out.
pub(super) async fn miss_session(core: &Core, link: &Arc<SqlLink>) -> Failure {
    // None may have removed it while it is believed.
    let doubted = if core.life.is_believed() { doubt(core, link).await } else { Ok(()) };
    doubted.err().unwrap_or_else(Failure::session_gone)
}

/// Takes in that the data have no row of these contenders of ours. `rows` tell which of them were broken.
pub(super) async fn miss_contenders(
    core: &Core,
    link: &Arc<SqlLink>,
    rows: &[AnswerRow],
    missing: &[Ticket],
) -> Result<(), Failure> {
    match core.contenders.has_standing(lacked(rows, missing)) {
        true => doubt(core, link).await,
        false => Ok(()),
    }
}

/// Those of the missing contenders that were not broken, as far as the rows tell: the data lack what they had.
pub(super) fn lacked<'a>(rows: &[AnswerRow], missing: &'a [Ticket]) -> impl Iterator<Item = &'a Ticket> {
    let broken: Vec<Ticket> = tickets(rows, RowKind::Broken).collect();
    missing.iter().filter(move |ticket| !broken.contains(ticket))
}

/// Says that the data lack what was acknowledged to this session, if they are not settled.
async fn doubt(core: &Core, link: &Arc<SqlLink>) -> Result<(), Failure> {
    let greeted = core.patiently(core.ask(link, greet(&link.connection.instance))).await?;
    match DataState::read(&greeted, core.life.clock.now(), None)? {
        DataState::Settled(_) => Ok(()),
        DataState::Unsettled(Unsettled { state, .. }) => {
            let doubt = Statement::new("doubt", vec![Argument::Text(state)]);
            core.patiently(core.ask(link, doubt)).await.map(drop)
        }
    }
}

/// Waits until the state of the data is settled, and settles it if no other client does; returns its name.
pub(super) async fn until_settled(core: &Core, link: &Arc<SqlLink>, unsettled: &Unsettled) -> Result<String, Failure> {
    tracing::debug!(target: "lockkeeper", server = %link.server(), "{}", unsettled.trouble(core.life.clock.now()));
    let mut unsettled = unsettled.clone();
    loop {
        let timeout_max = core.timeout_max_told();
        if unsettled.forgets(timeout_max) {
            // That begins another state, of which the next answer tells.
            if let Err(failure) = core.ask(link, longest(timeout_max)).await {
                pause_after(core, failure).await?;
            }
        }
        let now = core.life.clock.now();
        core.life.set_trouble(Some(unsettled.trouble(now).at(link.server())));
        let next = now.saturating_add(core.timing.holding_interval()).min(unsettled.settles_at);
        core.life.clock.sleep_until(next).await;
        if unsettled.is_over(core.life.clock.now()) {
            let settle = Statement::new("settle", vec![Argument::Text(unsettled.state.clone())]);
            match core.ask(link, settle).await {
                Ok(rows) if status(&rows)?.text.as_deref() == Some("ok") => return Ok(unsettled.state),
                // The data changed their state again.
                Ok(_) => {}
                Err(failure) => pause_after(core, failure).await?,
            }
        }
        // Another client may have settled it, or told that it misses something.
        match core.ask(link, ask()).await {
            Ok(rows) => match DataState::read(&rows, core.life.clock.now(), Some(&unsettled))? {
                DataState::Unsettled(still) => unsettled = still,
                DataState::Settled(name) => return Ok(name),
            },
            Err(failure) => pause_after(core, failure).await?,
        }
    }
}

/// Waits a little after a failure that passes over the same connection.
async fn pause_after(core: &Core, failure: Failure) -> Result<(), Failure> {
    if !failure.is_passing() || failure.needs_another() {
        return Err(failure);
    }
    core.life.clock.sleep_until(core.life.clock.now().saturating_add(core.timing.again_interval())).await;
    Ok(())
}
