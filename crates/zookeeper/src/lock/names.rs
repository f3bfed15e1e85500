//! Names the locks below the base in which a contender stands.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use lockkeeper_core::{Operation, QueueName, Result};
use lockkeeper_zk_proto::message::Request;

use crate::config::Config;
use crate::error::ClientError;
use crate::layout::{CURATOR_PERMITS, CURATOR_WAITERS, Layout};
use crate::link::{Call, Link, if_there};
use crate::lock::inspect::{READS_AT_ONCE_MAX, ask_all, children};
use crate::lock::queue_data::QueueData;

/// A node below the base, and what it holds.
struct Found {
    node: String,
    data: Bytes,
    children: i32,
}

/// Names the locks below the base in which a contender stands, each once. Locks at other paths are not among them.
pub(super) async fn queues(link: &Arc<Link>, config: &Config, prefix: &str) -> Result<Vec<QueueName>> {
    let fail = |error: ClientError| error.into_core(Operation::Inspect, None);
    let base = link.chroot.join(&config.base);
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
    path_of: impl Fn(&str) -> String + Sync,
    shown: &str,
) -> Result<Vec<Found>, ClientError> {
    let read = |node: &String| Request::GetData { path: path_of(node), watch: false };
    let said = ask_all(link, shown, nodes, read, Call::data).await?;
    let found = nodes.iter().zip(said).filter_map(|(node, said)| {
        let (data, stat) = said.ok()?;
        (stat.num_children > 0).then(|| Found { node: node.clone(), data, children: stat.num_children })
    });
    Ok(found.collect())
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
            if let Some(stat) = if_there(call.stat().await)? {
                others -= 1;
                stands += stat.num_children;
            }
        }
        is_in_use.push(others > 0 || stands > 0);
    }
    let mut is_in_use = is_in_use.into_iter();
    found.retain(|_| is_in_use.next().unwrap_or(true));
    Ok(())
}

/// Reads the name of the lock that a node belongs to.
pub(super) fn name_of(node: &str, data: &[u8], layout: Layout) -> Option<QueueName> {
    let lock = layout.own_node(node);
    QueueName::decode(lock).or_else(|| QueueData::read(data).name(lock))
}
