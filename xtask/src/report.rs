//! The report of a run: what its tests have measured, with the day, the commit and the machine, as a text that can be
//! kept.

use std::fmt::Write as _;
use std::path::Path;
use std::thread;
use std::time::SystemTime;
use std::{env, fs};

use crate::pool::Found;
use crate::staging::git;
use crate::tiers::Tier;

/// Writes the report of a run.
#[expect(clippy::disallowed_methods, reason = "names the day for the reader; nothing is decided by it")]
pub(crate) fn write(path: &Path, tier: Tier, found: &Found) -> Result<(), String> {
    let day = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let text = report(day.get(..10).unwrap_or(&day), git(&["rev-parse", "--short", "HEAD"])?.trim(), tier, found);
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

/// A line a figure, in the order of the tests' names.
fn report(day: &str, commit: &str, tier: Tier, found: &Found) -> String {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let command = tier.command();
    let mut text = format!(
        "`{command}` at {commit}, {day}; {} {}, {cores} cores\n{}\n\n",
        env::consts::OS,
        env::consts::ARCH,
        found.totals,
    );
    let mut figures: Vec<_> = found.figures.lines().collect();
    figures.sort_unstable();
    for figure in figures {
        let _ = writeln!(text, "{figure}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_names_the_run_and_has_each_figure_in_the_order_of_names() {
        let found = Found { figures: "storm: etcd: 3\nfleet: redis: 4\n".to_owned(), ..Found::default() };
        let report = report("2026-11-29", "abc1234", Tier::Long, &found);
        let lines: Vec<_> = report.lines().collect();
        assert!(lines[0].starts_with("`cargo xtask test --long` at abc1234, 2026-11-29; "), "{report}");
        assert_eq!(lines[1..], ["0 passed, 0 failed, 0 skipped", "", "fleet: redis: 4", "storm: etcd: 3"]);
    }
}
