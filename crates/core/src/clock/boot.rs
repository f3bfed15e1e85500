//! The reading of the machine's clock, on each system.

use std::time::Duration;

/// The time since boot, that of suspensions included.
#[cfg(unix)]
pub(super) fn since_boot() -> Duration {
    #[cfg(not(target_vendor = "apple"))]
    const CLOCK: rustix::time::ClockId = rustix::time::ClockId::Boottime;
    #[cfg(target_vendor = "apple")]
    const CLOCK: rustix::time::ClockId = rustix::time::ClockId::Monotonic;
    let time = rustix::time::clock_gettime(CLOCK);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// The time since the first call, that of suspensions included.
#[cfg(windows)]
pub(super) fn since_boot() -> Duration {
    use std::sync::OnceLock;
    use std::time::Instant;

    static FIRST: OnceLock<Instant> = OnceLock::new();
    // Two first calls at once may read it in either order: neither is before it.
    #[expect(clippy::disallowed_methods, reason = "Windows' counter goes on while the machine sleeps")]
    let now = Instant::now();
    now.saturating_duration_since(*FIRST.get_or_init(|| now))
}
