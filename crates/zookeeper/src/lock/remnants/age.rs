//! For how long a queue has been unused. No server tells when a node's children changed last, only by which
//! transaction. But transactions are numbered in their order, and of some the time is known too: one that came later
//! says until when it was at the latest.

use std::collections::BTreeMap;
use std::sync::Arc;

use lockkeeper_zk_proto::message::{
    Create, CreateMode, ErrorCode, MultiOperation, MultiResult, OpCode, Request, Response, Stat,
};
use lockkeeper_zk_proto::path::ZnodePath;

use super::census::Census;
use crate::client::random;
use crate::config::Config;
use crate::error::ClientError;
use crate::link::Link;

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

/// Asks for the number and the time of a transaction of now: one that makes a node below the base, writes it and
/// deletes it again, so that no other client ever sees it. `None` if this user may not.
pub(in crate::lock) async fn server_time(link: &Arc<Link>, config: &Config) -> Result<Option<ServerTime>, ClientError> {
    let base = link.chroot().join(&config.base);
    let ancestors = base.ancestors();
    for parent in std::iter::once(base.clone()).chain(ancestors).chain([ZnodePath::root()]) {
        match written_below(link, config, &parent).await? {
            Ok(time) => return Ok(Some(time)),
            Err(ErrorCode::NoNode) => {}
            Err(_) => return Ok(None),
        }
    }
    Ok(None)
}

async fn written_below(
    link: &Arc<Link>,
    config: &Config,
    parent: &ZnodePath,
) -> Result<Result<ServerTime, ErrorCode>, ClientError> {
    let name = format!("lockkeeper-time-{:016x}", random());
    let child = parent.child(&name).map_err(|error| ClientError::invalid_path(OpCode::Multi, &name, &error))?;
    let path = child.as_str().to_owned();
    let mode = CreateMode::Persistent;
    let create = Create { path: path.clone(), data: Some(Vec::new().into()), acl: config.acl.clone(), mode };
    let request = Request::Multi(vec![
        MultiOperation::Create(create),
        MultiOperation::SetData { path: path.clone(), data: Some(Vec::new().into()), version: -1 },
        MultiOperation::Delete { path: path.clone(), version: -1 },
    ]);
    let Response::Multi(results) = link.call(&request, &path).response().await? else {
        return Err(ClientError::unexpected(OpCode::Multi, &path));
    };
    let mut refused = ErrorCode::RuntimeInconsistency;
    for result in results {
        match result {
            MultiResult::SetData { stat } => {
                return Ok(Ok(ServerTime { zxid: stat.mzxid, unix_ms: stat.mtime }));
            }
            MultiResult::Error(code) if ![ErrorCode::Ok, ErrorCode::RuntimeInconsistency].contains(&code) => {
                refused = code;
            }
            _ => {}
        }
    }
    Ok(Err(refused))
}
