//! The progress of a run: one line that is rewritten on a terminal, a line for each step elsewhere.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::tally::Totals;

/// How often the line on a terminal is drawn anew, for the time that it shows.
const DRAWN_EVERY: Duration = Duration::from_secs(1);

/// How many names stand in the line; the others are counted.
const NAMES_MAX: usize = 3;

/// The progress of a number of jobs, some of which run at a time.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    of: usize,
    ended: usize,
    passed: usize,
    failed: usize,
    running: BTreeSet<String>,
}

impl Progress {
    pub(crate) fn of_jobs(count: usize) -> Self {
        let bar = ProgressBar::new_spinner();
        bar.set_style(ProgressStyle::with_template("{elapsed_precise} {wide_msg}").expect("the template is right"));
        bar.enable_steady_tick(DRAWN_EVERY);
        Self { bar, state: Mutex::new(State { of: count, ..State::default() }) }
    }

    /// Shows that a job runs.
    pub(crate) fn begins(&self, name: &str) {
        self.change(|state| {
            state.running.insert(name.to_owned());
        });
    }

    /// Shows what a job found.
    pub(crate) fn ended(&self, name: &str, took: Duration, totals: &Totals) {
        let line = self.change(|state| {
            state.running.remove(name);
            state.ended += 1;
            state.passed += totals.passed;
            state.failed += totals.failed;
            format!("[{}/{}] {name}: {totals} in {:.1} s", state.ended, state.of, took.as_secs_f64())
        });
        if self.bar.is_hidden() {
            println!("{line}");
        }
    }

    /// Prints a text for the reader to keep.
    pub(crate) fn say(&self, text: &str) {
        self.bar.suspend(|| println!("{text}"));
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = change(&mut state);
        self.bar.set_message(state.line());
        answer
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

impl State {
    fn line(&self) -> String {
        let Self { of, ended, passed, failed, running } = self;
        let names: Vec<&str> = running.iter().take(NAMES_MAX).map(String::as_str).collect();
        let more = running.len().saturating_sub(NAMES_MAX);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!("{ended} of {of} test programs, {passed} passed, {failed} failed; running: {}{more}", names.join(", "))
    }
}

/// Does one step of which nothing is to be seen but how long it takes.
pub(crate) fn during<T>(what: &str, step: impl FnOnce() -> T) -> T {
    let bar = ProgressBar::new_spinner();
    bar.set_style(ProgressStyle::with_template("{elapsed_precise} {wide_msg}").expect("the template is right"));
    if bar.is_hidden() {
        println!("{what}");
    }
    bar.set_message(what.to_owned());
    bar.enable_steady_tick(DRAWN_EVERY);
    let done = step();
    bar.finish_and_clear();
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_tells_how_far_it_is_and_what_runs() {
        let running = ["a", "b", "c", "d", "e"].map(str::to_owned).into();
        let state = State { of: 9, ended: 2, passed: 40, failed: 1, running };
        assert_eq!(state.line(), "2 of 9 test programs, 40 passed, 1 failed; running: a, b, c and 2 more");
    }
}
