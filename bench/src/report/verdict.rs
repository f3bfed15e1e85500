//! The verdict on each row by its figures. Pure.

use super::record::{Record, Sample};
use super::row::{Group, Row};
use super::rows;
use crate::load::Spread;

/// A row with what was measured.
#[derive(Debug)]
pub(crate) struct Verdict {
    pub(crate) row: Row,
    pub(super) ours: Option<Spread>,
    pub(super) peer: Option<Spread>,
    /// Of the ratios of the same rounds.
    pub(super) ratio: Option<Spread>,
    pub(crate) is_met: bool,
    /// Why something was not measured.
    pub(crate) missing: Option<String>,
}

/// Judges all rows of these groups.
pub(crate) fn judge(record: &Record, groups: &[Group]) -> Vec<Verdict> {
    rows::of(groups)
        .map(|row| {
            let missing = record.missing(&row).map(str::to_owned);
            Verdict::of(row, record.samples(&row), missing)
        })
        .collect()
}

impl Verdict {
    fn of(row: Row, samples: &[Sample], missing: Option<String>) -> Self {
        let ours = Spread::of(samples.iter().map(|sample| sample.ours).collect());
        let peer = Spread::of(samples.iter().filter_map(|sample| sample.peer).collect());
        let ratio = |sample: &Sample| sample.peer.map(|peer| sample.ours / peer);
        let ratio = Spread::of(samples.iter().filter_map(ratio).collect());
        let is_met = missing.is_none() && ours.is_some_and(|ours| row.bound.is_met(ours, ratio));
        let missing = missing.or_else(|| ours.is_none().then(|| "not measured".to_owned()));
        Self { row, ours, peer, ratio, is_met, missing }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> Row {
        rows::find(Group::Run, "flock", rows::NO_SERVER).expect("a row of the table")
    }

    fn sample(ours: f64, peer: f64) -> Sample {
        Sample { ours, peer: Some(peer) }
    }

    #[test]
    fn the_ratio_is_the_median_of_the_rounds_ratios_not_that_of_the_medians() {
        let samples = [sample(1.0, 1.0), sample(4.0, 2.0), sample(9.0, 3.0)];
        let verdict = Verdict::of(row(), &samples, None);
        assert_eq!(verdict.ratio, Some(Spread { least: 1.0, median: 2.0, most: 3.0 }));
        assert!(verdict.is_met);
    }

    #[test]
    fn a_row_without_figures_or_with_a_missing_peer_is_not_met() {
        let nothing = Verdict::of(row(), &[], None);
        assert!(!nothing.is_met && nothing.missing.is_some());
        let without_peer = Verdict::of(row(), &[sample(1.0, 9.0)], Some("flock is not in PATH".to_owned()));
        assert!(!without_peer.is_met);
        assert_eq!(without_peer.missing.as_deref(), Some("flock is not in PATH"));
    }
}
