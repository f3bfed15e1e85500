//! Decides which way to a server is tried next, and after which pause. Pure, but for the seed.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::randomness::next_of_sequence;
use lockkeeper_core::{Backoff, jittered};
use parking_lot::Mutex;

use crate::Server;

/// How long a connection must have lasted to count as useful, so that a server that closes every connection is not
/// dialled in a busy loop.
const STEADY: Duration = Duration::from_secs(1);

/// In which order the ways of a round are tried.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Order {
    /// All servers serve alike. A fleet spreads over them by the seeds of its trails, and each round begins where the
    /// last attempt of any session stopped.
    Spread,
    /// One server alone serves. Each round begins with the first of the URL, as it does with all clients: if two
    /// serve, against the rules, all still meet at one. What an attempt has found chooses among the addresses of a
    /// name.
    Listed,
    /// As [`Listed`](Self::Listed), but a later round begins behind the server that was tried last.
    Onward,
}

/// The ways of one session: the servers, and for each name its addresses. They are tried round by round.
#[derive(Debug)]
pub struct Ways {
    servers: Vec<Server>,
    order: Order,
    /// The ways of the present round.
    ways: Vec<Server>,
    next: usize,
    /// The way to one of the servers that was taken last, in this round or one before.
    last: Option<Server>,
    /// The pauses between rounds since a connection was last useful; `None` before the first round.
    pauses: Option<Backoff>,
    random: Random,
    history: Arc<DialHistory>,
}

impl Ways {
    /// Takes the servers of a URL; the seed varies the pauses.
    #[must_use]
    pub fn new(mut servers: Vec<Server>, order: Order, seed: u64, history: Arc<DialHistory>) -> Self {
        if order == Order::Spread {
            let mut random = Random(history.seed);
            for last in (1..servers.len()).rev() {
                servers.swap(last, random.below(last as u64 + 1) as usize);
            }
        }
        Self { servers, order, ways: Vec::new(), next: 0, last: None, pauses: None, random: Random(seed), history }
    }

    /// Returns the servers in the order in which they are tried.
    #[must_use]
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// Returns how long to wait before the next round begins: no pause before the first one, then a pause with jitter,
    /// so that clients that lost their server together do not come back together.
    pub fn pause(&mut self) -> Duration {
        let pause = self.pauses.as_mut().map_or(Duration::ZERO, Backoff::pause);
        jittered(pause, next_of_sequence(&mut self.random.0))
    }

    /// Begins a round with the ways that there are now.
    pub fn begin_round(&mut self, mut ways: Vec<Server>) {
        match self.order {
            Order::Spread => self.history.lead(&mut ways),
            Order::Listed | Order::Onward => {
                if let Some(lost) = &self.last {
                    self.history.mark(lost, DialMark::Left);
                }
                let of_each_server = ways.chunk_by_mut(|way, next| way.is_reached_by(next));
                of_each_server.for_each(|ways| self.history.lead(ways));
            }
        }
        if let (Order::Onward, Some(last)) = (self.order, &self.last) {
            let behind = ways.iter().rposition(|way| last.is_reached_by(way)).map_or(0, |at| at + 1);
            ways.rotate_left(behind);
        }
        (self.ways, self.next) = (ways, 0);
        self.pauses.get_or_insert(Backoff::CONNECTING);
    }

    /// Adds ways to the round that were not known when it began.
    pub fn join_round(&mut self, ways: Vec<Server>) {
        self.ways.extend(ways);
    }

    /// Returns how many ways of the round were not tried yet.
    #[must_use]
    pub const fn left(&self) -> usize {
        self.ways.len() - self.next
    }

    /// Returns the ways of the round, tried or not.
    #[must_use]
    pub fn ways(&self) -> &[Server] {
        &self.ways
    }

    /// Whether every way of the round was tried.
    #[must_use]
    pub const fn is_round_over(&self) -> bool {
        self.left() == 0
    }

    /// Notes that a server has accepted the session: the next session goes there first.
    pub fn arrived(&self, way: &Server) {
        self.history.mark(way, DialMark::Arrived);
    }

    /// Takes note that a connection broke after so long; answers whether it was of use. Then this round is over, and
    /// the next one is the first again, and begins behind it.
    pub fn broke(&mut self, way: &Server, lasted: Duration) -> bool {
        self.history.mark(way, DialMark::Left);
        if lasted >= STEADY {
            (self.pauses, self.next) = (None, self.ways.len());
        }
        lasted >= STEADY
    }

    /// Has a way of this round tried next, once more: nothing was wrong with it.
    pub fn try_again(&mut self, way: Server) {
        if let Some(at) = self.ways.iter().position(|tried| *tried == way) {
            self.ways.remove(at);
            self.next -= usize::from(at < self.next);
        }
        self.ways.insert(self.next, way);
    }

    /// Has ways tried next to which a server has sent us.
    pub(crate) fn detour(&mut self, ways: Vec<Server>) {
        self.ways.splice(self.next..self.next, ways);
    }
}

/// The ways of the round that are left, each of which counts as tried once it is taken.
impl Iterator for Ways {
    type Item = Server;

    fn next(&mut self) -> Option<Server> {
        let way = self.ways.get(self.next)?;
        self.next += 1;
        self.history.mark(way, DialMark::Left);
        if self.servers.iter().any(|server| server.is_reached_by(way)) {
            self.last = Some(way.clone());
        }
        Some(way.clone())
    }
}

/// Where the attempts of all sessions of one service stopped, so that the next one begins there. An attempt that was
/// given up, or whose caller's timeout is over, does not make the others try the same silent address first.
#[derive(Debug, Default)]
pub struct DialHistory {
    /// Gives all sessions one order of the servers, so that beginning behind a way leads to all of them in turn.
    seed: u64,
    last: Mutex<Option<(Server, DialMark)>>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum DialMark {
    /// It was tried, or is being tried.
    Left,
    /// A server behind it has accepted the session.
    Arrived,
}

impl DialHistory {
    /// Begins before any attempt.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { seed, last: Mutex::new(None) }
    }

    fn mark(&self, way: &Server, mark: DialMark) {
        *self.last.lock() = Some((way.clone(), mark));
    }

    /// Turns ways so that they begin where the last attempt stopped, if that was one of them.
    fn lead(&self, ways: &mut [Server]) {
        let last = self.last.lock();
        let Some((way, mark)) = &*last else {
            return;
        };
        if let Some(at) = ways.iter().position(|candidate| candidate == way) {
            ways.rotate_left(at + usize::from(*mark == DialMark::Left));
        }
    }
}

/// Spreads attempts, protects nothing.
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    /// Begins with a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next number below this bound.
    pub fn below(&mut self, bound: u64) -> u64 {
        next_of_sequence(&mut self.0) % bound
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

    fn ways(count: u16, history: &Arc<DialHistory>) -> Ways {
        Ways::new(servers(count), Order::Spread, 7, history.clone())
    }

    fn history(seed: u64) -> Arc<DialHistory> {
        Arc::new(DialHistory::new(seed))
    }

    /// Two servers with two addresses each, as they would be resolved.
    fn addresses(ways: &Ways) -> Vec<Server> {
        let address = |last: u8| SocketAddr::from(([10, 0, 0, last], 2181));
        ways.servers().iter().flat_map(|server| [1, 2].map(|last| server.at(address(last)))).collect()
    }

    #[test]
    fn every_way_is_tried_once_in_a_round_and_there_is_a_pause_before_the_next_one() {
        let mut ways = ways(5, &history(1));
        assert_eq!(ways.pause(), Duration::ZERO);
        ways.begin_round(ways.servers().to_vec());
        let tried: BTreeSet<_> = ways.by_ref().collect();
        assert_eq!(tried.len(), 5);
        assert!(ways.is_round_over());
        assert!(ways.pause() > Duration::ZERO);
    }

    #[test]
    fn pauses_are_those_of_other_connections_and_start_anew_after_a_success() {
        let mut ways = ways(1, &history(1));
        let mut whole = Backoff::CONNECTING;
        assert_eq!(ways.pause(), Duration::ZERO);
        ways.begin_round(servers(1));
        for round in 0..200_u32 {
            let (pause, whole) = (ways.pause(), whole.pause());
            assert!(pause <= whole && pause >= whole / 2, "round {round}: {pause:?}");
            ways.begin_round(servers(1));
        }
        ways.broke(&servers(1)[0], STEADY / 2);
        assert!(ways.pause() > Duration::ZERO);
        ways.broke(&servers(1)[0], STEADY);
        assert!(ways.is_round_over());
        assert_eq!(ways.pause(), Duration::ZERO);
    }

    #[test]
    fn different_seeds_give_different_orders() {
        let first = |seed| ways(16, &history(seed)).servers()[0].port;
        let firsts: BTreeSet<_> = (0..64).map(first).collect();
        assert!(firsts.len() > 8, "{firsts:?}");
    }

    #[test]
    fn the_next_attempt_begins_where_the_last_one_stopped_over_all_addresses_of_all_servers() {
        let history = history(3);
        let first = || {
            let mut ways = ways(2, &history);
            ways.begin_round(addresses(&ways));
            ways.next().unwrap()
        };
        let all = addresses(&ways(2, &history));
        assert_eq!([first(), first(), first(), first()].as_slice(), all);
        assert_eq!(first(), all[0]);
    }

    #[test]
    fn the_next_session_begins_with_the_way_that_was_good_and_this_one_behind_it_when_it_broke() {
        let history = history(3);
        let mut ours = ways(2, &history);
        let all = addresses(&ours);
        ours.begin_round(all.clone());
        assert_eq!((ours.next().as_ref(), ours.next().as_ref()), (all.first(), all.get(1)));
        ours.arrived(&all[1]);
        let mut theirs = ways(2, &history);
        theirs.begin_round(all.clone());
        assert_eq!(theirs.next().as_ref(), all.get(1));
        ours.broke(&all[1], STEADY);
        ours.begin_round(all.clone());
        assert_eq!(ours.next().as_ref(), all.get(2));
    }

    #[test]
    fn a_way_that_is_tried_again_is_next_and_all_others_begin_behind_it_until_it_is_good_again() {
        for lasted in [STEADY / 2, STEADY] {
            let history = history(3);
            let mut ours = ways(2, &history);
            let all = addresses(&ours);
            ours.begin_round(all.clone());
            assert_eq!(ours.next().as_ref(), all.first());
            ours.arrived(&all[0]);
            ours.broke(&all[0], lasted);
            ours.try_again(all[0].clone());
            assert_eq!(ours.ways().len(), all.len(), "no way gets less time for it");
            assert_eq!(ours.next().as_ref(), all.first());
            let mut theirs = ways(2, &history);
            theirs.begin_round(all.clone());
            assert_eq!(theirs.next().as_ref(), all.get(1), "{lasted:?}");
        }
    }

    #[test]
    fn where_one_server_serves_rounds_keep_the_order_of_the_url_and_begin_with_the_address_that_was_good() {
        let all = addresses(&ways(2, &history(0)));
        for (order, later) in [(Order::Listed, [0, 1, 2, 3]), (Order::Onward, [2, 3, 0, 1])] {
            let history = history(9);
            let mut ours = Ways::new(servers(2), order, 7, history.clone());
            let round = |ways: &mut Ways, tried: usize| {
                ways.begin_round(all.clone());
                let of_all = |way| all.iter().position(|known| *known == way).unwrap();
                ways.take(tried).map(of_all).collect::<Vec<_>>()
            };
            assert_eq!(round(&mut ours, 2), [0, 1], "{order:?}");
            ours.arrived(&all[1]);
            let mut theirs = Ways::new(servers(2), order, 7, history.clone());
            assert_eq!(round(&mut theirs, 4), [1, 0, 2, 3], "{order:?}");
            // What was good broke.
            assert_eq!(round(&mut ours, 4), later, "{order:?}");
        }
    }
}
