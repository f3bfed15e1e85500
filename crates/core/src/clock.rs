//! Time, as the whole project reads it.
//!
//! A hold must not outlive the service's timeout. So it is measured on a clock that goes on while the machine is
//! suspended; which one that is depends on the system ([`SystemClock`]). Nothing else in the project reads a clock;
//! decisions take `now` as an argument.

mod boot;
mod suspensions;

use std::fmt;
use std::time::{Duration, SystemTime};

use self::boot::since_boot;
use self::suspensions::{NAP_MAX, Sleeper};
use crate::future::BoxFuture;

/// A point on the clock that counts from boot and does not stop while the machine sleeps.
///
/// Comparable only with others of the same boot of the same machine; on Windows, where it counts from the first reading
/// of the process, with others of the same process.
#[derive(Clone, Copy, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BootInstant(u64);

/// `BootInstant(6808.04s)`
impl fmt::Debug for BootInstant {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("BootInstant").field(&Duration::from_nanos(self.0)).finish()
    }
}

impl BootInstant {
    /// Makes the point that lies `nanos` nanoseconds after boot.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Returns the nanoseconds since boot.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns the point `duration` later, or the last one that there is.
    pub fn saturating_add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(nanos_of(duration)))
    }

    /// Returns the point `duration` earlier, or the moment of boot.
    pub fn saturating_sub(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(nanos_of(duration)))
    }

    /// Returns how long after `earlier` this is; zero if it is not.
    pub fn saturating_duration_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

fn nanos_of(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Where time comes from.
///
/// [`SystemClock`] in production, [`RuntimeClock`] within this process alone; [`TestClock`] under tokio's paused time.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// Returns the present moment; never earlier than an answer given before.
    fn now(&self) -> BootInstant;

    /// Waits until [`Clock::now`] has reached `deadline`; returns at once if it is past. Dropping the future leaves no
    /// timer behind.
    fn sleep_until(&self, deadline: BootInstant) -> BoxFuture<()>;

    /// Returns the wall clock's time since 1970-01-01 UTC, to be shown and to seed counters.
    ///
    /// It can be set back, so it never decides which contender holds a lock.
    fn unix_time(&self) -> Duration;
}

/// The machine's clock; sleeping needs a tokio runtime with its time driver.
///
/// It is `CLOCK_BOOTTIME` on Linux, `CLOCK_MONOTONIC` on Apple's systems, and the performance counter on Windows: there
/// each of them counts the time of suspensions. A sleep that should have ended while the machine was suspended ends
/// within 250 ms after that; while there are long sleeps, a thread of the process looks out for it.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> BootInstant {
        BootInstant(nanos_of(since_boot()))
    }

    fn sleep_until(&self, deadline: BootInstant) -> BoxFuture<()> {
        Box::pin(async move {
            let left = || deadline.saturating_duration_since(Self.now());
            // Most deadlines are given up before they are told of anything.
            let mut sleeper = None;
            loop {
                // It is told of what comes after this.
                let suspended = sleeper.as_ref().map(Sleeper::suspended);
                let whole = left();
                if whole.is_zero() {
                    return;
                }
                if let Some(suspended) = suspended {
                    tokio::select! {
                        biased;
                        () = tokio::time::sleep(whole) => {}
                        () = suspended => {}
                    }
                } else {
                    tokio::time::sleep(whole.min(NAP_MAX)).await;
                    sleeper = if left().is_zero() { None } else { Sleeper::begin() };
                }
            }
        })
    }

    fn unix_time(&self) -> Duration {
        #[expect(clippy::disallowed_methods, reason = "the one reading of the wall clock")]
        let now = SystemTime::now();
        now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
    }
}

/// Tokio's time: the machine's without the time of suspensions, and paused time where a test has paused it.
///
/// It is the clock of a service in this process, with which nothing outside competes, so a test that pauses time needs
/// no other setting. Off a runtime it is always the machine's time.
///
/// A runtime whose time was paused may be ahead of another one from then on; each has its own time.
#[derive(Clone, Debug)]
pub struct RuntimeClock {
    origin: tokio::time::Instant,
    boot: BootInstant,
    unix: Duration,
}

impl RuntimeClock {
    /// Starts with the machine's own time.
    pub fn new() -> Self {
        let machine = SystemClock;
        Self { origin: tokio::time::Instant::now(), boot: machine.now(), unix: machine.unix_time() }
    }

    /// Returns the time that is as far before or after the origin as the present moment of the runtime is.
    fn shifted<T>(&self, before: impl FnOnce(Duration) -> T, after: impl FnOnce(Duration) -> T) -> T {
        let now = tokio::time::Instant::now();
        match now.checked_duration_since(self.origin) {
            Some(late) => after(late),
            None => before(self.origin - now),
        }
    }
}

impl Default for RuntimeClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for RuntimeClock {
    fn now(&self) -> BootInstant {
        self.shifted(|early| self.boot.saturating_sub(early), |late| self.boot.saturating_add(late))
    }

    fn sleep_until(&self, deadline: BootInstant) -> BoxFuture<()> {
        let clock = self.clone();
        Box::pin(async move {
            let left = deadline.saturating_duration_since(clock.now());
            // The timer rounds up to the next millisecond, so that it is no earlier than this.
            tokio::time::sleep(left).await;
        })
    }

    fn unix_time(&self) -> Duration {
        self.shifted(|early| self.unix.saturating_sub(early), |late| self.unix.saturating_add(late))
    }
}

/// A clock that follows tokio's time, so that `#[tokio::test(start_paused = true)]` governs everything.
///
/// It starts an hour after a pretended boot; its wall clock starts at a fixed date.
#[derive(Clone, Debug)]
pub struct TestClock {
    origin: tokio::time::Instant,
}

impl TestClock {
    const BOOT_OFFSET: Duration = Duration::from_secs(3600);
    const UNIX_OFFSET: Duration = Duration::from_secs(1_750_000_000);

    /// Starts the clock at the present moment of tokio's time.
    pub fn new() -> Self {
        Self { origin: tokio::time::Instant::now() }
    }
}

impl Default for TestClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for TestClock {
    fn now(&self) -> BootInstant {
        BootInstant::from_nanos(nanos_of(Self::BOOT_OFFSET + self.origin.elapsed()))
    }

    fn sleep_until(&self, deadline: BootInstant) -> BoxFuture<()> {
        let left = deadline.saturating_duration_since(self.now());
        Box::pin(tokio::time::sleep(left))
    }

    fn unix_time(&self) -> Duration {
        Self::UNIX_OFFSET + self.origin.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn the_system_clock_never_goes_back() {
        let clock = SystemClock;
        let mut last = clock.now();
        for _ in 0..1_000 {
            let now = clock.now();
            assert!(now >= last);
            last = now;
        }
    }

    #[tokio::test]
    async fn a_long_sleep_wakes_no_more_often_than_a_short_one() {
        let (clock, told, mut polls) = (SystemClock, Arc::new(AtomicUsize::new(0)), 0);
        let counted = told.clone();
        tokio::spawn(async move {
            let sleeper = Sleeper::begin().expect("a thread");
            loop {
                sleeper.suspended().await;
                counted.fetch_add(1, Ordering::SeqCst);
            }
        });
        let deadline = clock.now().saturating_add(6 * NAP_MAX);
        let mut sleeping = clock.sleep_until(deadline);
        std::future::poll_fn(|context| {
            polls += 1;
            sleeping.as_mut().poll(context)
        })
        .await;
        assert!(clock.now() >= deadline);
        // One is the first, one follows the nap, one is at the end. A busy machine may seem to have been suspended, at
        // the end too, where it is not counted yet.
        let told = told.load(Ordering::SeqCst);
        assert!(polls <= 4 + told, "{polls} polls, and {told} suspensions");
    }

    #[test]
    fn arithmetic_saturates_at_both_ends() {
        let late = BootInstant::from_nanos(u64::MAX - 1);
        assert_eq!(late.saturating_add(Duration::from_secs(1)), BootInstant::from_nanos(u64::MAX));
        let early = BootInstant::from_nanos(1);
        assert_eq!(early.saturating_sub(Duration::from_secs(1)), BootInstant::from_nanos(0));
        assert_eq!(early.saturating_duration_since(late), Duration::ZERO);
    }

    #[test]
    fn the_clock_of_a_runtime_goes_on_in_one_whose_time_is_behind_that_in_which_it_was_made() {
        // Less than any machine has been up that runs this.
        let ahead = Duration::from_secs(10);
        let runtime =
            || tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let clock = runtime().block_on(async {
            tokio::time::sleep(ahead).await;
            RuntimeClock::new()
        });
        runtime().block_on(async {
            let (before, unix) = (clock.now(), clock.unix_time());
            let begun = tokio::time::Instant::now();
            clock.sleep_until(before.saturating_add(Duration::from_millis(20))).await;
            let took = begun.elapsed();
            assert!((20..=21).contains(&took.as_millis()), "{took:?}");
            assert_eq!(clock.now().saturating_duration_since(before), took);
            assert_eq!(clock.unix_time() - unix, took);
        });
    }

    #[test]
    fn a_moment_is_shown_in_seconds() {
        assert_eq!(format!("{:?}", BootInstant::from_nanos(6_808_040_000_000)), "BootInstant(6808.04s)");
    }

    #[tokio::test(start_paused = true)]
    async fn the_test_clock_follows_paused_time() {
        let clock = TestClock::new();
        let before = clock.now();
        clock.sleep_until(before.saturating_add(Duration::from_secs(90))).await;
        assert_eq!(clock.now().saturating_duration_since(before), Duration::from_secs(90));
    }
}
