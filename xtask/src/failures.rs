//! The tests that failed, by name, each with what it printed: a reader of the end of a long run sees why it failed
//! without the rest of the run.
//!
//! Reads what libtest and libtest-mimic print. No process is run here: text in, names and lines out.

use std::collections::BTreeMap;
use std::fmt;

/// Lines that are kept of what a failed test has printed, which is all but for a very long trace.
const LINES_MAX: usize = 100;

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
    fn of_a_long_output_the_beginning_is_kept() {
        let traced = format!("test a ... FAILED\n---- a stdout ----\n{}", "line\n".repeat(LINES_MAX + 5));
        assert_eq!(shown(&traced).matches("line").count(), LINES_MAX);
    }

    #[test]
    fn where_none_failed_nothing_is_shown() {
        assert_eq!(shown("test a ... ok\n---- a stdout ----\nline\ntest result: ok. 1 passed"), "");
    }
}
