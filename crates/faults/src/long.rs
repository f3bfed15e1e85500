//! The size of a test: all of its long rounds in `cargo xtask test --long`, a tenth of them otherwise.
//!
//! There is no other setting, so a figure in a note says by itself what was run. A test that asks here is `long` in
//! the manifest of its crate.

use std::env;
use std::time::Duration;

/// If set and not empty, it asks for the long rounds. `cargo xtask test --long` sets it.
const LONG_VARIABLE: &str = "LOCKKEEPER_TEST_LONG";

/// The part of the long rounds that the plain test command does.
const PLAIN_PART: u32 = 10;

/// Whether the long rounds are asked for.
pub fn is_asked_for() -> bool {
    env::var_os(LONG_VARIABLE).is_some_and(|value| !value.is_empty())
}

/// As many rounds as the long run has, or a tenth of them, rounded up.
pub fn rounds(long: u32) -> u32 {
    if is_asked_for() { long } else { long.div_ceil(PLAIN_PART) }
}

/// As long as the long run takes, or a tenth of it.
pub fn time(long: Duration) -> Duration {
    if is_asked_for() { long } else { long / PLAIN_PART }
}
