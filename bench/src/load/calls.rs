//! One call after the other, each timed.

use std::time::Duration;

use lockkeeper::clock::{BootInstant, Clock, SystemClock};

use super::Latency;
use crate::Outcome;

/// Reads the clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopwatch(BootInstant);

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self(SystemClock.now())
    }

    pub(crate) fn elapsed(self) -> Duration {
        SystemClock.now().saturating_duration_since(self.0)
    }
}

/// What calls have taken.
#[derive(Clone, Debug)]
pub(crate) struct Calls {
    /// The mean of one call, in seconds: what a throughput of one caller comes from.
    pub(crate) mean_s: f64,
    pub(crate) latency: Latency,
}

impl Calls {
    /// Of calls that another process has timed.
    pub(crate) fn of(times: impl IntoIterator<Item = Duration>) -> Self {
        let (mut latency, mut sum, mut count) = (Latency::new(), Duration::ZERO, 0_u32);
        for time in times {
            latency.note(time);
            sum += time;
            count += 1;
        }
        Self { mean_s: sum.as_secs_f64() / f64::from(count.max(1)), latency }
    }
}

/// Makes this many calls, and times each.
pub(crate) async fn timed(count: u32, mut call: impl AsyncFnMut() -> Outcome<()>) -> Outcome<Calls> {
    let mut times = Vec::with_capacity(count as usize);
    for _ in 0..count {
        let watch = Stopwatch::start();
        call().await?;
        times.push(watch.elapsed());
    }
    Ok(Calls::of(times))
}

/// Makes this many calls, and answers how many a second: for calls beside which reading the clock costs time.
pub(crate) async fn per_second(count: u32, mut call: impl AsyncFnMut() -> Outcome<()>) -> Outcome<f64> {
    let watch = Stopwatch::start();
    for _ in 0..count {
        call().await?;
    }
    Ok(f64::from(count) / watch.elapsed().as_secs_f64())
}
