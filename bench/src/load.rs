//! Load, and what it has shown: how much, one call after the other, many tasks, the order of those that are compared,
//! and the spread and distribution of figures. Nothing here knows what is measured.
//!
//! Those that are compared take turns, in an order that is shuffled each time: none of them always goes first, on what
//! the one before it has left behind.

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fastrand::Rng;
use hdrhistogram::Histogram;
use lockkeeper::clock::{BootInstant, Clock, SystemClock};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

/// Why something could not be measured.
pub(crate) type Failed = Box<dyn Error + Send + Sync>;
pub(crate) type Outcome<T> = Result<T, Failed>;

/// Rounds of a full run: odd, so that one of them is the median.
const ROUNDS: usize = 5;

/// A smoke test does this part of the calls and takes this part of the time, …
const QUICK_PART: u32 = 20;

/// … and no fewer calls than this.
const QUICK_CALLS_MIN: u32 = 3;

/// How much is measured.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Effort {
    Full,
    /// One short round of each; its figures say nothing.
    Quick,
}

impl Effort {
    /// How often all that is compared takes its turn; odd.
    pub(crate) const fn rounds(self) -> usize {
        match self {
            Self::Full => ROUNDS,
            Self::Quick => 1,
        }
    }

    /// How many turns stand for this number of a full run.
    pub(crate) const fn turns(self, full: usize) -> usize {
        match self {
            Self::Full => full,
            Self::Quick => 1,
        }
    }

    /// How many calls stand for this number of a full run.
    pub(crate) const fn calls(self, full: u32) -> u32 {
        match self {
            Self::Full => full,
            Self::Quick if full / QUICK_PART < QUICK_CALLS_MIN => QUICK_CALLS_MIN,
            Self::Quick => full / QUICK_PART,
        }
    }

    /// How long is measured where a full run takes this time.
    pub(crate) fn time(self, full: Duration) -> Duration {
        match self {
            Self::Full => full,
            Self::Quick => full / QUICK_PART,
        }
    }
}

/// For one call after the other: calls are compared, and not how soon a machine wakes the threads of one program.
pub(crate) fn one_thread() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

/// For many tasks: two threads on every machine.
pub(crate) fn two_threads() -> io::Result<Runtime> {
    Builder::new_multi_thread().worker_threads(2).enable_all().build()
}

/// The spread of figures over rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) least: f64,
    /// Of an even number, the greater of the middle two; rounds are odd in number.
    pub(crate) median: f64,
    pub(crate) most: f64,
}

impl Spread {
    /// Nothing for no figures.
    pub(crate) fn of(mut figures: Vec<f64>) -> Option<Self> {
        figures.sort_by(f64::total_cmp);
        let (least, most) = (*figures.first()?, *figures.last()?);
        Some(Self { least, median: figures[figures.len() / 2], most })
    }
}

pub(crate) fn median(figures: Vec<f64>) -> f64 {
    Spread::of(figures).map_or(f64::NAN, |spread| spread.median)
}

/// The longest time that is told apart, in nanoseconds: a minute.
const TIME_MAX_NS: u64 = 60_000_000_000;

/// Digits that are kept of each time.
const DIGITS: u8 = 3;

/// Times, by how often each came.
#[derive(Clone, Debug)]
pub(crate) struct Latency(Histogram<u64>);

impl Latency {
    pub(crate) fn new() -> Self {
        Self(Histogram::new_with_bounds(1, TIME_MAX_NS, DIGITS).expect("bounds that fit"))
    }

    /// Notes a time; one beyond the bounds counts as the bound.
    pub(crate) fn note(&mut self, time: Duration) {
        self.0.saturating_record(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).max(1));
    }

    /// Adds the times of another one.
    pub(crate) fn add(&mut self, other: &Self) {
        self.0.add(&other.0).expect("the same bounds");
    }

    /// The time that this part of the calls took at most, in seconds.
    pub(crate) fn quantile(&self, part: f64) -> f64 {
        self.0.value_at_quantile(part) as f64 * 1e-9
    }

    pub(crate) fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

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

/// The order is the same in every run; it is printed with the report.
pub(crate) const SEED: u64 = 15;

/// Says who goes when.
#[derive(Debug)]
pub(crate) struct Turns(Rng);

/// What turns of calls have shown.
#[derive(Debug)]
pub(crate) struct Compared<const N: usize> {
    /// Of each turn, the mean time of a call of each, in seconds.
    pub(crate) means_s: Vec<[f64; N]>,
    /// Of each, over all turns.
    pub(crate) latencies: [Latency; N],
}

impl Turns {
    pub(crate) fn new() -> Self {
        Self(Rng::with_seed(SEED))
    }

    /// The order of one turn of so many: their numbers.
    pub(crate) fn order<const N: usize>(&mut self) -> [usize; N] {
        let mut order = std::array::from_fn(|number| number);
        self.0.shuffle(&mut order);
        order
    }

    /// Gives each a turn; `turn` is given its number, and what it answers is answered in its place.
    pub(crate) async fn each<T: Default, const N: usize>(
        &mut self,
        mut turn: impl AsyncFnMut(usize) -> Outcome<T>,
    ) -> Outcome<[T; N]> {
        let mut brought = std::array::from_fn(|_| T::default());
        for number in self.order::<N>() {
            brought[number] = turn(number).await?;
        }
        Ok(brought)
    }

    /// Lets each make its calls in so many turns, after some that warm up.
    pub(crate) async fn compare<const N: usize>(
        &mut self,
        [warm_up, counted]: [usize; 2],
        mut calls: impl AsyncFnMut(usize) -> Outcome<Calls>,
    ) -> Outcome<Compared<N>> {
        let mut compared = Compared { means_s: Vec::new(), latencies: std::array::from_fn(|_| Latency::new()) };
        for turn in 0..warm_up + counted {
            let made: [Option<Calls>; N] = self.each(async |number| calls(number).await.map(Some)).await?;
            if turn >= warm_up {
                let made = made.map(|made| made.expect("each had its turn"));
                compared.means_s.push(std::array::from_fn(|number| made[number].mean_s));
                compared.latencies.iter_mut().zip(&made).for_each(|(all, made)| all.add(&made.latency));
            }
        }
        Ok(compared)
    }
}

/// What each of a crowd was granted, and in which time.
#[derive(Clone, Debug)]
pub(crate) struct CrowdGrants {
    grants: Vec<u64>,
    took: Duration,
}

impl CrowdGrants {
    pub(crate) fn new(grants: Vec<u64>, took: Duration) -> Self {
        Self { grants, took }
    }

    pub(crate) fn total(&self) -> f64 {
        self.grants.iter().sum::<u64>() as f64
    }

    pub(crate) fn per_second(&self) -> f64 {
        self.total() / self.took.as_secs_f64()
    }

    /// The grants of the one with the fewest, as a part of those of the one with the most.
    pub(crate) fn least_of_most(&self) -> f64 {
        let least = self.grants.iter().min().copied().unwrap_or_default();
        let most = self.grants.iter().max().copied().unwrap_or_default();
        least as f64 / most.max(1) as f64
    }
}

/// Tasks that are being added.
#[derive(Debug)]
pub(crate) struct Crowd {
    stopped: Arc<AtomicBool>,
    tasks: JoinSet<Outcome<u64>>,
    begun: Stopwatch,
}

impl Crowd {
    pub(crate) fn new() -> Self {
        Self { stopped: Arc::default(), tasks: JoinSet::new(), begun: Stopwatch::start() }
    }

    /// Adds a task that begins at once, and makes calls until the crowd ends.
    pub(crate) fn add<C, F>(&mut self, mut call: C)
    where
        C: FnMut() -> F + Send + 'static,
        F: Future<Output = Outcome<()>> + Send,
    {
        let stopped = self.stopped.clone();
        self.tasks.spawn(async move {
            let mut grants = 0;
            while !stopped.load(Ordering::Relaxed) {
                call().await?;
                grants += 1;
            }
            Ok(grants)
        });
    }

    /// Lets it go on for this time, and answers what came of it.
    pub(crate) async fn end_after(mut self, time: Duration) -> Outcome<CrowdGrants> {
        tokio::time::sleep(time).await;
        self.stopped.store(true, Ordering::Relaxed);
        let mut grants = Vec::new();
        while let Some(ended) = self.tasks.join_next().await {
            grants.push(ended??);
        }
        // What was asked for before the end is granted after it, and counts: so does its time.
        let took = self.begun.elapsed();
        Ok(CrowdGrants::new(grants, took))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_odd_and_a_quick_run_does_less_of_everything_but_not_nothing() {
        for effort in [Effort::Full, Effort::Quick] {
            assert_eq!(effort.rounds() % 2, 1);
        }
        assert_eq!((Effort::Full.calls(1_000), Effort::Quick.calls(1_000), Effort::Quick.calls(9)), (1_000, 50, 3));
        assert_eq!(Effort::Quick.time(Duration::from_secs(1)), Duration::from_millis(50));
    }

    #[test]
    fn the_median_of_an_odd_number_is_the_middle_one_in_any_order() {
        let spread = Spread::of(vec![9.0, 1.0, 4.0]).expect("three figures");
        assert_eq!(spread, Spread { least: 1.0, median: 4.0, most: 9.0 });
    }

    #[test]
    fn no_figures_have_no_spread() {
        assert_eq!(Spread::of(Vec::new()), None);
    }

    #[test]
    fn quantiles_are_in_seconds_and_a_time_out_of_bounds_is_kept_as_the_bound() {
        let mut latency = Latency::new();
        for micros in 1..=100 {
            latency.note(Duration::from_micros(micros));
        }
        assert!((latency.median() - 50e-6).abs() < 1e-6, "{}", latency.median());
        latency.note(Duration::from_secs(1_000));
        assert!(latency.quantile(1.0) >= 59.0);
    }

    #[test]
    fn all_have_a_turn_each_time_and_each_goes_first_at_times() {
        let mut turns = Turns::new();
        let mut first = [0; 3];
        for _ in 0..30 {
            let mut order = turns.order::<3>();
            first[order[0]] += 1;
            order.sort_unstable();
            assert_eq!(order, [0, 1, 2]);
        }
        assert!(first.iter().all(|times| *times >= 5), "{first:?}");
    }

    #[tokio::test]
    async fn turns_that_warm_up_are_not_counted() {
        let mut made = [0_u32; 2];
        let compared = Turns::new()
            .compare::<2>([1, 2], async |number| {
                made[number] += 1;
                let seconds = if made[number] == 1 { 50 } else { 2 + number as u64 };
                Ok(Calls::of([Duration::from_secs(seconds)]))
            })
            .await
            .expect("calls that succeed");
        assert_eq!(compared.means_s, [[2.0, 3.0], [2.0, 3.0]]);
        assert!(compared.latencies[1].quantile(1.0) < 4.0);
    }

    #[test]
    fn a_crowd_is_as_fair_as_its_least_beside_its_most() {
        let grants = CrowdGrants::new(vec![50, 100, 80], Duration::from_secs(2));
        assert_eq!((grants.per_second(), grants.least_of_most()), (115.0, 0.5));
        assert_eq!(CrowdGrants::new(vec![0, 0], Duration::from_secs(1)).least_of_most(), 0.0);
    }
}
