//! `gc`: what users of a service have left there, and its removal. What that is, and whether it is still so at the
//! moment of the removal, the service's backend decides.

use lockkeeper::{Advice, Keeper, RemnantKind, UNUSED_FOR};

use super::look::looks;
use super::service::{answer, block_on_closing, open_by};
use crate::args::Global;
use crate::config::ServiceSettings;
use crate::exit::CommandFailure;
use crate::output::{self, RemnantOutcome, Remnants};

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
