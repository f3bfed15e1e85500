//! The commands that the feature `monitor` adds: `monitor`, `history`, `deadlocks` and `gc`.

use lockkeeper::clock::{Clock, SystemClock};
use lockkeeper::follow::Scope;
use lockkeeper::{Advice, Keeper, RemnantKind, Result, UNUSED_FOR};
use lockkeeper_console::args::{HistoryArgs, MonitorArgs};
use lockkeeper_console::monitor::{HistoryForm, Monitor, ask_history};
use lockkeeper_monitor::{CONFIRM_AFTER, Confirmation, DeadlockVerdict, Judged, ServiceSnapshot, find, look};

use super::look::{looks, tries};
use super::service::{answer, block_on, block_on_closing, open, open_by, talk};
use crate::config::{Global, ServiceSettings, monitor_settings};
use crate::exit::{CommandFailure, DEADLOCKED};
use crate::output::{self, Deadlocks, RemnantOutcome, Remnants, say};
use crate::signals::EndingSignals;
use crate::voice::Talk;

/// Serves until TERM, INT or HUP.
pub(crate) fn monitor(global: &Global, args: MonitorArgs) -> Result<u8, CommandFailure> {
    let monitor = Monitor::new(args)?;
    let settings = monitor_settings(global)?;
    let keeper = open(global)?;
    block_on_closing(&keeper, async {
        let mut interruption = EndingSignals::listen()?;
        let stopping = async { interruption.heard().await.name };
        monitor.serve(&keeper, settings, global.orders(), stopping).await
    })?
}

/// Asks a running monitor for what it remembers.
pub(crate) fn history(global: &Global, args: &HistoryArgs) -> Result<u8, CommandFailure> {
    let form = if global.json { HistoryForm::Lines } else { HistoryForm::Text };
    output::print(&block_on(ask_history(args, form))??)?;
    Ok(0)
}

pub(crate) fn deadlocks(global: &Global) -> std::result::Result<u8, CommandFailure> {
    let settings = ServiceSettings::load(global)?;
    let keeper = open_by(global, &settings)?;
    let (snapshot, judged) = block_on_closing(&keeper, judged(&keeper, &settings, talk(global)))??;
    let found = Deadlocks::new(keeper.service(), &snapshot, &judged, &global.orders());
    answer(global, &found, || found.text())?;
    let is_known = judged.iter().any(|judged| judged.verdict == DeadlockVerdict::Known);
    Ok(if is_known { DEADLOCKED } else { 0 })
}

/// Looks at the service, and again if there is something to confirm.
pub(crate) async fn judged(
    keeper: &Keeper,
    settings: &ServiceSettings,
    talk: Talk,
) -> Result<(ServiceSnapshot, Vec<Judged>)> {
    // A policy may try for long, and then that is said.
    let looks = if settings.retry.is_some() { looks(keeper, settings.retry.clone()) } else { tries(None) };
    let (all, mut confirmation) = (Scope::default(), Confirmation::default());
    let first = looks.run(|| look(keeper, &SystemClock, &all)).await?;
    let judged = confirmation.judge(&first, find(&first));
    if judged.is_empty() {
        return Ok((first, judged));
    }
    if talk == Talk::Verbose {
        say(&format!("seen once; looking again in {CONFIRM_AFTER:?}"));
    }
    SystemClock.sleep_until(first.ended.saturating_add(CONFIRM_AFTER)).await;
    let second = looks.run(|| look(keeper, &SystemClock, &all)).await?;
    let judged = confirmation.judge(&second, find(&second));
    Ok((second, judged))
}

pub(crate) fn gc(global: &Global, yes: bool, force: bool) -> Result<u8, CommandFailure> {
    let settings = ServiceSettings::load(global)?;
    let keeper = open_by(global, &settings)?;
    let looks = looks(&keeper, settings.retry);
    block_on_closing(&keeper, async {
        let found = looks.run(|| keeper.admin().remnants(UNUSED_FOR)).await?;
        let mut remnants = Remnants::new(keeper.service(), found, |kind| match kind {
            RemnantKind::Unbound if !force => RemnantOutcome::NeedsForce,
            _ => RemnantOutcome::Listed,
        });
        if !yes {
            let orders = global.orders();
            return answer(global, &remnants, || remnants.text() + &remnants.order(&orders));
        }
        if !global.json {
            // What is about to happen is printed first.
            output::print(&remnants.text())?;
        }
        let failure = clear(&keeper, &mut remnants).await;
        answer(global, &remnants, || remnants.outcome())?;
        failure.map_or(Ok(0), Err)
    })?
}

/// Removes what is to be removed, and returns why some of it could not be.
async fn clear(keeper: &Keeper, remnants: &mut Remnants) -> Option<CommandFailure> {
    let mut failures: usize = 0;
    let mut first = None;
    for (remnant, outcome) in remnants.listed() {
        match keeper.admin().remove_remnant(remnant).await {
            Ok(true) => *outcome = RemnantOutcome::Removed,
            Ok(false) => *outcome = RemnantOutcome::Left,
            Err(error) => {
                *outcome = RemnantOutcome::Failed;
                failures += 1;
                let is_over = error.advice() != Advice::Permanent;
                first.get_or_insert_with(|| format!("cannot remove {}: {error:#}", remnant.place));
                // Where the service is gone, the rest is not tried.
                if is_over {
                    break;
                }
            }
        }
    }
    let more = match failures {
        0 | 1 => String::new(),
        failures => format!(" ({} more)", failures - 1),
    };
    first.map(|first| CommandFailure::ours(output::one_line(&format!("gc: {first}{more}"))))
}
