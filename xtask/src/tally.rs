//! Counts tests: reads what `cargo test` prints and what tests wrote down as skipped, and answers one set of totals,
//! and the tests that failed, each with what it printed: a reader of the end of a long run sees why without the rest of
//! it.
//!
//! Two ways of skipping are understood. A test marked ignored (`#[ignore]`, a documentation test marked `ignore`, a
//! conformance case that asks to be) is counted by its harness. A test that finds out too late returns early after
//! appending `name: reason` to the file in `LOCKKEEPER_TEST_SKIPS`; its harness says passed, and here it is moved to
//! the skipped. A test that does both is counted once. No process is run here: text in, numbers out.

use std::collections::BTreeMap;
use std::fmt;

/// A test that did not run, and why.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Skip {
    pub(crate) name: String,
    pub(crate) reason: String,
}

/// What the harnesses have printed so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    passed: usize,
    failed: usize,
    ignored: usize,
    ignored_tests: Vec<Skip>,
    failures: Failures,
}

/// The final count; shown as the one line that ends the output.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    pub(crate) skipped: Vec<Skip>,
    pub(crate) failures: Failures,
}

impl Tally {
    /// Takes in one line of a harness's output; most change nothing.
    pub(crate) fn read_line(&mut self, line: &str) {
        self.failures.read_line(line);
        if let Some(summary) = line.strip_prefix("test result: ") {
            self.read_summary(summary);
        } else if let Some(test) = line.strip_prefix("test ") {
            self.ignored_tests.extend(ignored_test(test));
        }
    }

    /// `ok. 3 passed; 0 failed; 1 ignored; …`: each part ends in a number and a word. Colours may stand around `ok`.
    fn read_summary(&mut self, summary: &str) {
        for part in summary.split(';') {
            let mut words = part.split_whitespace().rev();
            let (Some(word), Some(number)) = (words.next(), words.next()) else {
                continue;
            };
            let Ok(number) = number.parse::<usize>() else { continue };
            match word {
                "passed" => self.passed += number,
                "failed" => self.failed += number,
                "ignored" => self.ignored += number,
                _ => {}
            }
        }
    }

    /// Closes the count with the lines that tests wrote into the file of skips.
    pub(crate) fn totals(self, written_skips: &str) -> Totals {
        let mut skipped = self.ignored_tests;
        let mut ignored_by_name: BTreeMap<String, usize> = BTreeMap::new();
        for skip in &skipped {
            *ignored_by_name.entry(skip.name.clone()).or_default() += 1;
        }
        // Lines of ignored tests can be torn by output of the tests themselves; the summary's number stands.
        for _ in skipped.len()..self.ignored {
            skipped.push(Skip { name: "(name not seen)".to_owned(), reason: "marked ignored".to_owned() });
        }
        let mut returned_early = 0;
        for line in written_skips.lines().filter(|line| !line.trim().is_empty()) {
            let (name, reason) = line.split_once(": ").unwrap_or((line, "no reason given"));
            match ignored_by_name.get_mut(name).filter(|left| **left > 0) {
                Some(left) => *left -= 1,
                None => {
                    returned_early += 1;
                    skipped.push(Skip { name: name.to_owned(), reason: reason.to_owned() });
                }
            }
        }
        skipped.sort();
        Totals {
            passed: self.passed.saturating_sub(returned_early),
            failed: self.failed,
            skipped,
            failures: self.failures,
        }
    }
}

impl Totals {
    /// Adds what another stage found.
    pub(crate) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped.extend(other.skipped);
        self.failures.add(other.failures);
    }
}

/// The name and reason of an ignored test: `name ... ignored, why` (libtest) or `name ... ignored (why)`
/// (libtest-mimic).
fn ignored_test(line: &str) -> Option<Skip> {
    let (name, reason) = line.split_once(" ... ignored")?;
    let reason = reason.trim_matches(|c: char| c.is_whitespace() || matches!(c, ',' | '(' | ')'));
    let reason = if reason.is_empty() { "marked ignored" } else { reason };
    Some(Skip { name: name.trim_end().to_owned(), reason: reason.to_owned() })
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped.len())
    }
}

/// Lines that are kept of what a failed test has printed, its trace left out: all but of a very long message.
const LINES_MAX: usize = 100;

/// Whether a line is of a stack trace: its heading, a frame (`12: name`), or the frame's place.
fn is_of_trace(line: &str) -> bool {
    let line = line.trim_start();
    let frame = line.split_once(": ").is_some_and(|(number, _)| number.parse::<u32>().is_ok());
    frame || line == "stack backtrace:" || line.starts_with("at ") || line.starts_with("note: Some details are omitted")
}

/// Failed tests, each with the lines that are kept of its output.
#[derive(Clone, Debug, Default)]
pub(crate) struct Failures {
    tests: BTreeMap<String, Vec<String>>,
    /// Whose output is being read.
    printing: Option<String>,
}

impl Failures {
    /// Takes in one line of a harness's output; most change nothing.
    pub(crate) fn read_line(&mut self, line: &str) {
        if let Some(name) = line.strip_prefix("test ").and_then(|test| test.trim_end().strip_suffix("FAILED")) {
            let name = name.trim_end().trim_end_matches("...").trim_end();
            self.tests.entry(name.to_owned()).or_default();
        } else if let Some(name) = line.strip_prefix("---- ").and_then(|heading| heading.strip_suffix(" ----")) {
            let name = name.strip_suffix(" stdout").unwrap_or(name).trim_end();
            // A test that passed may print such a line as well.
            self.printing = self.tests.contains_key(name).then(|| name.to_owned());
        } else if line == "failures:" || line.starts_with("test result: ") {
            self.printing = None;
        } else if let Some(lines) = self.printing.as_ref().and_then(|name| self.tests.get_mut(name))
            && lines.len() < LINES_MAX
            && !line.trim().is_empty()
            && !is_of_trace(line)
        {
            lines.push(line.to_owned());
        }
    }

    /// Adds what another stage found.
    pub(crate) fn add(&mut self, other: Self) {
        for (name, lines) in other.tests {
            self.tests.entry(name).or_default().extend(lines);
        }
    }
}

/// A heading, each test by its name, its lines below it; nothing where none failed.
impl fmt::Display for Failures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.tests.is_empty() {
            return Ok(());
        }
        writeln!(f, "\nfailed:")?;
        for (name, lines) in &self.tests {
            writeln!(f, "  {name}")?;
            lines.iter().try_for_each(|line| writeln!(f, "    {line}"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn totals(output: &str, written_skips: &str) -> Totals {
        let mut tally = Tally::default();
        output.lines().for_each(|line| tally.read_line(line));
        tally.totals(written_skips)
    }

    #[test]
    fn summaries_of_several_harnesses_add_up() {
        let output = "running 2 tests\ntest a ... ok\ntest b ... FAILED\n\n\
            test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 3 filtered out; finished in 0.01s\n\
            test result: \u{1b}[32mok\u{1b}[0m. 40 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; \
            finished in 2s\n";
        assert_eq!(totals(output, "").to_string(), "41 passed, 1 failed, 0 skipped");
    }

    #[test]
    fn ignored_tests_of_both_harnesses_are_skipped_by_name() {
        let output = "test slow ... ignored, needs a server\n\
            test case::restart   ... ignored (memory cannot restart)\n\
            test src/lib.rs - f (line 3) ... ignored\n\
            test result: ok. 5 passed; 0 failed; 3 ignored; 0 measured; 0 filtered out; finished in 0.00s";
        let totals = totals(output, "");
        assert_eq!(totals.to_string(), "5 passed, 0 failed, 3 skipped");
        let reasons: Vec<_> = totals.skipped.iter().map(|skip| (skip.name.as_str(), skip.reason.as_str())).collect();
        assert_eq!(
            reasons,
            [
                ("case::restart", "memory cannot restart"),
                ("slow", "needs a server"),
                ("src/lib.rs - f (line 3)", "marked ignored"),
            ]
        );
    }

    #[test]
    fn a_test_that_wrote_down_its_skip_is_not_counted_as_passed() {
        let output = "test result: ok. 5 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s";
        let totals = totals(output, "two_users: needs root\n");
        assert_eq!(totals.to_string(), "4 passed, 0 failed, 1 skipped");
    }

    #[test]
    fn a_test_that_is_ignored_and_wrote_down_its_skip_counts_once() {
        let output = "test restart ... ignored\n\
            test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s";
        assert_eq!(totals(output, "restart: no hook\n").to_string(), "5 passed, 0 failed, 1 skipped");
        // The same case skipped for a second backend, which only wrote it down.
        assert_eq!(totals(output, "restart: no hook\nrestart: no hook\n").to_string(), "4 passed, 0 failed, 2 skipped");
    }

    #[test]
    fn an_ignored_test_whose_line_was_torn_still_counts() {
        let output = "test result: ok. 0 passed; 0 failed; 2 ignored; 0 measured; 0 filtered out; finished in 0.00s";
        assert_eq!(totals(output, "").to_string(), "0 passed, 0 failed, 2 skipped");
    }

    fn shown(output: &str) -> String {
        let mut failures = Failures::default();
        output.lines().for_each(|line| failures.read_line(line));
        failures.to_string()
    }

    #[test]
    fn a_failed_test_of_each_harness_is_named_with_the_beginning_of_what_it_printed() {
        let libtest = "running 2 tests\ntest a ... ok\ntest b::c ... FAILED\n\nfailures:\n\n---- b::c stdout ----\n\n\
            thread 'b::c' panicked at x.rs:1:2:\nwrong\n\nfailures:\n    b::c\n\n\
            test result: FAILED. 1 passed; 1 failed";
        assert_eq!(shown(libtest), "\nfailed:\n  b::c\n    thread 'b::c' panicked at x.rs:1:2:\n    wrong\n");
        let mimic = "test case   ... FAILED\n\nfailures:\n\n---- case ----\ntwo holders\n\n\nfailures:\n    case\n";
        assert_eq!(shown(mimic), "\nfailed:\n  case\n    two holders\n");
    }

    #[test]
    fn what_a_test_says_is_kept_and_the_trace_below_is_not() {
        let traced = "test a ... FAILED\n---- a stdout ----\nthread 'a' panicked at x.rs:1:2:\nwrong: 2 holders\n\
            stack backtrace:\n   0: core::panicking::panic_fmt\n             at /rustc/core/src/panicking.rs:80\n\
            note: Some details are omitted, run with `RUST_BACKTRACE=full` for a verbose backtrace.\n";
        assert_eq!(shown(traced), "\nfailed:\n  a\n    thread 'a' panicked at x.rs:1:2:\n    wrong: 2 holders\n");
    }

    #[test]
    fn of_a_long_output_the_beginning_is_kept() {
        let traced = format!("test a ... FAILED\n---- a stdout ----\n{}", "line\n".repeat(LINES_MAX + 5));
        assert_eq!(shown(&traced).matches("line").count(), LINES_MAX);
    }

    #[test]
    fn where_none_failed_nothing_is_shown() {
        assert_eq!(shown("test a ... ok\n---- a stdout ----\nline\ntest result: ok. 1 passed"), "");
    }
}
