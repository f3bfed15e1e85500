//! Figures of a test, for the readers of its run: rounds, violations, least margins.
//!
//! `cargo xtask test` collects these figures and prints them again at the end, to be copied into a note.

use crate::skip::append;

/// The environment variable that names the file to which tests append their figures.
const FIGURES_VARIABLE: &str = "LOCKKEEPER_TEST_FIGURES";

/// Reports figures, one or several lines that name their test: on standard error, and in the file of figures if one is
/// named.
pub fn tell(figures: &str) {
    let text = format!("{}\n", figures.trim_end());
    eprint!("{text}");
    append(FIGURES_VARIABLE, &text);
}
