//! Decides which way to a server is tried next, after which pause, and how long it may take. Pure, but for the seed.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::config::{Config, Server};

/// The first pause, after every way was tried once.
const PAUSE_BASE: Duration = Duration::from_millis(100);

/// The longest pause: short compared with any session timeout, so that a session is not lost by waiting.
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// After this many doublings a pause has reached its maximum.
const DOUBLINGS_MAX: u32 = 8;

/// The least time one way gets, however many there are.
const SHARE_MIN: Duration = Duration::from_millis(500);

/// A connection, and a handshake, take at most this part of the session timeout, so that a live session survives a
/// silent server.
const SESSION_DIVISOR: u32 = 3;

/// How long a connection must have lasted to count as useful, so that a server that closes every connection is not
/// dialled in a busy loop.
const STEADY: Duration = Duration::from_secs(1);

/// How long to wait after this many attempts in a row that came to nothing: no pause before the first one.
pub(crate) fn pause_after(attempts: u32, random: &mut Random) -> Duration {
    let Some(doublings) = attempts.checked_sub(1) else {
        return Duration::ZERO;
    };
    let whole = PAUSE_BASE.saturating_mul(1 << doublings.min(DOUBLINGS_MAX)).min(PAUSE_MAX);
    let half_nanos = u64::try_from(whole.as_nanos() / 2).unwrap_or(u64::MAX - 1);
    whole - Duration::from_nanos(random.below(half_nanos + 1))
}

/// The ways of one session: the servers in an order that depends on a seed, so that a fleet spreads over them, and for
/// each name its addresses. They are tried round by round.
#[derive(Debug)]
pub(crate) struct Hosts {
    servers: Vec<Server>,
    /// The ways of the present round.
    ways: Vec<Server>,
    next: usize,
    /// Rounds since a connection was last useful.
    rounds: u32,
    random: Random,
    trail: Arc<Trail>,
}

impl Hosts {
    pub(crate) fn new(mut servers: Vec<Server>, seed: u64, trail: Arc<Trail>) -> Self {
        let mut order = Random(trail.seed);
        for last in (1..servers.len()).rev() {
            servers.swap(last, order.below(last as u64 + 1) as usize);
        }
        Self { servers, ways: Vec::new(), next: 0, rounds: 0, random: Random(seed), trail }
    }

    /// Returns the servers in the order in which they are tried.
    pub(crate) fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// Returns how long to wait before the next round begins: no pause before the first one, then a pause with jitter,
    /// so that clients that lost their server together do not come back together.
    pub(crate) fn pause(&mut self) -> Duration {
        pause_after(self.rounds, &mut self.random)
    }

    /// Begins a round with the ways that there are now, where the last attempt of any session of this service stopped.
    pub(crate) fn begin_round(&mut self, mut ways: Vec<Server>) {
        self.trail.lead(&mut ways);
        (self.ways, self.next) = (ways, 0);
        self.rounds = self.rounds.saturating_add(1);
    }

    /// Adds ways to the round that were not known when it began.
    pub(crate) fn join_round(&mut self, ways: Vec<Server>) {
        self.ways.extend(ways);
    }

    /// Returns the next way of the round; `None` if it is over.
    pub(crate) fn next(&mut self) -> Option<Server> {
        let way = self.ways.get(self.next)?;
        self.next += 1;
        self.trail.left(way);
        Some(way.clone())
    }

    /// Returns the ways of the round, tried or not.
    pub(crate) fn ways(&self) -> &[Server] {
        &self.ways
    }

    /// Whether every way of the round was tried.
    pub(crate) const fn is_round_over(&self) -> bool {
        self.next >= self.ways.len()
    }

    /// Notes that a server has accepted the session: the next session goes there first.
    pub(crate) fn arrived(&self, way: &Server) {
        self.trail.arrived(way);
    }

    /// Takes note that a connection broke after so long; answers whether it was of use. Then this round is over, and
    /// the next one is the first again, and begins behind it.
    pub(crate) fn broke(&mut self, way: &Server, lasted: Duration) -> bool {
        self.trail.left(way);
        if lasted >= STEADY {
            (self.rounds, self.next) = (0, self.ways.len());
        }
        lasted >= STEADY
    }

    /// Has a way of this round tried next, once more: nothing was wrong with it.
    pub(crate) fn try_again(&mut self, way: Server) {
        if let Some(at) = self.ways.iter().position(|tried| *tried == way) {
            self.ways.remove(at);
            self.next -= usize::from(at < self.next);
        }
        self.ways.insert(self.next, way);
    }
}

/// Where the attempts of all sessions of one service stopped, so that the next one begins there. An attempt that was
/// given up, or whose caller's timeout is over, does not make the others try the same silent address first.
#[derive(Debug)]
pub(crate) struct Trail {
    /// Gives all sessions one order of the servers, so that beginning behind a way leads to all of them in turn.
    seed: u64,
    last: Mutex<Option<(Server, Mark)>>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Mark {
    /// It was tried, or is being tried.
    Left,
    /// A server behind it has accepted the session.
    Arrived,
}

impl Trail {
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, last: Mutex::new(None) }
    }

    fn left(&self, way: &Server) {
        self.mark(way, Mark::Left);
    }

    fn arrived(&self, way: &Server) {
        self.mark(way, Mark::Arrived);
    }

    fn mark(&self, way: &Server, mark: Mark) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some((way.clone(), mark));
    }

    /// Turns a round so that it begins where the last attempt stopped.
    fn lead(&self, ways: &mut [Server]) {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((way, mark)) = &*last else {
            return;
        };
        if let Some(at) = ways.iter().position(|candidate| candidate == way) {
            ways.rotate_left(at + usize::from(*mark == Mark::Left));
        }
    }
}

/// How long one way may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    connect_timeout: Duration,
    session_timeout: Duration,
}

impl Share {
    pub(crate) const fn new(config: &Config) -> Self {
        Self { connect_timeout: config.connect_timeout, session_timeout: config.session_timeout }
    }

    /// Returns how long a connection, or the resolving of a name, may take for this number of ways.
    pub(crate) fn dial_max(self, ways: usize) -> Duration {
        share(self.connect_timeout.min(self.session_timeout / SESSION_DIVISOR), ways)
    }

    /// Returns how long a server may take to answer the handshake for this number of ways.
    pub(crate) fn handshake_max(self, ways: usize) -> Duration {
        let longest = (self.session_timeout / SESSION_DIVISOR).max(SHARE_MIN);
        share(self.connect_timeout.min(self.session_timeout), ways).min(longest)
    }
}

fn share(whole: Duration, ways: usize) -> Duration {
    let ways = u128::try_from(ways).unwrap_or(u128::MAX).max(1);
    // In whole milliseconds, as errors show it.
    Duration::from_millis(u64::try_from(whole.as_millis() / ways).unwrap_or(u64::MAX)).max(SHARE_MIN)
}

/// SplitMix64: spreads attempts, protects nothing.
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::net::SocketAddr;

    use super::*;

    fn servers(count: u16) -> Vec<Server> {
        (0..count).map(|port| Server::new("h", port)).collect()
    }

    fn hosts(count: u16, trail: &Arc<Trail>) -> Hosts {
        Hosts::new(servers(count), 7, trail.clone())
    }

    fn trail(seed: u64) -> Arc<Trail> {
        Arc::new(Trail::new(seed))
    }

    /// Two servers with two addresses each, as they would be resolved.
    fn addresses(hosts: &Hosts) -> Vec<Server> {
        let address = |last: u8| SocketAddr::from(([10, 0, 0, last], 2181));
        hosts.servers().iter().flat_map(|server| [1, 2].map(|last| server.at(address(last)))).collect()
    }

    #[test]
    fn every_way_is_tried_once_in_a_round_and_there_is_a_pause_before_the_next_one() {
        let mut hosts = hosts(5, &trail(1));
        assert_eq!(hosts.pause(), Duration::ZERO);
        hosts.begin_round(hosts.servers().to_vec());
        let tried: BTreeSet<_> = std::iter::from_fn(|| hosts.next()).collect();
        assert_eq!(tried.len(), 5);
        assert!(hosts.is_round_over());
        assert!(hosts.pause() >= PAUSE_BASE / 2);
    }

    #[test]
    fn pauses_double_up_to_their_maximum_and_start_anew_after_a_success() {
        let mut hosts = hosts(1, &trail(1));
        for round in 0..200_u32 {
            let pause = hosts.pause();
            let whole = match round {
                0 => Duration::ZERO,
                _ => PAUSE_BASE.saturating_mul(1 << (round - 1).min(8)).min(PAUSE_MAX),
            };
            assert!(pause <= whole && pause >= whole / 2, "round {round}: {pause:?}");
            hosts.begin_round(servers(1));
        }
        hosts.broke(&servers(1)[0], STEADY / 2);
        assert!(hosts.pause() > Duration::ZERO);
        hosts.broke(&servers(1)[0], STEADY);
        assert!(hosts.is_round_over());
        assert_eq!(hosts.pause(), Duration::ZERO);
    }

    #[test]
    fn different_seeds_give_different_orders() {
        let first = |seed| hosts(16, &trail(seed)).servers()[0].port;
        let firsts: BTreeSet<_> = (0..64).map(first).collect();
        assert!(firsts.len() > 8, "{firsts:?}");
    }

    #[test]
    fn the_next_attempt_begins_where_the_last_one_stopped_over_all_addresses_of_all_servers() {
        let trail = trail(3);
        let first = || {
            let mut hosts = hosts(2, &trail);
            hosts.begin_round(addresses(&hosts));
            hosts.next().unwrap()
        };
        let all = addresses(&hosts(2, &trail));
        assert_eq!([first(), first(), first(), first()].as_slice(), all);
        assert_eq!(first(), all[0]);
    }

    #[test]
    fn the_next_session_begins_with_the_way_that_was_good_and_this_one_behind_it_when_it_broke() {
        let trail = trail(3);
        let mut ours = hosts(2, &trail);
        let all = addresses(&ours);
        ours.begin_round(all.clone());
        assert_eq!((ours.next().as_ref(), ours.next().as_ref()), (all.first(), all.get(1)));
        ours.arrived(&all[1]);
        let mut theirs = hosts(2, &trail);
        theirs.begin_round(all.clone());
        assert_eq!(theirs.next().as_ref(), all.get(1));
        ours.broke(&all[1], STEADY);
        ours.begin_round(all.clone());
        assert_eq!(ours.next().as_ref(), all.get(2));
    }

    #[test]
    fn a_way_that_is_tried_again_is_next_and_all_others_begin_behind_it_until_it_is_good_again() {
        for lasted in [STEADY / 2, STEADY] {
            let trail = trail(3);
            let mut ours = hosts(2, &trail);
            let all = addresses(&ours);
            ours.begin_round(all.clone());
            assert_eq!(ours.next().as_ref(), all.first());
            ours.arrived(&all[0]);
            ours.broke(&all[0], lasted);
            ours.try_again(all[0].clone());
            assert_eq!(ours.ways().len(), all.len(), "no way gets less time for it");
            assert_eq!(ours.next().as_ref(), all.first());
            let mut theirs = hosts(2, &trail);
            theirs.begin_round(all.clone());
            assert_eq!(theirs.next().as_ref(), all.get(1), "{lasted:?}");
        }
    }

    #[test]
    fn shares_of_the_time_follow_the_number_of_ways_and_leave_a_session_time_to_live() {
        let share = |url: &str| Share::new(&Config::from_url(&url.parse().unwrap()).unwrap());
        let millis = Duration::from_millis;
        let usual = share("zk://h1");
        assert_eq!((usual.dial_max(1), usual.dial_max(4)), (millis(6_666), millis(1_666)));
        assert_eq!((usual.handshake_max(1), usual.handshake_max(4)), (Duration::from_secs(20) / 3, millis(2_500)));
        let hasty = share("zk://h1?connect_timeout=3s");
        assert_eq!((hasty.dial_max(3), hasty.handshake_max(3)), (millis(1_000), millis(1_000)));
        assert_eq!((hasty.dial_max(64), hasty.handshake_max(64)), (SHARE_MIN, SHARE_MIN));
    }
}
