//! Which server is tried next, and after which pause: pure, but for the seed.

use std::time::Duration;

use crate::config::Server;

/// The first pause, after every server was tried once.
const PAUSE_BASE: Duration = Duration::from_millis(100);

/// The longest pause: short beside any session timeout, so that a session is not lost by waiting.
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// After so many doublings a pause has long reached its maximum.
const DOUBLINGS_MAX: u32 = 8;

/// The servers of one session in a random order of its own, so that a fleet spreads over them.
#[derive(Debug)]
pub(crate) struct Hosts {
    servers: Vec<Server>,
    next: usize,
    /// Attempts since a connection was last of use.
    failed: u32,
    random: Random,
}

impl Hosts {
    pub(crate) fn new(mut servers: Vec<Server>, seed: u64) -> Self {
        let mut random = Random(seed);
        for last in (1..servers.len()).rev() {
            servers.swap(last, random.below(last as u64 + 1) as usize);
        }
        Self { servers, next: 0, failed: 0, random }
    }

    /// Returns the next server, and how long to wait before it is tried.
    ///
    /// There is no pause until every server was tried once, then one before each round, with jitter, so that those who
    /// lost their server together do not come back together.
    pub(crate) fn next(&mut self) -> (Duration, Server) {
        let count = self.servers.len().max(1);
        let server = self.servers[self.next % count].clone();
        self.next = (self.next + 1) % count;
        let (round, place) = (self.failed / count as u32, self.failed % count as u32);
        self.failed = self.failed.saturating_add(1);
        if round == 0 || place != 0 {
            return (Duration::ZERO, server);
        }
        let whole = PAUSE_BASE.saturating_mul(1 << (round - 1).min(DOUBLINGS_MAX)).min(PAUSE_MAX);
        let half_nanos = u64::try_from(whole.as_nanos() / 2).unwrap_or(u64::MAX - 1);
        (whole - Duration::from_nanos(self.random.below(half_nanos + 1)), server)
    }

    /// Takes note that the last connection was of use: the next attempt is the first again.
    pub(crate) fn succeeded(&mut self) {
        self.failed = 0;
    }
}

/// SplitMix64: spreads attempts, guards nothing.
#[derive(Debug)]
struct Random(u64);

impl Random {
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

    use super::*;

    fn servers(count: u16) -> Vec<Server> {
        (0..count).map(|port| Server { name: "h".to_owned(), port }).collect()
    }

    #[test]
    fn every_server_is_tried_once_before_the_first_pause() {
        let mut hosts = Hosts::new(servers(5), 7);
        let tried: BTreeSet<_> = (0..5)
            .map(|_| {
                let (pause, server) = hosts.next();
                assert_eq!(pause, Duration::ZERO);
                server.port
            })
            .collect();
        assert_eq!(tried.len(), 5);
        assert!(hosts.next().0 >= PAUSE_BASE / 2);
        assert_eq!(hosts.next().0, Duration::ZERO, "within a round there is no pause");
    }

    #[test]
    fn pauses_double_up_to_their_maximum_and_start_anew_after_a_success() {
        let mut hosts = Hosts::new(servers(1), 1);
        let pauses: Vec<_> = (0..200).map(|_| hosts.next().0).collect();
        assert_eq!(pauses[0], Duration::ZERO);
        for (round, pause) in pauses.iter().enumerate().skip(1) {
            let whole = PAUSE_BASE.saturating_mul(1 << (round - 1).min(8)).min(PAUSE_MAX);
            assert!(*pause <= whole && *pause >= whole / 2, "round {round}: {pause:?}");
        }
        hosts.succeeded();
        assert_eq!(hosts.next().0, Duration::ZERO);
    }

    #[test]
    fn different_seeds_give_different_orders() {
        let first = |seed| Hosts::new(servers(16), seed).next().1.port;
        let firsts: BTreeSet<_> = (0..64).map(first).collect();
        assert!(firsts.len() > 8, "{firsts:?}");
    }
}
