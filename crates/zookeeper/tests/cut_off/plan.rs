//! What is played: how many rounds, what the sessions do before the cut, and who is cut off. All choices follow from
//! one seed.

use std::fmt;
use std::time::Duration;

use lockkeeper_conformance::Random;
use lockkeeper_faults::long;

/// The ensembles' tick: short, so that a partition is noticed, and a session expires, within seconds.
pub(crate) const TICK: Duration = Duration::from_millis(500);

/// Every session's timeout: ten ticks. What a stall costs the rules that overlook it grows with it.
pub(crate) const SESSION_TIMEOUT: Duration = Duration::from_secs(5);

/// How many ensembles are partitioned at the same time, each in a separate network.
pub(crate) const NETWORKS: usize = 3;

/// How many rounds the long run has. A tenth of them, two on each network, still show what every naive rule lets
/// happen.
const ROUNDS_LONG: u32 = 50;

/// How long after the moment of the last write the network is cut at most.
const CUT_AFTER_MAX: Duration = Duration::from_millis(10);

/// What goes over the session of a holder before the cut.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Traffic {
    /// Locks beside the one that is held, many in a second.
    Steady,
    /// The whole process stands still until just before the last write.
    Stalled,
    /// Nothing but what the library sends by itself.
    Idle,
    /// Writes, reads, pauses and short stalls in any order.
    Mixed,
}

/// What goes over the session of a holder that keeps its own account.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum BareTraffic {
    /// Writes at the usual interval, then the process stands still until the last write.
    Stalled,
    /// Pings, as seldom as the protocol allows, until the last write.
    Idle,
}

/// Which server is cut off from its peers; both holders are connected to it.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Victim {
    Follower,
    Leader,
}

/// One partition: who is cut off, and when, after what.
#[derive(Clone, Debug)]
pub(crate) struct Round {
    pub(crate) network: usize,
    pub(crate) number: usize,
    pub(crate) victim: Victim,
    pub(crate) traffic: Traffic,
    pub(crate) bare_traffic: BareTraffic,
    /// How long the traffic goes on before the last write.
    pub(crate) prelude: Duration,
    /// The last part of the prelude, in which a stalled holder of the library stands still.
    pub(crate) stall: Duration,
    /// The last part of the prelude, in which a stalled bare holder stands still.
    pub(crate) bare_stall: Duration,
    /// How long after the last acknowledgement the network is cut.
    pub(crate) cut_after: Duration,
    /// For the choices within the traffic.
    pub(crate) random: Random,
}

impl Round {
    /// A name that no other round has.
    pub(crate) fn name(&self) -> String {
        format!("{}-{}", self.network, self.number)
    }
}

impl fmt::Display for Round {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { network, number, victim, traffic, bare_traffic, .. } = self;
        write!(formatter, "network {network} round {number}: {victim:?} cut off, {traffic:?} / bare {bare_traffic:?}")
    }
}

/// How many rounds at least are played on all networks together.
pub(crate) fn rounds_min() -> usize {
    long::rounds(ROUNDS_LONG) as usize
}

/// The rounds of one network: again and again every traffic once, with the follower and then with the leader cut off,
/// in a random order in which each network begins at another place.
pub(crate) fn rounds(seed: u64, network: usize) -> Vec<Round> {
    let (mut orders, mut random) = (Random::new(seed), Random::new(seed ^ (network as u64 + 1)));
    let count = rounds_min().div_ceil(NETWORKS);
    let victims = [Victim::Follower, Victim::Leader];
    let mut pairs = Vec::new();
    while pairs.len() < count {
        let mut traffics = shuffled(&mut orders);
        let begin = network % traffics.len();
        traffics.rotate_left(begin);
        let traffics = traffics.into_iter().enumerate();
        pairs.extend(traffics.flat_map(|pair| victims.map(|victim| (pair, victim))));
    }
    let round = |(number, ((turn, traffic), victim)): (usize, ((usize, Traffic), Victim))| Round {
        network,
        number,
        victim,
        traffic,
        bare_traffic: if (turn + network).is_multiple_of(2) { BareTraffic::Stalled } else { BareTraffic::Idle },
        prelude: part(&mut random, SESSION_TIMEOUT, 70, 110),
        stall: part(&mut random, SESSION_TIMEOUT, 30, 50),
        bare_stall: part(&mut random, SESSION_TIMEOUT, 45, 60),
        cut_after: part(&mut random, CUT_AFTER_MAX, 0, 100),
        random: random.split(),
    };
    pairs.into_iter().take(count).enumerate().map(round).collect()
}

fn shuffled(random: &mut Random) -> [Traffic; 4] {
    let mut traffics = [Traffic::Steady, Traffic::Stalled, Traffic::Idle, Traffic::Mixed];
    for last in (1..traffics.len()).rev() {
        traffics.swap(last, random.below(last as u64 + 1) as usize);
    }
    traffics
}

/// A random part of `whole`, from `least` to `most` per cent of it.
pub(crate) fn part(random: &mut Random, whole: Duration, least: u32, most: u32) -> Duration {
    let percent = least + random.below(u64::from(most - least) + 1) as u32;
    whole * percent / 100
}
