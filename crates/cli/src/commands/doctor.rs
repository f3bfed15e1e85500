//! The care of a service: `doctor` examines it, `capabilities` says what it promises, `setup` makes what it needs.

use std::cmp::Reverse;
use std::time::Duration;

use lockkeeper::{Advice, Error, ErrorKind, Finding, Keeper, Operation, Severity};

use super::service::{answer, block_on_closing, open, open_by};
use crate::config::{Global, ServiceSettings};
use crate::exit::{CommandFailure, EXAMINED_ERRORS, EXAMINED_WARNINGS};
use crate::output::{self, Diagnosis, Matrix, Promises, say};

/// Examines the service, and ends with what weighs most; counts tokens anew before, if that is asked for.
pub(super) fn doctor(global: &Global, after_restore: bool) -> Result<u8, CommandFailure> {
    let settings = ServiceSettings::load(global)?;
    let (service, examined) = examined(global, &settings, after_restore)?;
    let mut findings = examined.unwrap_or_else(|error| vec![unusable(&error)]);
    findings.sort_by_key(|finding| Reverse(finding.severity));
    let diagnosis = Diagnosis::new(service, settings.in_force(), &findings);
    answer(global, &diagnosis, || diagnosis.text())?;
    Ok(match findings.first().map(|finding| finding.severity) {
        None | Some(Severity::Note) => 0,
        Some(Severity::Warning) => EXAMINED_WARNINGS,
        // A weight that is not known yet is not taken lightly.
        Some(_) => EXAMINED_ERRORS,
    })
}

/// The service, and what is found of it or why it cannot be examined. What cannot be meant is a failure.
fn examined(
    global: &Global,
    settings: &ServiceSettings,
    after_restore: bool,
) -> Result<(String, lockkeeper::Result<Vec<Finding>>), CommandFailure> {
    match settings.builder() {
        Ok(builder) => {
            let keeper = builder.build();
            let found = block_on_closing(&keeper, async {
                let mut findings = examine(&keeper, after_restore).await?;
                // What was found stands, whatever becomes of the search.
                let searched = deadlocks(global, settings, &keeper).await.unwrap_or_else(|error| {
                    let what = format!("it could not be searched for deadlocks: {error:#}");
                    vec![Finding::new(Severity::Warning, what, "ask again")]
                });
                findings.extend(searched);
                Ok::<_, Error>(findings)
            })?;
            match found {
                Err(error) if after_restore && error.kind() == ErrorKind::Unsupported => {
                    Err(CommandFailure::ours(format!("--after-restore: {error:#}: {}", keeper.service())))
                }
                found => Ok((keeper.service(), found)),
            }
        }
        Err(error) if error.operation() == Operation::Configure => Err(settings.refused(error)),
        Err(error) => Ok((settings.service(), Err(error))),
    }
}

async fn examine(keeper: &Keeper, after_restore: bool) -> lockkeeper::Result<Vec<Finding>> {
    let mut findings = Vec::new();
    if after_restore {
        findings.push(keeper.admin().after_restore().await?);
    }
    findings.extend(keeper.admin().examine().await?);
    Ok(findings)
}

/// The deadlocks among the waiters, as far as this user may see them.
#[cfg(feature = "monitor")]
async fn deadlocks(global: &Global, settings: &ServiceSettings, keeper: &Keeper) -> lockkeeper::Result<Vec<Finding>> {
    use super::monitor::judged;
    use super::service::talk;
    use crate::output::Deadlocks;

    match judged(keeper, settings, talk(global)).await {
        Ok((snapshot, judged)) => Ok(Deadlocks::new(keeper.service(), &snapshot, &judged, &global.orders()).findings()),
        Err(error) if error.advice() == Advice::Permanent => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

#[cfg(not(feature = "monitor"))]
async fn deadlocks(_: &Global, _: &ServiceSettings, _: &Keeper) -> lockkeeper::Result<Vec<Finding>> {
    let what = "deadlocks are not looked for: this lockkeeper was built without the feature `monitor`";
    Ok(vec![Finding::new(Severity::Note, what, "build it with `--features monitor`")])
}

/// That the service could not be examined at all.
fn unusable(error: &Error) -> Finding {
    let cure = match error.advice() {
        Advice::Permanent => "no lock can be had before this is mended; trying again does not help",
        _ => "see that the service runs and can be reached from here, then look again",
    };
    Finding::new(Severity::Error, format!("{error:#}"), cure)
}

pub(super) fn capabilities(global: &Global) -> Result<u8, CommandFailure> {
    let settings = ServiceSettings::load(global)?;
    if !settings.is_named() {
        let matrix = Matrix::of_all_services();
        return answer(global, &matrix, || matrix.text());
    }
    let keeper = open_by(global, &settings)?;
    let findings = block_on_closing(&keeper, keeper.admin().examine())??;
    let promises = Promises::new(keeper.service(), keeper.capabilities(), &findings);
    answer(global, &promises, || promises.text())
}

pub(super) fn setup(global: &Global, only_print: bool, timeout_max: Option<Duration>) -> Result<u8, CommandFailure> {
    let keeper = open(global)?;
    let Some(text) = keeper.admin().set_up_text() else {
        say(&format!("{} needs no setup", keeper.service()));
        return Ok(0);
    };
    if only_print {
        return output::print(&text).map(|()| 0);
    }
    block_on_closing(&keeper, async {
        keeper.admin().set_up().await?;
        match timeout_max {
            Some(timeout_max) => keeper.admin().limit_session_timeout(timeout_max).await,
            None => Ok(()),
        }
    })??;
    say(&format!("{} is set up", keeper.service()));
    Ok(0)
}
