//! `deadlocks`: which contenders wait for each other. What is a deadlock, and how sure that is, `lockkeeper-monitor`
//! decides.

use lockkeeper::clock::{Clock, SystemClock};
use lockkeeper::follow::Scope;
use lockkeeper::{Keeper, Result};
use lockkeeper_monitor::{CONFIRM_AFTER, Confirmation, DeadlockVerdict, Judged, ServiceSnapshot, find, look};

use super::look::{looks, tries};
use super::service::{answer, block_on_closing, open_by, talk};
use crate::args::Global;
use crate::config::ServiceSettings;
use crate::exit::{CommandFailure, DEADLOCKED};
use crate::output::Deadlocks;
use crate::output::say;
use crate::voice::Talk;

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
