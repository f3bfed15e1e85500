//! What is done to a run, and when. All choices follow from the seed and the run's number.

use std::time::Duration;

use lockkeeper_conformance::Random;

use crate::command::Family;

/// How many locks the runs want.
pub(crate) const LOCKS: usize = 2;

/// The longest time that a command holds its lock by itself, in milliseconds: short, so that there are many grants, and
/// long beside a start, so that most are struck while they hold.
const HOLD_MS_MAX: u64 = 60;

/// The latest strike after a run was started, in milliseconds: as long as a run usually waits among eight.
const WAIT_MS_MAX: u64 = 400;

/// The longest time that a process stands still, in milliseconds: longer than the grace.
const STOP_MS_MAX: u64 = 250;

/// How many of a hundred runs have a process stopped.
const STOPPED_PERCENT: u64 = 35;

/// One process of a run.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Part {
    Runner,
    Watchdog,
    Command,
}

/// Which processes are struck, and how.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Victim {
    NoProcess,
    /// The runner is asked to end (SIGTERM).
    Asked,
    RunnerKilled,
    WatchdogKilled,
    CommandKilled,
    /// Runner and watchdog, one at once after the other.
    BothKilled,
}

impl Victim {
    pub(crate) const ALL: [Self; 6] =
        [Self::NoProcess, Self::Asked, Self::RunnerKilled, Self::WatchdogKilled, Self::CommandKilled, Self::BothKilled];

    /// Whether a relative of the command is promised to be gone before the lock passes on.
    const fn reaches_relatives(self) -> bool {
        matches!(self, Self::NoProcess | Self::RunnerKilled | Self::WatchdogKilled)
    }
}

/// When something is done.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Moment {
    /// This long after the run was started, in any state.
    Started(Duration),
    /// This long after its command has the lock.
    Granted(Duration),
}

/// A process that stands still for a while.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stop {
    pub(crate) part: Part,
    pub(crate) at: Moment,
    pub(crate) lasting: Duration,
}

/// One run, and what is done to it.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) number: u64,
    pub(crate) lock: usize,
    pub(crate) hold: Duration,
    pub(crate) family: Family,
    pub(crate) victim: Victim,
    pub(crate) strike_at: Moment,
    pub(crate) stops: Vec<Stop>,
}

impl Plan {
    pub(crate) fn of(seed: u64, number: u64) -> Self {
        let mut random = Random::new(seed ^ Random::new(number).next());
        let victim = pick(&mut random, &Victim::ALL);
        let family = if victim.reaches_relatives() { pick(&mut random, &Family::ALL) } else { Family::Alone };
        let stops = (0..2).filter_map(|_| stop(&mut random)).collect();
        Self {
            number,
            lock: random.below(LOCKS as u64) as usize,
            hold: Duration::from_millis(random.below(HOLD_MS_MAX + 1)),
            family,
            victim,
            strike_at: moment(&mut random),
            stops,
        }
    }
}

fn stop(random: &mut Random) -> Option<Stop> {
    // Two tries a run.
    let is_meant = random.below(200) < STOPPED_PERCENT;
    let part = pick(random, &[Part::Runner, Part::Watchdog, Part::Command]);
    let (at, lasting) = (moment(random), Duration::from_millis(1 + random.below(STOP_MS_MAX)));
    is_meant.then_some(Stop { part, at, lasting })
}

fn moment(random: &mut Random) -> Moment {
    match random.below(3) {
        0 => Moment::Started(Duration::from_millis(random.below(WAIT_MS_MAX))),
        // A little late for the shortest holds: they may be over.
        _ => Moment::Granted(Duration::from_micros(random.below(HOLD_MS_MAX * 1_000))),
    }
}

fn pick<T: Copy>(random: &mut Random, of: &[T]) -> T {
    of[random.below(of.len() as u64) as usize]
}
