//! Looking at the service: `ls`, `show`, `wait` and `check`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lockkeeper::clock::{Clock, SystemClock};
use lockkeeper::retry::{Attempts, RetryPolicy};
use lockkeeper::{Advice, Error, Keeper, QueueName, Wait};
use tokio::time::timeout;

use super::service::{answer, block_on_closing, open, open_by, talk};
use crate::config::{Global, ServiceSettings};
use crate::exit::{CommandFailure, NOT_ACQUIRED};
use crate::output::{Checked, ListedLock, ShownLock, one_line, say};
use crate::run::hold_socket::{self, HoldAnswer};
use crate::voice::Voice;
use crate::wait_line::narrate;
use crate::{held, log, output};

/// How long a look is tried again while the service cannot be reached, if the settings have no policy: an ensemble that
/// elects a leader refuses everything, and is mostly back sooner.
const TRY_MAX: Duration = Duration::from_secs(5);

/// How long after a look that failed the next one is made; at least half of that.
const TRY_PAUSE: Duration = Duration::from_millis(500);

pub(super) fn ls(global: &Global, prefix: &str) -> Result<u8, CommandFailure> {
    let settings = ServiceSettings::load(global)?;
    let keeper = open_by(global, &settings)?;
    let locks = block_on_closing(&keeper, async {
        keeper.admin().tidy().await;
        listed(&keeper, &looks(&keeper, settings.retry), prefix).await
    })??;
    answer(global, &locks, || output::list(&locks))
}

async fn listed(keeper: &Keeper, looks: &Attempts<Error>, prefix: &str) -> lockkeeper::Result<Vec<ListedLock>> {
    let mut locks = Vec::new();
    for name in looks.run(|| keeper.admin().queues(prefix)).await? {
        let queue = looks.run(|| keeper.contenders(name.as_str())).await?;
        // A contender may have left since the queues were listed.
        if !queue.is_empty() {
            locks.push(ListedLock::new(name.as_str(), &queue, SystemClock.unix_time()));
        }
    }
    Ok(locks)
}

/// Prints the names of the locks in use, for a shell that completes a name.
pub(super) fn names(global: &Global, prefix: &str) -> Result<u8, CommandFailure> {
    /// How long a user who has pressed a key waits for it.
    const TIME_MAX: Duration = Duration::from_secs(1);
    let keeper = open(global)?;
    let listed = block_on_closing(&keeper, async { timeout(TIME_MAX, keeper.admin().queues(prefix)).await })?;
    let names = listed.unwrap_or_else(|_| Ok(Vec::new()))?;
    let lines: String = names.iter().map(|name| format!("{}\n", one_line(name.as_str()))).collect();
    output::print(&lines).map(|()| 0)
}

pub(super) fn show(global: &Global, name: &str) -> Result<u8, CommandFailure> {
    let name = QueueName::new(name)?;
    let settings = ServiceSettings::load(global)?;
    let keeper = open_by(global, &settings)?;
    let looks = looks(&keeper, settings.retry);
    let queue = block_on_closing(&keeper, looks.run(|| keeper.contenders(name.as_str())))??;
    let shown = ShownLock::new(name.as_str(), keeper.service(), &queue, SystemClock.unix_time());
    answer(global, &shown, || shown.text())
}

/// The attempts at each look, as [`tries`] makes them. The first failure is printed.
pub(super) fn looks(keeper: &Keeper, policy: Option<RetryPolicy>) -> Attempts<Error> {
    let service = keeper.service();
    let limit = if policy.is_some() { String::new() } else { format!(" for {}s", TRY_MAX.as_secs()) };
    let is_mentioned = AtomicBool::new(false);
    tries(policy).listener(move |failure| {
        if !is_mentioned.swap(true, Ordering::Relaxed) {
            say(&format!("cannot look at {service}, trying again{limit}: {:#}", failure.error));
        }
    })
}

/// The attempts at each look: retried while the service cannot be reached, by the policy if there is one and for a
/// short time otherwise.
pub(super) fn tries(policy: Option<RetryPolicy>) -> Attempts<Error> {
    policy
        .unwrap_or_else(|| RetryPolicy::until_elapsed(TRY_MAX, TRY_PAUSE))
        .attempts(|error: &Error| error.advice() == Advice::Transient)
}

/// Waits for as long as `wait` says, and tells by the exit code whether the lock was left.
pub(super) fn wait(global: &Global, name: &str, wait: Wait) -> Result<u8, CommandFailure> {
    let name = QueueName::new(name)?;
    let keeper = ServiceSettings::load(global)?.keeper()?.build();
    let voice = Arc::new(Voice::new(talk(global)));
    log::listen(voice.clone());
    voice.verbose(&format!("using {}", keeper.service()));
    let is_vacant = block_on_closing(&keeper, async {
        tokio::select! {
            biased;
            vacant = keeper.until_vacant(name.as_str(), wait) => vacant,
            () = narrate(&keeper, name.as_str(), &voice) => unreachable!("it never ends by itself"),
        }
    })?;
    voice.clear_status();
    if is_vacant?.is_some() {
        Ok(0)
    } else {
        let message = format!("{name} ({}) is still in use", keeper.service());
        Err(CommandFailure { code: NOT_ACQUIRED, message })
    }
}

/// The exit code of a lock that is not held any more.
const NOT_HELD: u8 = 1;

pub(super) fn check(global: &Global) -> Result<u8, CommandFailure> {
    let Some(address) = std::env::var_os(hold_socket::VARIABLE) else {
        let variable = hold_socket::VARIABLE;
        return Err(CommandFailure::ours(format!(
            "{variable} is not set: `check` works in a command under `lockkeeper run`"
        )));
    };
    let answer = held::ask(&address.to_string_lossy()).map_err(|error| {
        CommandFailure::ours(format!("cannot tell whether the lock is held; its runner does not answer: {error}"))
    })?;
    let checked = match answer {
        Some(HoldAnswer { held, safe_for_ms, token }) => Checked { held, safe_for_ms, token: Some(token) },
        None => Checked { held: false, safe_for_ms: None, token: None },
    };
    if global.json {
        output::print_json(&checked)?;
    }
    if global.verbose {
        say(if checked.held { "the lock is held" } else { "the lock is not held any more" });
    }
    Ok(if checked.held { 0 } else { NOT_HELD })
}
