//! The figures of a run, as they come: by row and round, and for the plots.

use std::collections::BTreeMap;

use super::plots::{Plot, Sketch};
use super::progress::Progress;
use super::row::{Group, Row};
use super::rows;
use crate::load::{Compared, Latency};

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
    pub(super) sketches: BTreeMap<Plot, Sketch>,
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
