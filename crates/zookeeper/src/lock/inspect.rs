//! Shows the contenders in the queues of a lock, and names the locks in which a contender stands: reads only, many at a
//! time.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use lockkeeper_core::{Contender, ContenderId, ContenderInfo, FencingToken, Mode, Operation, QueueName, Result};
use lockkeeper_zk_proto::message::{ErrorCode, Stat, ZkRequest};

use crate::config::Config;
use crate::error::{ClientError, ClientErrorKind};
use crate::layout::{CURATOR_PERMITS, CURATOR_WAITERS, ChildName, Layout};
use crate::link::{ClientCall, SessionLink, if_there};
use crate::lock::owner::ContenderData;
use crate::lock::paths::QueuePath;
use crate::lock::queue_data::QueueData;
use crate::lock::shown::{ChildGroup, ContenderReading, describe, own_token, show};
use crate::lock::trial::require_fit;

/// How many reads are under way at once: enough to fill a round trip, and far from what a session may queue.
pub(super) const READS_AT_ONCE_MAX: usize = 500;

/// How often a look is tried again after a lost connection.
const ATTEMPTS_MAX: u32 = 3;

/// Shows the contenders in the queues of a lock: in its own, then the permits, then their waiters.
pub(super) async fn inspect(link: &Arc<SessionLink>, config: &Config, lock: &QueueName) -> Result<Vec<ContenderInfo>> {
    let fail = |error: ClientError| error.into_core(Operation::Inspect, None).at(lock);
    let layout = config.naming.layout;
    let path_of = |group: ChildGroup| {
        let (part, layout) = group.queue(layout);
        QueuePath::of(&lock.with_part(part), &config.base, &link.chroot, layout)
    };
    let line = path_of(ChildGroup::Line)?;
    let in_line = children(link, &line.on_server(), line.shown()).await.map_err(fail)?;
    let mut queues = vec![(line, ChildGroup::Line.contenders(&in_line, layout))];
    for group in ChildGroup::besides_line(&in_line, layout) {
        let path = path_of(group)?;
        let children = children(link, &path.on_server(), path.shown()).await.map_err(fail)?;
        queues.push((path, group.contenders(&children, layout)));
    }
    let mut infos = Vec::new();
    for (path, contenders) in queues {
        infos.extend(describe_all(link, &path, contenders).await.map_err(fail)?);
    }
    Ok(infos)
}

async fn describe_all(
    link: &Arc<SessionLink>,
    path: &QueuePath,
    contenders: Vec<Contender>,
) -> Result<Vec<ContenderInfo>, ClientError> {
    let read =
        |contender: &Contender| ZkRequest::GetData { path: path.child_on_server(contender.id.as_str()), watch: false };
    let answers = ask_all(link, path.shown(), &contenders, read, ClientCall::data).await?;
    let found = contenders.into_iter().zip(answers).filter_map(|(contender, answer)| {
        let found = ContenderReading::of(&contender, answer)?;
        Some((contender, found))
    });
    Ok(show(found.collect()).into_iter().map(Arc::unwrap_or_clone).collect())
}

/// What the service said to a read: there may be no such node, or this user may not read it.
pub(super) type ReadAnswer<T> = Result<T, ClientError>;

/// Asks about each of these, many at a time; the answers come in their order.
///
/// # Errors
///
/// The first one but for a node that is not there or may not be read.
pub(super) async fn ask_all<Node: Sync, T, Answer: Future<Output = ReadAnswer<T>> + Send>(
    link: &Arc<SessionLink>,
    shown: &str,
    nodes: &[Node],
    request: impl Fn(&Node) -> ZkRequest + Send,
    answer: impl Fn(ClientCall) -> Answer + Send,
) -> Result<Vec<ReadAnswer<T>>, ClientError> {
    let mut answers = Vec::with_capacity(nodes.len());
    for batch in nodes.chunks(READS_AT_ONCE_MAX) {
        let calls: Vec<ClientCall> = batch.iter().map(|node| link.call(&request(node), shown)).collect();
        for call in calls {
            match answer(call).await {
                Err(error) if !error.is(ErrorCode::NoNode) && !error.is(ErrorCode::NoAuth) => return Err(error),
                said => answers.push(said),
            }
        }
    }
    Ok(answers)
}

pub(super) async fn token_of(
    link: &Arc<SessionLink>,
    path: &QueuePath,
    id: &str,
    data: &[u8],
    stat: &Stat,
) -> Result<Option<FencingToken>, ClientError> {
    let data = ContenderData::read(data);
    let own = own_token(data.as_ref(), stat);
    let ChildName::Contender { mode: Mode::Read, sequence, .. } = ChildName::read(id) else {
        return Ok(own);
    };
    if data.is_some_and(|data| data.shares_place()) {
        return Ok(own);
    }
    // A contender of another client may stand in a writer's place without saying so.
    let is_its_writer = |name: &String| {
        matches!(
            ChildName::read(name),
            ChildName::Contender { mode: Mode::Write | Mode::Exclusive, sequence: number, .. } if number == sequence
        )
    };
    let Some(writer) = children(link, &path.on_server(), path.shown()).await?.into_iter().find(is_its_writer) else {
        return Ok(own);
    };
    let request = ZkRequest::GetData { path: path.child_on_server(&writer), watch: false };
    let Some((data, stat)) = if_there(link.call(&request, path.shown()).data().await)? else {
        return Ok(own);
    };
    let contender = Contender { id: ContenderId::new(writer), ticket: None, mode: Mode::Write };
    Ok(describe(&contender, &data, &stat).token)
}

/// Lists a node's children after a sync; none if there is no such node, and locks can be had.
pub(super) async fn children(link: &Arc<SessionLink>, path: &str, shown: &str) -> Result<Vec<String>, ClientError> {
    let mut attempt = 1;
    loop {
        let list = ZkRequest::GetChildren { path: path.to_owned(), watch: false };
        let listed = async { link.call_synced(path, &list, shown).ready().await?.children().await };
        match if_there(listed.await) {
            Err(error) if error.kind() == ClientErrorKind::ConnectionLost && attempt < ATTEMPTS_MAX => attempt += 1,
            Ok(None) => return require_fit(link).await.map(|()| Vec::new()),
            children => return children.map(Option::unwrap_or_default),
        }
    }
}

struct LockNode {
    node: String,
    data: Bytes,
    children: i32,
}

/// Names the locks below the base in which a contender stands, each once. Locks at other paths are not among them.
pub(super) async fn queues(link: &Arc<SessionLink>, config: &Config, prefix: &str) -> Result<Vec<QueueName>> {
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

async fn read_all(
    link: &Arc<SessionLink>,
    nodes: &[String],
    path_of: impl Fn(&str) -> String + Sync,
    shown: &str,
) -> Result<Vec<LockNode>, ClientError> {
    let read = |node: &String| ZkRequest::GetData { path: path_of(node), watch: false };
    let said = ask_all(link, shown, nodes, read, ClientCall::data).await?;
    let found = nodes.iter().zip(said).filter_map(|(node, said)| {
        let (data, stat) = said.ok()?;
        (stat.num_children > 0).then(|| LockNode { node: node.clone(), data, children: stat.num_children })
    });
    Ok(found.collect())
}

/// Leaves out the nodes whose only children are the parts of a semaphore without contenders.
async fn leave_out_empty_semaphores(
    link: &Arc<SessionLink>,
    found: &mut Vec<LockNode>,
    path_of: impl Fn(&str) -> String,
    shown: &str,
) -> Result<(), ClientError> {
    let parts = [CURATOR_WAITERS, CURATOR_PERMITS];
    let exists = |found: &LockNode| {
        let path = path_of(&found.node);
        let few = usize::try_from(found.children).is_ok_and(|children| children <= parts.len());
        few.then(|| {
            parts.map(|part| link.call(&ZkRequest::Exists { path: format!("{path}/{part}"), watch: false }, shown))
        })
    };
    let calls: Vec<Option<[ClientCall; 2]>> = found.iter().map(exists).collect();
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
