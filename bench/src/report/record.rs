//! The figures of a run, as they come: by row and round, and for the plots; the progress that is shown of it on a
//! terminal, and the verdict on each row.

use std::collections::BTreeMap;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::load::{Compared, Latency, Spread};
use crate::report::plots::{Plot, Sketch};
use crate::report::row::{Group, Row};
use crate::report::rows;

/// Which row: its group, its name, its server.
type Key = (Group, &'static str, &'static str);

/// What one round has brought for a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sample {
    pub(super) ours: f64,
    pub(super) peer: Option<f64>,
}

/// All figures of a run.
#[derive(Debug)]
pub(crate) struct Record {
    samples: BTreeMap<Key, Vec<Sample>>,
    missing: BTreeMap<Key, String>,
    pub(crate) sketches: BTreeMap<Plot, Sketch>,
    progress: Progress,
}

impl Record {
    pub(crate) fn new(groups: &[Group]) -> Self {
        let progress = Progress::new(rows::of(groups).count());
        Self { samples: BTreeMap::new(), missing: BTreeMap::new(), sketches: BTreeMap::new(), progress }
    }

    /// Where a group writes down its figures of one server.
    pub(crate) fn shelf(&mut self, group: Group, server: &'static str) -> Shelf<'_> {
        Shelf { record: self, group, server }
    }

    /// Says what is being measured now.
    pub(crate) fn now(&self, what: &str) {
        self.progress.now(what);
    }

    /// Writes down why those rows of a group that have no figures yet will have none: all, or those of one server.
    pub(crate) fn failed(&mut self, group: Group, server: Option<&str>, why: &str) {
        for row in rows::of(&[group]).filter(|row| server.is_none_or(|server| row.server == server)) {
            if !self.samples.contains_key(&key(&row)) {
                self.missing.entry(key(&row)).or_insert_with(|| why.to_owned());
            }
        }
        self.show_progress();
    }

    /// Writes down why the rows beside a peer, whose names begin with this one, are not measured on one server.
    pub(crate) fn peer_missing(&mut self, group: Group, server: &str, peer: &str, why: &str) {
        for row in rows::of(&[group]).filter(|row| row.server == server && row.peer_name.starts_with(peer)) {
            self.missing.insert(key(&row), why.to_owned());
        }
    }

    /// Ends the display of the progress.
    pub(crate) fn finish(&self) {
        self.progress.finish();
    }

    pub(super) fn samples(&self, row: &Row) -> &[Sample] {
        self.samples.get(&key(row)).map_or(&[], Vec::as_slice)
    }

    pub(super) fn missing(&self, row: &Row) -> Option<&str> {
        self.missing.get(&key(row)).map(String::as_str)
    }

    fn show_progress(&self) {
        let failed = self.missing.keys().filter(|key| !self.samples.contains_key(*key)).count();
        self.progress.rows(self.samples.len() + failed);
    }
}

/// The figures of one group and server.
#[derive(Debug)]
pub(crate) struct Shelf<'a> {
    record: &'a mut Record,
    group: Group,
    server: &'static str,
}

impl Shelf<'_> {
    /// Writes down a round of ours beside the peer's.
    pub(crate) fn beside(&mut self, id: &str, ours: f64, peer: f64) {
        self.note(id, Sample { ours, peer: Some(peer) });
    }

    /// Writes down a round of ours alone.
    pub(crate) fn ours(&mut self, id: &str, ours: f64) {
        self.note(id, Sample { ours, peer: None });
    }

    /// Writes down turns of ours, the first, beside those of peers, each in its row; nothing of a peer that is absent.
    pub(crate) fn compared<const N: usize>(&mut self, ids: &[&str], compared: &Compared<N>) {
        for means_s in &compared.means_s {
            for (id, peer) in ids.iter().zip(&means_s[1..]).filter(|(_, peer)| **peer > 0.0) {
                self.beside(id, means_s[0], *peer);
            }
        }
    }

    /// Adds the times of all that were compared to a plot of distributions.
    pub(crate) fn latencies<const N: usize>(&mut self, plot: Plot, names: [&str; N], compared: &Compared<N>) {
        names.iter().zip(&compared.latencies).for_each(|(name, latency)| self.latency(plot, name, latency));
    }

    /// Adds times to a plot of distributions.
    pub(crate) fn latency(&mut self, plot: Plot, series: &str, latency: &Latency) {
        let sketch = self.record.sketches.entry(plot).or_default();
        sketch.latencies.entry(series.to_owned()).or_insert_with(Latency::new).add(latency);
    }

    /// Adds one round's figure to a plot of lines.
    pub(crate) fn point(&mut self, plot: Plot, series: &str, x: u32, y: f64) {
        let sketch = self.record.sketches.entry(plot).or_default();
        sketch.lines.entry(series.to_owned()).or_default().entry(x).or_default().push(y);
    }

    fn note(&mut self, id: &str, sample: Sample) {
        let key = self.key(id);
        self.record.samples.entry(key).or_default().push(sample);
        self.record.show_progress();
    }

    fn key(&self, id: &str) -> Key {
        let row = rows::find(self.group, id, self.server);
        key(&row.unwrap_or_else(|| panic!("{:?} has no row {id} of {}", self.group, self.server)))
    }
}

fn key(row: &Row) -> Key {
    (row.group, row.id, row.server)
}

/// The elapsed time goes on during long measurements.
const TICK: Duration = Duration::from_millis(500);

const TEMPLATE: &str = "{elapsed_precise} [{bar:30}] {pos}/{len} rows  {msg}";

/// A bar of rows, on standard error.
#[derive(Debug)]
pub(super) struct Progress(ProgressBar);

impl Progress {
    pub(super) fn new(rows: usize) -> Self {
        // Draws nothing where standard error is no terminal.
        let bar = ProgressBar::new(rows as u64);
        if let Ok(style) = ProgressStyle::with_template(TEMPLATE) {
            bar.set_style(style);
        }
        if !bar.is_hidden() {
            bar.enable_steady_tick(TICK);
        }
        Self(bar)
    }

    pub(super) fn rows(&self, measured: usize) {
        self.0.set_position(measured as u64);
    }

    pub(super) fn now(&self, what: &str) {
        self.0.set_message(what.to_owned());
    }

    pub(super) fn finish(&self) {
        self.0.finish_and_clear();
    }
}

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
        let samples = [sample(1.0, 1.0), sample(6.0, 4.0), sample(5.0, 2.0)];
        let verdict = Verdict::of(row(), &samples, None);
        assert_eq!(verdict.ratio, Some(Spread { least: 1.0, median: 1.5, most: 2.5 }));
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
