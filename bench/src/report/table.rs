//! The report as a table of Markdown, which is readable on a terminal too, and as JSON for programs.

use std::path::Path;
use std::{fs, io};

use serde::Serialize;

use crate::load::Spread;
use crate::report::record::Verdict;
use crate::report::row::digits;

const HEAD: [&str; 8] = ["what", "server", "ours", "peer", "its figure", "ratio (least–most)", "budget", "met"];

/// Prints all rows, and then why some have no figures.
pub(crate) fn print(verdicts: &[Verdict]) {
    let rows: Vec<[String; 8]> = verdicts.iter().map(cells).collect();
    let head = HEAD.map(str::to_owned);
    let width = |column: usize| rows.iter().chain([&head]).map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..HEAD.len()).map(width).collect();
    print_row(&head, &widths);
    println!("|{}", widths.iter().map(|width| format!(" {} |", "-".repeat(*width))).collect::<String>());
    for row in &rows {
        print_row(row, &widths);
    }
    let mut is_first = true;
    for verdict in verdicts {
        let Some(why) = &verdict.missing else { continue };
        if is_first {
            println!("\nnot measured:");
            is_first = false;
        }
        println!("  {} ({}): {why}", verdict.row.what, verdict.row.server);
    }
    let judged = verdicts.iter().filter(|verdict| verdict.row.bound.limit().is_some());
    let (judged, met) = (judged.clone().count(), judged.filter(|verdict| verdict.is_met).count());
    println!("\n{met} of {judged} budgets met; {} rows have none", verdicts.len() - judged);
}

fn print_row(row: &[String; 8], widths: &[usize]) {
    let cells = row.iter().zip(widths).map(|(cell, width)| format!(" {cell}{} |", padding(cell, *width)));
    println!("|{}", cells.collect::<String>());
}

fn padding(cell: &str, width: usize) -> String {
    " ".repeat(width.saturating_sub(cell.chars().count()))
}

fn cells(verdict: &Verdict) -> [String; 8] {
    let row = &verdict.row;
    let absent = || "-".to_owned();
    let spread = match (verdict.ratio, verdict.ours) {
        (Some(ratio), _) => {
            format!("{} ({}–{})", digits(ratio.median), digits(ratio.least), digits(ratio.most))
        }
        (None, Some(ours)) => format!("({}–{})", row.unit.show(ours.least), row.unit.show(ours.most)),
        (None, None) => absent(),
    };
    [
        row.what.to_owned(),
        row.server.to_owned(),
        verdict.ours.map_or_else(absent, |ours| row.unit.show(ours.median)),
        if row.has_peer() { row.peer_name.to_owned() } else { absent() },
        verdict.peer.map_or_else(absent, |peer| row.unit.show(peer.median)),
        spread,
        row.bound.show(row.unit),
        met(verdict).to_owned(),
    ]
}

fn met(verdict: &Verdict) -> &'static str {
    match (verdict.is_met, verdict.row.bound.limit()) {
        (true, Some(_)) => "yes",
        (true, None) => "-",
        (false, _) => "**no**",
    }
}

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
