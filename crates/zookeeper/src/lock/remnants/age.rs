//! For how long a queue has been unused. No server tells when a node's children changed last, only by which
//! transaction. But transactions are numbered in their order, and of some the time is known too: one that came later
//! says until when it was at the latest.

use std::collections::BTreeMap;
use std::sync::Arc;

use lockkeeper_zk_proto::message::{CreateMode, MultiResult, Stat};

use super::census::Census;
use crate::config::Config;
use crate::error::ClientError;
use crate::link::Link;
use crate::lock::trial::try_below_base;

/// A transaction of now.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::lock) struct ServerTime {
    pub(in crate::lock) zxid: i64,
    /// The leader's clock, in milliseconds since 1970.
    pub(in crate::lock) unix_ms: i64,
}

/// The transactions of which the time is known.
#[derive(Clone, Debug, Default)]
pub(super) struct Times {
    ms_by_zxid: BTreeMap<i64, i64>,
    now_ms: i64,
}

impl Times {
    pub(super) fn of(census: &Census, now: ServerTime) -> Self {
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
    pub(super) fn unused_ms(&self, stat: &Stat) -> i64 {
        // A leader's clock may have been set back: no later one of its times counts then.
        let children_changed = match stat.pzxid {
            made if made == stat.czxid => stat.ctime,
            changed => self.ms_by_zxid.range(changed..).map(|(_, &ms)| ms).min().unwrap_or(self.now_ms),
        };
        self.now_ms.saturating_sub(stat.ctime.max(stat.mtime).max(children_changed))
    }
}

/// Asks for the number and the time of a transaction of now. `None` if this user may not.
pub(in crate::lock) async fn server_time(link: &Arc<Link>, config: &Config) -> Result<Option<ServerTime>, ClientError> {
    let (_, results) = try_below_base(link, config, CreateMode::Persistent).await?;
    Ok(results.into_iter().find_map(|result| match result {
        MultiResult::SetData { stat } => Some(ServerTime { zxid: stat.mzxid, unix_ms: stat.mtime }),
        _ => None,
    }))
}
