//! The plan of a run: what is done to it, and when. All choices follow from the seed and the run's number.

use std::time::Duration;

use lockkeeper_conformance::Random;

use crate::command::Family;

/// How many locks the runs want.
pub(crate) const LOCKS: usize = 2;

/// The longest time that a command holds its lock by itself, in milliseconds: short, so that there are many grants, and
/// long beside a start, so that most are struck while they hold.
const HOLD_MS_MAX: u64 = 60;

/// The latest deed after a run was started, in milliseconds: as long as a run usually waits among eight.
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
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Victim {
    NoProcess,
    /// The runner is asked to end (SIGTERM).
    Asked,
    Killed(Part),
    /// Runner and watchdog, one at once after the other.
    BothKilled,
}

impl Victim {
    const ALL: [Self; 6] = [
        Self::NoProcess,
        Self::Asked,
        Self::Killed(Part::Runner),
        Self::Killed(Part::Watchdog),
        Self::Killed(Part::Command),
        Self::BothKilled,
    ];

    pub(crate) fn parts(self) -> Vec<Part> {
        match self {
            Self::NoProcess => vec![],
            Self::Asked => vec![Part::Runner],
            Self::Killed(part) => vec![part],
            Self::BothKilled => vec![Part::Runner, Part::Watchdog],
        }
    }
}

/// A process that stands still for a while.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stop {
    pub(crate) part: Part,
    pub(crate) after: Duration,
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
    /// Whether times count from the moment in which its command has the lock; else from the start, in any state.
    pub(crate) is_after_grant: bool,
    pub(crate) strike_after: Duration,
    pub(crate) stops: Vec<Stop>,
}

impl Plan {
    pub(crate) fn of(seed: u64, number: u64) -> Self {
        let mut random = Random::new(seed ^ Random::new(number).next());
        let random = &mut random;
        let victim = pick(random, &Victim::ALL);
        // A relative of the command is promised to be gone before the lock passes on only where one of both is left.
        let reaches_relatives = !matches!(victim, Victim::Asked | Victim::BothKilled | Victim::Killed(Part::Command));
        let family = if reaches_relatives { pick(random, &Family::ALL) } else { Family::Alone };
        let is_after_grant = random.below(3) > 0;
        // A little late for the shortest holds: they may be over.
        let within_us = 1_000 * if is_after_grant { HOLD_MS_MAX } else { WAIT_MS_MAX };
        let after = |random: &mut Random| Duration::from_micros(random.below(within_us));
        let mut stops = Vec::new();
        for _ in 0..2 {
            // Two tries a run.
            let is_meant = random.below(200) < STOPPED_PERCENT;
            let part = pick(random, &[Part::Runner, Part::Watchdog, Part::Command]);
            let lasting = Duration::from_millis(1 + random.below(STOP_MS_MAX));
            stops.extend(is_meant.then(|| Stop { part, after: after(random), lasting }));
        }
        Self {
            number,
            lock: random.below(LOCKS as u64) as usize,
            hold: Duration::from_millis(random.below(HOLD_MS_MAX + 1)),
            family,
            victim,
            is_after_grant,
            strike_after: after(random),
            stops,
        }
    }
}

fn pick<T: Copy>(random: &mut Random, of: &[T]) -> T {
    of[random.below(of.len() as u64) as usize]
}
