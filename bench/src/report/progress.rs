//! The progress of a run, on a terminal; nothing elsewhere.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

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
