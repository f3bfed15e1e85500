//! Names the locks below the base in which a contender stands.

use std::collections::BTreeSet;
use std::sync::Arc;

use lockkeeper_core::{Operation, QueueName, Result};
use lockkeeper_zk_proto::message::{ErrorCode, OpCode, Request, Response, Stat};

use crate::config::Config;
use crate::error::ClientError;
use crate::layout::{CURATOR_PERMITS, CURATOR_WAITERS, KAZOO_WAITERS, Layout};
use crate::link::{Call, Link};
use crate::lock::inspect::{READS_AT_ONCE_MAX, children};
use crate::lock::queue_data::QueueData;

/// A node below the base, and what it holds.
struct Found {
    node: String,
    data: Vec<u8>,
    children: i32,
}

/// Names the locks below the base in which a contender stands, each once. Locks at other paths are not among them.
pub(super) async fn queues(link: &Arc<Link>, config: &Config, prefix: &str) -> Result<Vec<QueueName>> {
    let fail = |error: ClientError| error.into_core(Operation::Inspect, None);
    let base = link.chroot().join(&config.base);
    let shown = config.base.as_str();
    let path_of = |node: &str| if base.is_root() { format!("/{node}") } else { format!("{base}/{node}") };
    let nodes = children(link, base.as_str(), shown).await.map_err(fail)?;
    let mut names = BTreeSet::new();
    for batch in nodes.chunks(READS_AT_ONCE_MAX) {
        let mut found = read_all(link, batch, path_of, shown).await.map_err(fail)?;
        leave_out_empty_semaphores(link, &mut found, path_of, shown).await.map_err(fail)?;
        names.extend(found.iter().filter_map(|found| name_of(&found.node, &found.data, config.naming.layout)));
    }
    Ok(names.into_iter().filter(|name| name.as_str().starts_with(prefix)).collect())
}

/// Reads nodes, and keeps those that have children.
async fn read_all(
    link: &Arc<Link>,
    nodes: &[String],
    path_of: impl Fn(&str) -> String,
    shown: &str,
) -> Result<Vec<Found>, ClientError> {
    let read = |node: &String| link.call(&Request::GetData { path: path_of(node), watch: false }, shown);
    let calls: Vec<Call> = nodes.iter().map(read).collect();
    let mut all = Vec::new();
    for (node, call) in nodes.iter().zip(calls) {
        match call.response().await {
            Ok(Response::GetData { data, stat }) if stat.num_children > 0 => {
                let data = data.unwrap_or_default().into();
                all.push(Found { node: node.clone(), data, children: stat.num_children });
            }
            Ok(_) => {}
            Err(error) if error.is(ErrorCode::NoNode) || error.is(ErrorCode::NoAuth) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(all)
}

/// Leaves out the nodes whose only children are the parts of a semaphore without contenders.
async fn leave_out_empty_semaphores(
    link: &Arc<Link>,
    found: &mut Vec<Found>,
    path_of: impl Fn(&str) -> String,
    shown: &str,
) -> Result<(), ClientError> {
    let parts = [CURATOR_WAITERS, CURATOR_PERMITS];
    let exists = |found: &Found| {
        let path = path_of(&found.node);
        let few = usize::try_from(found.children).is_ok_and(|children| children <= parts.len());
        few.then(|| {
            parts.map(|part| link.call(&Request::Exists { path: format!("{path}/{part}"), watch: false }, shown))
        })
    };
    let calls: Vec<Option<[Call; 2]>> = found.iter().map(exists).collect();
    let mut is_in_use = Vec::with_capacity(calls.len());
    for (found, calls) in found.iter().zip(calls) {
        let mut others = found.children;
        let mut stands = 0;
        for call in calls.into_iter().flatten() {
            if let Some(Stat { num_children, .. }) = stat_of(call).await? {
                others -= 1;
                stands += num_children;
            }
        }
        is_in_use.push(others > 0 || stands > 0);
    }
    let mut is_in_use = is_in_use.into_iter();
    found.retain(|_| is_in_use.next().unwrap_or(true));
    Ok(())
}

async fn stat_of(call: Call) -> Result<Option<Stat>, ClientError> {
    match call.response().await {
        Ok(Response::Stat(stat)) => Ok(Some(stat)),
        Ok(_) => Err(ClientError::unexpected(OpCode::Exists, "")),
        Err(error) if error.is(ErrorCode::NoNode) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads the name of the lock that a node belongs to: kazoo's gates lie beside their locks.
pub(super) fn name_of(node: &str, data: &[u8], layout: Layout) -> Option<QueueName> {
    let lock = match layout {
        Layout::Curator => node,
        Layout::Kazoo => node.strip_suffix(KAZOO_WAITERS).unwrap_or(node),
    };
    QueueName::decode(lock).or_else(|| QueueData::read(data).name(lock))
}
