//! The report as JSON, for programs.

use std::fs;
use std::io;
use std::path::Path;

use serde::Serialize;

use super::verdict::Verdict;
use crate::load::Spread;

/// One row; figures are medians over the rounds.
#[derive(Debug, Serialize)]
struct Line<'a> {
    what: &'a str,
    server: &'a str,
    /// In `unit`; none if it was not measured.
    ours: Option<f64>,
    peer_name: Option<&'a str>,
    peer: Option<f64>,
    ratio: Option<f64>,
    /// The number that `bound` is about; none if the row has no budget.
    budget: Option<f64>,
    met: bool,
    group: String,
    unit: &'a str,
    bound: &'a str,
    /// Least and most over the rounds: of the ratio if there is a peer, else of ours.
    spread: Option<[f64; 2]>,
    missing: Option<&'a str>,
}

/// Writes an array of all rows.
pub(crate) fn write(file: &Path, verdicts: &[Verdict]) -> io::Result<()> {
    let lines: Vec<Line<'_>> = verdicts.iter().map(line).collect();
    let text = serde_json::to_string_pretty(&lines).map_err(io::Error::other)?;
    fs::write(file, text + "\n")
}

fn line(verdict: &Verdict) -> Line<'_> {
    let row = &verdict.row;
    let median = |spread: Option<Spread>| spread.map(|spread| spread.median);
    Line {
        what: row.what,
        server: row.server,
        ours: median(verdict.ours),
        peer_name: row.has_peer().then_some(row.peer_name),
        peer: median(verdict.peer),
        ratio: median(verdict.ratio),
        budget: row.bound.limit(),
        met: verdict.is_met,
        group: row.group.to_string(),
        unit: row.unit.name(),
        bound: row.bound.name(),
        spread: verdict.ratio.or(verdict.ours).map(|spread| [spread.least, spread.most]),
        missing: verdict.missing.as_deref(),
    }
}
