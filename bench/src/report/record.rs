//! The figures of a run, as they come: by row and round, and for the plots.

use std::collections::BTreeMap;

use super::plots::{Plot, Sketch};
use super::progress::Progress;
use super::row::{Group, Row};
use super::rows;
use crate::load::Latency;

/// Which row: its group's name, its name, its server.
type Key = (String, String, String);

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

    /// Writes down why the rest of a group has no figures.
    pub(crate) fn group_failed(&mut self, group: Group, why: &str) {
        rows::of(&[group]).for_each(|row| self.failed(row, why));
    }

    fn failed(&mut self, row: &Row, why: &str) {
        let key = key(row.group, row.id, row.server);
        if !self.samples.contains_key(&key) {
            self.missing.entry(key).or_insert_with(|| why.to_owned());
            self.show_progress();
        }
    }

    /// Writes down why the rest of a group's rows of one server have no figures.
    pub(crate) fn server_failed(&mut self, group: Group, server: &str, why: &str) {
        for row in rows::of(&[group]).filter(|row| row.server == server) {
            let key = key(group, row.id, row.server);
            if !self.samples.contains_key(&key) {
                self.missing.entry(key).or_insert_with(|| why.to_owned());
            }
        }
    }

    /// Writes down why the rows beside a peer, whose names begin with this one, are not measured on one server.
    pub(crate) fn peer_missing(&mut self, group: Group, server: &str, peer: &str, why: &str) {
        for row in rows::of(&[group]).filter(|row| row.server == server && row.peer_name.starts_with(peer)) {
            self.missing.insert(key(group, row.id, row.server), why.to_owned());
        }
    }

    /// Ends the display of the progress.
    pub(crate) fn finish(&self) {
        self.progress.finish();
    }

    pub(super) fn samples(&self, group: Group, id: &str, server: &str) -> &[Sample] {
        self.samples.get(&key(group, id, server)).map_or(&[], Vec::as_slice)
    }

    pub(super) fn missing(&self, group: Group, id: &str, server: &str) -> Option<&str> {
        self.missing.get(&key(group, id, server)).map(String::as_str)
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

    /// Writes down why a row has no figures of its peer, or none at all.
    pub(crate) fn missing(&mut self, id: &str, why: &str) {
        let key = self.key(id);
        self.record.missing.insert(key, why.to_owned());
        self.record.show_progress();
    }

    /// Writes down why those of its rows that have no figures yet will have none.
    pub(crate) fn rest_missing(&mut self, why: &str) {
        let server = self.server;
        rows::of(&[self.group]).filter(|row| row.server == server).for_each(|row| self.record.failed(row, why));
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
        assert!(row.is_some(), "{:?} has no row {id} of {}", self.group, self.server);
        key(self.group, id, self.server)
    }
}

fn key(group: Group, id: &str, server: &str) -> Key {
    (group.to_string(), id.to_owned(), server.to_owned())
}
