//! Remnants of clients below the base: which nodes no client uses, for how long, and their removal.
//!
//! No server tells when a node's children changed last, only by which transaction. But transactions are numbered in
//! their order, and of some the time is known too: one that came later says until when it was at the latest.
//!
//! A remnant is removed if it is still as it was seen: all of its nodes in one transaction, each by its version. A node
//! with a child is not deleted by any server, so a contender that came in between stays.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::{Operation, Part, Remnant, RemnantKind, Result};
use lockkeeper_zk_proto::message::{CreateMode, ErrorCode, MultiOperation, MultiResult, OpCode, Stat, ZkRequest};

use crate::config::Config;
use crate::error::ClientError;
use crate::link::{ClientCall, SessionLink, if_there};
use crate::lock::census::{Census, CensusLock, CensusNode, CensusQueue};
use crate::lock::owner::ContenderData;
use crate::lock::queue_data::QueueData;
use crate::lock::trial::try_below_base;

/// Names what no client uses. Without the server's time no queue is known to be unused.
pub(super) fn judge(census: &Census, now: Option<ServerTime>, unused_for: Duration) -> Vec<Remnant> {
    let mut remnants = Vec::new();
    for lock in &census.locks {
        for contender in lock.queues.iter().flat_map(|queue| &queue.contenders).filter(|node| is_unbound(node)) {
            let seen = RemnantNodes::new([contender]);
            let remnant = Remnant::new(RemnantKind::Unbound, &contender.path, seen);
            remnants.push(remnant.of_lock(lock.name.clone()));
        }
    }
    // Below the root lie the nodes of other programs, of which some may be empty on purpose.
    let Some(now) = now.filter(|_| !census.is_at_root) else {
        return remnants;
    };
    let times = Times::of(census, now);
    let unused_for_ms = i64::try_from(unused_for.as_millis()).unwrap_or(i64::MAX);
    let is_unused = |queue: &CensusQueue| times.unused_ms(&queue.node.stat) >= unused_for_ms;
    for lock in census.locks.iter().filter(|lock| is_empty(lock) && lock.queues.iter().all(is_unused)) {
        // The lock's own node is the first, and goes last.
        let seen = RemnantNodes::new(lock.queues.iter().rev().map(|queue| &queue.node));
        let place = &lock.queues[0].node.path;
        remnants.push(Remnant::new(RemnantKind::Empty, place, seen).of_lock(lock.name.clone()));
    }
    remnants
}

/// Whether a contender stands although it depends on no session, and does not say that it freezes its lock.
fn is_unbound(contender: &CensusNode) -> bool {
    let is_frozen = || ContenderData::read(&contender.data).is_some_and(|data| data.frozen.is_some());
    contender.stat.ephemeral_owner == 0 && !is_frozen()
}

/// Whether there is nothing below a lock's node but its empty queues, and no value in any of them. A node that never
/// had children is a value too, such as a barrier of kazoo's.
fn is_empty(lock: &CensusLock) -> bool {
    // The value of a semaphore's permits says how many there are, and goes with the last contender.
    let is_valued =
        |queue: &CensusQueue| queue.part != Part::Permits && QueueData::read(&queue.node.data).value().is_some();
    let is_vacant = |queue: &CensusQueue| queue.contenders.is_empty() && queue.foreign.is_empty() && !is_valued(queue);
    !lock.has_others && lock.queues[0].node.stat.cversion != 0 && lock.queues.iter().all(is_vacant)
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct ServerTime {
    pub(super) zxid: i64,
    /// The leader's clock, in milliseconds since 1970.
    pub(super) unix_ms: i64,
}

/// The transactions of which the time is known.
#[derive(Clone, Debug, Default)]
struct Times {
    ms_by_zxid: BTreeMap<i64, i64>,
    now_ms: i64,
}

impl Times {
    fn of(census: &Census, now: ServerTime) -> Self {
        let mut times = Self { ms_by_zxid: BTreeMap::from([(now.zxid, now.unix_ms)]), now_ms: now.unix_ms };
        for queue in census.locks.iter().flat_map(|lock| &lock.queues) {
            for node in [&queue.node].into_iter().chain(&queue.contenders).chain(&queue.foreign) {
                times.ms_by_zxid.insert(node.stat.czxid, node.stat.ctime);
                times.ms_by_zxid.insert(node.stat.mzxid, node.stat.mtime);
            }
        }
        times
    }

    /// Returns for how long a node was certainly neither made nor written, nor had a child come or go, in milliseconds.
    fn unused_ms(&self, stat: &Stat) -> i64 {
        // A leader's clock may have been set back: no later one of its times counts then.
        let children_changed = match stat.pzxid {
            made if made == stat.czxid => stat.ctime,
            changed => self.ms_by_zxid.range(changed..).map(|(_, &ms)| ms).min().unwrap_or(self.now_ms),
        };
        self.now_ms.saturating_sub(stat.ctime.max(stat.mtime).max(children_changed))
    }
}

/// Asks for the number and the time of a transaction of now. `None` if this user may not.
pub(super) async fn server_time(link: &Arc<SessionLink>, config: &Config) -> Result<Option<ServerTime>, ClientError> {
    let (_, results) = try_below_base(link, config, CreateMode::Persistent).await?;
    Ok(results.into_iter().find_map(|result| match result {
        MultiResult::SetData { stat } => Some(ServerTime { zxid: stat.mzxid, unix_ms: stat.mtime }),
        _ => None,
    }))
}

#[derive(Clone, Debug)]
struct RemnantNodes {
    nodes: Vec<(String, Stat)>,
}

impl RemnantNodes {
    fn new<'a>(nodes: impl IntoIterator<Item = &'a CensusNode>) -> Self {
        Self { nodes: nodes.into_iter().map(|node| (node.path.clone(), node.stat)).collect() }
    }
}

/// Removes it; `false` if it is not as it was seen any more.
pub(super) async fn remove(link: &Arc<SessionLink>, remnant: &Remnant) -> Result<bool> {
    let Some(seen) = remnant.seen::<RemnantNodes>() else {
        return Ok(false);
    };
    let removed = removed(link, seen, &remnant.place).await;
    removed.map_err(|error| error.into_core(Operation::Configure, None))
}

async fn removed(link: &Arc<SessionLink>, seen: &RemnantNodes, shown: &str) -> Result<bool, ClientError> {
    let sync = link.call(&ZkRequest::Sync { path: remnant_root(seen).to_owned() }, shown);
    let look = |(path, _): &(String, Stat)| link.call(&ZkRequest::Exists { path: path.clone(), watch: false }, shown);
    let looks: Vec<ClientCall> = seen.nodes.iter().map(look).collect();
    sync.response().await?;
    for ((_, before), look) in seen.nodes.iter().zip(looks) {
        // Its deletion is noted by its version alone, which begins anew with a node that was made anew; so its
        // transactions are compared too.
        if !if_there(look.stat().await)?.is_some_and(|now| is_same(before, &now)) {
            return Ok(false);
        }
    }
    let delete = |(path, stat): &(String, Stat)| MultiOperation::Delete { path: path.clone(), version: stat.version };
    let request = ZkRequest::Multi(seen.nodes.iter().map(delete).collect());
    match MultiResult::blamed(&link.call(&request, shown).results().await?) {
        None => Ok(true),
        Some((_, ErrorCode::NoNode | ErrorCode::NotEmpty | ErrorCode::BadVersion)) => Ok(false),
        Some((_, code)) => Err(ClientError::of_refusal(code, OpCode::Multi, shown)),
    }
}

/// The node that all others lie below.
fn remnant_root(seen: &RemnantNodes) -> &str {
    seen.nodes.last().map_or("/", |(path, _)| path)
}

/// Whether nothing has happened to a node: it was not made anew or written, and no child has come or gone.
fn is_same(before: &Stat, now: &Stat) -> bool {
    let of = |stat: &Stat| (stat.czxid, stat.mzxid, stat.pzxid, stat.version, stat.num_children);
    of(before) == of(now)
}

#[cfg(test)]
mod tests {
    use lockkeeper_core::QueueName;

    use super::*;

    const MINUTE_MS: i64 = 60_000;
    const NOW: ServerTime = ServerTime { zxid: 100, unix_ms: 100 * MINUTE_MS };

    /// A node that was made by transaction `czxid` at that minute, and whose children changed last by `pzxid`.
    fn node(path: &str, czxid: i64, pzxid: i64) -> CensusNode {
        let time = czxid * MINUTE_MS;
        let stat = Stat { czxid, mzxid: czxid, ctime: time, mtime: time, pzxid, cversion: 2, ..Stat::default() };
        let name = path.rsplit('/').next().unwrap().to_owned();
        CensusNode { path: path.to_owned(), name, data: Vec::new(), stat }
    }

    fn queue(node: CensusNode, part: Part) -> CensusQueue {
        CensusQueue { node, part, contenders: Vec::new(), foreign: Vec::new() }
    }

    fn lock(name: &str, queues: Vec<CensusQueue>) -> CensusLock {
        CensusLock { name: QueueName::new(name).ok(), queues, has_others: false }
    }

    fn line(czxid: i64, pzxid: i64) -> CensusLock {
        lock("x", vec![queue(node("/b/x", czxid, pzxid), Part::Line)])
    }

    fn found(locks: Vec<CensusLock>, minutes: u64) -> Vec<(RemnantKind, String)> {
        let census = Census { locks, ..Census::default() };
        let remnants = judge(&census, Some(NOW), Duration::from_secs(minutes * 60));
        remnants.into_iter().map(|remnant| (remnant.kind, remnant.place)).collect()
    }

    #[test]
    fn a_queue_counts_as_unused_since_the_first_later_transaction_of_a_known_time() {
        assert_eq!(found(vec![line(10, 20)], 10), [], "nothing shows that the last user left before just now");
        assert_eq!(found(vec![line(10, 20)], 0).len(), 1);
        let with_later = |czxid| vec![line(10, 20), lock("y", vec![queue(node("/b/y", czxid, czxid + 1), Part::Line)])];
        assert_eq!(found(with_later(91), 10), []);
        assert_eq!(found(with_later(90), 10), [(RemnantKind::Empty, "/b/x".to_owned())]);
        assert_eq!(found(with_later(15), 10), [], "it was before the last user left");
    }

    #[test]
    fn a_node_that_was_just_written_is_in_use() {
        let mut written = line(10, 20);
        written.queues[0].node.stat.mtime = 95 * MINUTE_MS;
        written.queues[0].node.stat.mzxid = 95;
        assert_eq!(found(vec![written], 10), []);
    }

    #[test]
    fn values_contenders_and_unknown_nodes_keep_a_queue() {
        let keepers: [fn(&mut CensusLock); 6] = [
            |lock| lock.queues[0].node.data = b"5".to_vec(),
            |lock| lock.queues[0].node.data = br#"{"value":""}"#.to_vec(),
            |lock| lock.queues[0].node.stat.cversion = 0,
            |lock| lock.queues[0].foreign.push(node("/b/x/n-0000000001", 11, 11)),
            |lock| lock.has_others = true,
            |lock| {
                let mut living = node("/b/x/_c_-lock-0000000001", 11, 11);
                living.stat.ephemeral_owner = 7;
                lock.queues[0].contenders.push(living);
            },
        ];
        for keep in keepers {
            let mut kept = line(10, 20);
            keep(&mut kept);
            assert_eq!(found(vec![kept], 0), []);
        }
        let mut noted = line(10, 20);
        noted.queues[0].node.data = br#"{"broken":["x"]}"#.to_vec();
        assert_eq!(found(vec![noted], 0).len(), 1, "a note of a broken contender is no value");
    }

    #[test]
    fn the_queues_of_a_semaphore_go_together_or_stay() {
        let semaphore = |waiters: CensusQueue| {
            let line = queue(node("/b/s", 10, 12), Part::Line);
            let mut permits = node("/b/s/leases", 12, 13);
            permits.data = b"2".to_vec();
            lock("s", vec![line, waiters, queue(permits, Part::Permits)])
        };
        let empty = queue(node("/b/s/locks", 11, 14), Part::Waiters);
        assert_eq!(found(vec![semaphore(empty)], 0), [(RemnantKind::Empty, "/b/s".to_owned())]);
        let mut valued = queue(node("/b/s/locks", 11, 14), Part::Waiters);
        valued.node.data = b"3".to_vec();
        assert_eq!(found(vec![semaphore(valued)], 0), []);
    }

    #[test]
    fn a_contender_without_a_session_is_unbound_unless_it_is_frozen() {
        let with = |data: &[u8], owner| {
            let mut contender = node("/b/x/_c_-lock-0000000001", 11, 11);
            contender.stat.ephemeral_owner = owner;
            contender.data = data.to_vec();
            let mut lock = line(10, 20);
            lock.queues[0].contenders.push(contender);
            found(vec![lock], 0)
        };
        let frozen = br#"{"host":"h","pid":1,"command":"c","since":0,"frozen":"disks"}"#;
        assert_eq!((with(frozen, 0), with(b"", 7)), (Vec::new(), Vec::new()));
        let unbound = [(RemnantKind::Unbound, "/b/x/_c_-lock-0000000001".to_owned())];
        assert_eq!(with(b"127.0.0.1", 0), unbound);
        assert_eq!(with(br#"{"host":"h","pid":1,"command":"c","since":0}"#, 0), unbound);
    }

    #[test]
    fn below_the_root_and_without_the_servers_time_no_queue_is_taken_for_unused() {
        let at_root = Census { locks: vec![line(10, 20)], is_at_root: true, ..Census::default() };
        assert!(judge(&at_root, Some(NOW), Duration::ZERO).is_empty());
        let timeless = Census { locks: vec![line(10, 20)], ..Census::default() };
        assert!(judge(&timeless, None, Duration::ZERO).is_empty());
    }
}
