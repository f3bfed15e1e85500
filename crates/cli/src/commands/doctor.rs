//! `doctor`: what users of a service should know of it, and what to do about it.
//!
//! What there is to know, the service's backend finds; here it is weighed and printed.

use std::cmp::Reverse;

use lockkeeper::{Advice, Error, Finding, Operation, Severity};

use super::service::{answer, block_on_closing};
use crate::args::Global;
use crate::config::Settings;
use crate::exit::{EXAMINED_ERRORS, EXAMINED_WARNINGS, Failure};
use crate::output::Diagnosis;

/// Examines the service, and ends with what weighs most.
pub(super) fn doctor(global: &Global) -> Result<u8, Failure> {
    let settings = Settings::load(global)?;
    let (service, examined) = examined(&settings)?;
    let mut findings = examined.unwrap_or_else(|error| vec![unusable(&error)]);
    findings.sort_by_key(|finding| Reverse(finding.severity));
    let diagnosis = Diagnosis::new(service, &findings);
    answer(global, &diagnosis, || diagnosis.text())?;
    Ok(match findings.first().map(|finding| finding.severity) {
        None | Some(Severity::Note) => 0,
        Some(Severity::Warning) => EXAMINED_WARNINGS,
        // A weight that is not known yet is not taken lightly.
        Some(_) => EXAMINED_ERRORS,
    })
}

/// The service, and what is found of it or why it cannot be examined. A URL that cannot be meant is a failure.
fn examined(settings: &Settings) -> Result<(String, lockkeeper::Result<Vec<Finding>>), Failure> {
    match settings.builder() {
        Ok(builder) => {
            let keeper = builder.build();
            let found = block_on_closing(&keeper, keeper.examine())?;
            Ok((keeper.service(), found))
        }
        Err(error) if error.operation() == Operation::Configure => Err(settings.refused(error)),
        Err(error) => Ok((settings.service(), Err(error))),
    }
}

/// That the service could not be examined at all.
fn unusable(error: &Error) -> Finding {
    let cure = match error.advice() {
        Advice::Permanent => "no lock can be had before this is mended; trying again does not help",
        _ => "see that the service runs and can be reached from here, then look again",
    };
    Finding::new(Severity::Error, format!("{error:#}"), cure)
}
