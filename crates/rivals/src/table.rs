//! The outcomes of all rounds, as a table in Markdown.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::fault::Fault;
use crate::measure::{Outcome, Told};
use crate::rivals::{Owner, Rival};

/// What the rounds of one lock under one fault showed, or why there was none.
#[derive(Clone, Debug)]
pub(crate) enum Cell {
    Played(Vec<Outcome>),
    NotStaged(String),
}

/// The cells of a lock, by fault.
pub(crate) type Row = BTreeMap<Fault, Cell>;

/// Above the table.
const LEGEND: &str = "Each cell: seconds for which two held the lock / seconds from the fault to the next grant / when \
    the first holder was told.\n\
    *before* and *after* count in seconds from the next grant, *on* from the moment at which a stopped process went \
    on.\n\
    *kept*: the holder still held the lock at the end, and no other did.";

/// Writes the table.
pub(crate) fn markdown(rows: &[(&Rival, Row)], faults: &[Fault]) -> String {
    let mut text = format!("{LEGEND}\n\n| lock |");
    let mut rule = String::from("| --- |");
    for fault in faults {
        // Writing to a String does not fail.
        let _ = write!(text, " {fault} |");
        rule.push_str(" --- |");
    }
    let _ = writeln!(text, " tokens | asked: does it hold? |\n{rule} --- | --- |");
    for (rival, row) in rows {
        let _ = write!(text, "| {} |", rival.name);
        for fault in faults {
            let _ = write!(text, " {} |", row.get(fault).map_or_else(String::new, Cell::text));
        }
        let _ = writeln!(text, " {} | {} |", tokens(row), rival.asks);
    }
    text
}

impl Cell {
    fn text(&self) -> String {
        let outcomes = match self {
            Self::Played(outcomes) if !outcomes.is_empty() => outcomes,
            Self::Played(_) => return "failed".to_owned(),
            Self::NotStaged(why) => return why.clone(),
        };
        let shared = shared(outcomes);
        if outcomes.iter().filter(|outcome| outcome.is_kept()).count() * 2 > outcomes.len() {
            return "kept".to_owned();
        }
        let next = median(outcomes, |outcome| outcome.next_s.unwrap_or(f64::INFINITY)).next_s;
        let next = next.map_or_else(|| "none".to_owned(), |next_s| format!("{next_s:.1}"));
        format!("{shared} / {next} / {}", median(outcomes, |outcome| weight(outcome.told)).told.text())
    }
}

/// The median of the times for which two held, and the worst where it differs.
fn shared(outcomes: &[Outcome]) -> String {
    let worst = outcomes.iter().map(|outcome| outcome.shared_s).fold(0.0, f64::max);
    let (median, worst) = (short(median(outcomes, |outcome| outcome.shared_s).shared_s), short(worst));
    if worst == median { median } else { format!("{median} (worst {worst})") }
}

/// A time to a hundredth of a second; what is none differs from what is short.
fn short(seconds: f64) -> String {
    match seconds {
        0.0 => "0".to_owned(),
        _ if seconds < 0.01 => "<0.01".to_owned(),
        _ => format!("{seconds:.2}"),
    }
}

/// The outcome in the middle by this number; the later one of two.
fn median(outcomes: &[Outcome], by: impl Fn(&Outcome) -> f64) -> Outcome {
    let mut sorted = outcomes.to_vec();
    sorted.sort_by(|a, b| by(a).total_cmp(&by(b)));
    sorted[sorted.len() / 2]
}

fn weight(told: Told) -> f64 {
    match told {
        Told::Dead => f64::NEG_INFINITY,
        Told::BehindGrant(seconds) | Told::BehindGoingOn(seconds) | Told::BehindFault(seconds) => seconds,
        Told::Never => f64::INFINITY,
    }
}

impl Told {
    fn text(self) -> String {
        match self {
            Self::Dead => "–".to_owned(),
            Self::Never => "never".to_owned(),
            Self::BehindGrant(seconds) if seconds < 0.0 => format!("{} before", short(-seconds)),
            Self::BehindGrant(seconds) => format!("{} after", short(seconds)),
            Self::BehindGoingOn(seconds) => format!("{} on", short(seconds)),
            Self::BehindFault(seconds) => format!("{seconds:.1} after the fault"),
        }
    }
}

/// Whether there are tokens, and under which faults a later one was not greater.
fn tokens(row: &Row) -> String {
    let mut has_tokens = false;
    let mut broken = Vec::new();
    for (fault, cell) in row {
        let Cell::Played(outcomes) = cell else { continue };
        let tokens: Vec<_> = outcomes.iter().filter_map(|outcome| outcome.tokens).collect();
        has_tokens |= !tokens.is_empty();
        if tokens.iter().any(|(first, second)| second <= first) {
            broken.push(fault.to_string());
        }
    }
    match (has_tokens, broken.is_empty()) {
        (false, _) => "no".to_owned(),
        (true, true) => "grow".to_owned(),
        (true, false) => format!("grow, but not: {}", broken.join(", ")),
    }
}

/// What Lockkeeper promises and did not keep: two holders where the service lost no grant.
pub(crate) fn breaches(rows: &[(&Rival, Row)]) -> Vec<String> {
    let mut found = Vec::new();
    for (rival, row) in rows.iter().filter(|(rival, _)| rival.owner == Owner::Ours) {
        for (fault, cell) in row.iter().filter(|(fault, _)| rival.service.promises_exclusion(**fault)) {
            let Cell::Played(outcomes) = cell else { continue };
            let shared = outcomes.iter().filter(|outcome| outcome.shared_s > 0.0);
            found.extend(
                shared.map(|outcome| format!("{}, {fault}: two held for {:.3} s", rival.name, outcome.shared_s)),
            );
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(shared_s: f64, next_s: Option<f64>, told: Told) -> Outcome {
        Outcome { shared_s, next_s, told, tokens: None }
    }

    #[test]
    fn a_cell_has_medians_and_the_worst_time_with_two_holders() {
        let outcomes = [(0.0, 4.0, -1.0), (0.5, 5.0, 0.25), (0.0, 6.0, 0.5)];
        let outcomes = outcomes.map(|(shared, next, told)| outcome(shared, Some(next), Told::BehindGrant(told)));
        assert_eq!(Cell::Played(outcomes.to_vec()).text(), "0 (worst 0.50) / 5.0 / 0.25 after");
        assert_eq!(Cell::Played(outcomes[..1].to_vec()).text(), "0 / 4.0 / 1.00 before");
    }

    #[test]
    fn what_did_not_happen_is_said_in_words() {
        let cell = |next, told| Cell::Played(vec![outcome(0.0, next, told)]).text();
        assert_eq!(cell(None, Told::Never), "kept");
        assert_eq!(cell(None, Told::BehindFault(3.0)), "0 / none / 3.0 after the fault");
        assert_eq!(cell(Some(4.0), Told::Never), "0 / 4.0 / never");
        assert_eq!(cell(Some(4.0), Told::Dead), "0 / 4.0 / –");
        assert_eq!(Cell::Played(Vec::new()).text(), "failed");
        let brief = outcome(0.001, Some(4.0), Told::BehindGrant(0.001));
        assert_eq!(Cell::Played(vec![brief]).text(), "<0.01 / 4.0 / <0.01 after");
    }

    #[test]
    fn two_holders_of_ours_are_a_breach_unless_the_service_lost_a_grant() {
        let ours = |name| crate::rivals::ALL.iter().find(|rival| rival.name == name).expect("there is one");
        let row = |fault| Row::from([(fault, Cell::Played(vec![outcome(0.1, Some(4.0), Told::Never)]))]);
        let count = |name, fault| breaches(&[(ours(name), row(fault))]).len();
        assert_eq!(count("Lockkeeper on Redis", Fault::Stopped), 1);
        assert_eq!(count("Lockkeeper on Redis", Fault::Replaced), 0);
        assert_eq!(count("Lockkeeper on PostgreSQL", Fault::Replaced), 1);
        assert_eq!(count("Lockkeeper on etcd", Fault::Emptied), 0);
        assert_eq!(count("`flock(1)`", Fault::Stopped), 0);
    }
}
