//! A moment by both clocks of a machine.

use std::time::Duration;

use lockkeeper::clock::BootInstant;

/// A moment by both clocks.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_structs, reason = "a moment is just this")]
pub struct TimePoint {
    /// For what is measured.
    pub boot: BootInstant,
    /// For what is compared with other machines' clocks, in time since 1970-01-01 UTC.
    pub unix: Duration,
}
