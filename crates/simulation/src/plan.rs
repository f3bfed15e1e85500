//! The plan of a run, as a seed chooses it: machines and their clocks, calls, faults. Pure: the same seed gives the
//! same plan.

use std::time::Duration;

use lockkeeper_conformance::{Ask, Random};
use lockkeeper_core::Wait;
use lockkeeper_recipes::Handoff;

/// How many permits a semaphore has.
pub const PERMITS: u32 = 3;

/// By how much the rates of two clocks of a run differ at most, in parts of a million. The margin of the ZooKeeper
/// client covers a fiftieth of the timeout.
pub const DRIFT_PPM_MAX: i64 = 20_000;

const MACHINES_MIN: u64 = 2;
const MACHINES_MAX: u64 = 4;
const CALLS_MAX: u64 = 4;
const FAULTS_MAX: u64 = 6;

/// What is chosen from for each call.
const MUTEXES: &[Ask] = &[Ask::Mutex];
const BOOK: &[Ask] = &[Ask::Write, Ask::Read, Ask::Read];
const MIX: &[Ask] = &[Ask::Mutex, Ask::Write, Ask::Read];
const POOL: &[Ask] = &[Ask::Permits(1, PERMITS), Ask::Permits(2, PERMITS), Ask::Permits(3, PERMITS)];

/// One run.
#[derive(Clone, Debug)]
pub struct RunPlan {
    /// What it was made of.
    pub seed: u64,
    /// The server's tick.
    pub tick: Duration,
    /// The session timeout that clients ask for.
    pub timeout: Duration,
    /// The longest that the server grants, if that is shorter.
    pub timeout_max: Option<Duration>,
    /// How mutexes go from task to task.
    pub handoff: Handoff,
    /// The machines, each with a client.
    pub machines: Vec<MachinePlan>,
    /// What goes wrong, in the order of the time.
    pub faults: Vec<FaultPlan>,
}

/// A machine with one client.
#[derive(Clone, Debug)]
pub struct MachinePlan {
    /// How much faster its clock goes than the server's, in parts of a million.
    pub drift_ppm: i64,
    /// The least and the greatest time of a message on its way, each way.
    pub latency: (Duration, Duration),
    /// The users of its client, each with its calls.
    pub users: Vec<Vec<CallPlan>>,
}

/// One call of a user, and what follows.
#[derive(Clone, Debug)]
pub struct CallPlan {
    /// How long after the end of the call before.
    pub after: Duration,
    /// What is asked for.
    pub ask: Ask,
    /// For how long it waits.
    pub wait: Wait,
    /// When its future is dropped, if it has no answer by then.
    pub dropped_after: Option<Drop>,
    /// How long it holds.
    pub hold: Duration,
    /// How often its guard is asked meanwhile.
    pub looks: u32,
    /// Whether the guard is dropped instead of released.
    pub drops_guard: bool,
}

/// When a future is dropped.
#[derive(Clone, Copy, Debug)]
pub enum Drop {
    /// After this time.
    Time(Duration),
    /// After this many polls.
    Polls(usize),
}

/// One fault.
#[derive(Clone, Debug)]
pub struct FaultPlan {
    /// When, from the beginning.
    pub at: Duration,
    /// How long it lasts.
    pub lasts: Duration,
    /// What it is.
    pub what: FaultKind,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FaultKind {
    /// A machine stands still; its clock goes on.
    MachineStops(usize),
    /// The server stands still, and its clock with it.
    ServerStops,
    /// All connections of a machine end, and no other is made meanwhile.
    Cut(usize),
    /// Nothing that a machine sends arrives.
    Mute(usize),
    /// Nothing that is sent to a machine arrives.
    Deaf(usize),
    /// Everything takes this much longer to and from a machine.
    Slow(usize, Duration),
    /// The server restarts with all that it has stored.
    ServerRestarts,
    /// The server is replaced by one without data.
    ServerLosesData,
}

impl RunPlan {
    /// Makes the plan of a seed.
    pub fn of(seed: u64) -> Self {
        let mut chance = Chance(Random::new(seed));
        let tick = Duration::from_millis([500, 1_000, 2_000][chance.below(3) as usize]);
        let timeout = tick * (3 + chance.below(8) as u32);
        let timeout_max = chance.one_in(5).then(|| (timeout / 2).max(tick * 2));
        let handoff = match chance.below(4) {
            0 => Handoff::local(),
            1 => Handoff::sticky(),
            _ => Handoff::default(),
        };
        let asks = [MUTEXES, MUTEXES, BOOK, MIX, POOL][chance.below(5) as usize];
        let slowest = -chance.between(0, DRIFT_PPM_MAX);
        let machines = (0..chance.range(MACHINES_MIN, MACHINES_MAX))
            .map(|_| {
                let drift_ppm = slowest + chance.between(0, DRIFT_PPM_MAX);
                let least = Duration::from_micros(chance.below(5_000));
                let latency = (least, least + chance.part_of(timeout / 40));
                let users = (0..chance.range(1, 2)).map(|_| calls(&mut chance, asks, timeout)).collect();
                MachinePlan { drift_ppm, latency, users }
            })
            .collect::<Vec<_>>();
        let mut faults: Vec<_> =
            (0..chance.below(FAULTS_MAX + 1)).map(|_| fault(&mut chance, machines.len(), timeout)).collect();
        faults.sort_by_key(|fault| fault.at);
        Self { seed, tick, timeout, timeout_max, handoff, machines, faults }
    }
}

fn calls(chance: &mut Chance, asks: &[Ask], timeout: Duration) -> Vec<CallPlan> {
    let one = |chance: &mut Chance| CallPlan {
        after: chance.part_of(timeout / 2),
        ask: asks[chance.below(asks.len() as u64) as usize],
        wait: match chance.below(6) {
            0 => Wait::No,
            1 => Wait::AtMost(chance.part_of(timeout * 2)),
            _ => Wait::Forever,
        },
        dropped_after: match chance.below(8) {
            0 => Some(Drop::Time(chance.part_of(timeout * 2))),
            1 => Some(Drop::Polls(chance.below(6) as usize)),
            _ => None,
        },
        hold: chance.part_of(timeout),
        looks: chance.below(6) as u32,
        drops_guard: chance.one_in(2),
    };
    (0..chance.range(1, CALLS_MAX)).map(|_| one(chance)).collect()
}

fn fault(chance: &mut Chance, machines: usize, timeout: Duration) -> FaultPlan {
    let machine = chance.below(machines as u64) as usize;
    let what = match chance.below(12) {
        0..=2 => FaultKind::MachineStops(machine),
        3 => FaultKind::ServerStops,
        4 | 5 => FaultKind::Cut(machine),
        6 => FaultKind::Mute(machine),
        7 => FaultKind::Deaf(machine),
        8 | 9 => FaultKind::Slow(machine, chance.part_of(timeout / 2)),
        10 => FaultKind::ServerRestarts,
        _ => FaultKind::ServerLosesData,
    };
    FaultPlan { at: chance.part_of(timeout * 4), lasts: chance.part_of(timeout * 2), what }
}

/// The choices of a seed.
struct Chance(Random);

impl Chance {
    const fn below(&mut self, bound: u64) -> u64 {
        self.0.below(bound)
    }

    const fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    const fn range(&mut self, least: u64, greatest: u64) -> u64 {
        least + self.below(greatest - least + 1)
    }

    fn between(&mut self, least: i64, greatest: i64) -> i64 {
        least + self.below(greatest.abs_diff(least) + 1) as i64
    }

    /// A time up to this one.
    fn part_of(&mut self, longest: Duration) -> Duration {
        Duration::from_micros(self.below(longest.as_micros() as u64 + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_one_plan_and_no_two_clocks_of_it_differ_by_more_than_a_fiftieth() {
        for seed in 0..2_000 {
            let plan = RunPlan::of(seed);
            assert_eq!(format!("{plan:?}"), format!("{:?}", RunPlan::of(seed)));
            // The server's is the one that the others are measured by.
            let rates = || plan.machines.iter().map(|machine| machine.drift_ppm).chain([0]);
            let (slowest, fastest) = (rates().min().unwrap_or(0), rates().max().unwrap_or(0));
            assert!(fastest - slowest <= DRIFT_PPM_MAX, "{plan:?}");
        }
    }
}
