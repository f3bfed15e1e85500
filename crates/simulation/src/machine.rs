//! A machine: a clock that goes at a rate, and pauses during which nothing on it runs.
//!
//! What waits on a machine waits for its clock, for the network, or for another task of it. So a machine stands still
//! when neither its clock wakes a sleeper nor the network brings anything.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockkeeper_core::BoxFuture;
use lockkeeper_core::clock::{BootInstant, Clock};
use tokio::sync::watch;
use tokio::time::Instant;

/// Between the boots of two machines.
const BOOT_OFFSET: Duration = Duration::from_secs(3_600);

/// The wall clock at the beginning, since 1970.
const UNIX_OFFSET: Duration = Duration::from_secs(1_750_000_000);

const MILLION: i64 = 1_000_000;

/// A machine. Its clones are the same one.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    origin: Instant,
    booted: Duration,
    rate_ppm: u32,
    /// How many pauses last now.
    stops: Arc<watch::Sender<u32>>,
    /// Where its clock stands still with it, which is wrong.
    stood_still: Option<Arc<Mutex<ClockStop>>>,
}

/// The time that a clock has missed.
#[derive(Debug, Default)]
struct ClockStop {
    before: Duration,
    since: Option<Instant>,
}

impl ClockStop {
    fn missed(&self) -> Duration {
        self.before + self.since.map_or(Duration::ZERO, |since| since.elapsed())
    }
}

impl Machine {
    pub(crate) fn new(number: u32, drift_ppm: i64) -> Self {
        let rate_ppm = u32::try_from(MILLION + drift_ppm).expect("a clock goes forward");
        Self {
            origin: Instant::now(),
            booted: BOOT_OFFSET * (number + 1),
            rate_ppm,
            stops: Arc::default(),
            stood_still: None,
        }
    }

    /// Has its clock stand still while it does.
    pub(crate) fn with_clock_that_stops(self) -> Self {
        Self { stood_still: Some(Arc::default()), ..self }
    }

    pub(crate) fn stop(&self) {
        self.stops.send_modify(|stops| *stops += 1);
        if let Some(stood_still) = &self.stood_still {
            stood_still.lock().expect("nothing panics while it is locked").since.get_or_insert_with(Instant::now);
        }
    }

    pub(crate) fn go_on(&self) {
        self.stops.send_modify(|stops| *stops -= 1);
        if let Some(stood_still) = &self.stood_still
            && *self.stops.borrow() == 0
        {
            let mut stood_still = stood_still.lock().expect("nothing panics while it is locked");
            *stood_still = ClockStop { before: stood_still.missed(), since: None };
        }
    }

    /// For how long its clock stood still.
    fn stood_still(&self) -> Duration {
        self.stood_still.as_ref().map_or(Duration::ZERO, |stood_still| {
            stood_still.lock().expect("nothing panics while it is locked").missed()
        })
    }

    /// Waits until it does not stand still.
    pub(crate) async fn running(&self) {
        let mut stops = self.stops.subscribe();
        stops.wait_for(|stops| *stops == 0).await.expect("it is kept here");
    }

    fn elapsed(&self) -> Duration {
        let elapsed = self.origin.elapsed().saturating_sub(self.stood_still());
        let nanos = elapsed.as_nanos() * u128::from(self.rate_ppm) / u128::from(MILLION.unsigned_abs());
        Duration::from_nanos(u64::try_from(nanos).expect("a run is short"))
    }
}

impl Clock for Machine {
    fn now(&self) -> BootInstant {
        BootInstant::from_nanos(0).saturating_add(self.booted + self.elapsed())
    }

    fn sleep_until(&self, deadline: BootInstant) -> BoxFuture<()> {
        let machine = self.clone();
        Box::pin(async move {
            loop {
                let left = deadline.saturating_duration_since(machine.now());
                if left.is_zero() {
                    break;
                }
                // Of the server's time, rounded up: a timer is never early.
                let nanos = left.as_nanos() * u128::from(MILLION.unsigned_abs()) / u128::from(machine.rate_ppm) + 1;
                tokio::time::sleep(Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))).await;
            }
            machine.running().await;
        })
    }

    fn unix_time(&self) -> Duration {
        UNIX_OFFSET + self.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_clock_goes_at_its_rate_and_wakes_no_sleeper_while_its_machine_stands_still() {
        let machine = Machine::new(0, 20_000);
        let before = machine.now();
        let deadline = before.saturating_add(Duration::from_secs(102));
        machine.sleep_until(deadline).await;
        assert_eq!(machine.origin.elapsed().as_secs(), 100);
        assert!(machine.now() >= deadline);

        machine.stop();
        let sleeper = tokio::spawn(machine.sleep_until(machine.now().saturating_add(Duration::from_secs(1))));
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert!(!sleeper.is_finished());
        machine.go_on();
        sleeper.await.expect("it is woken");
        assert_eq!(machine.origin.elapsed().as_secs(), 110);
    }
}
