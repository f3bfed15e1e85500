//! Reads all queues below the base, with the contenders in them. Reads only, many at a time.

use std::sync::Arc;

use lockkeeper_core::{Part, QueueName};
use lockkeeper_zk_proto::message::{ErrorCode, Stat, ZkRequest};

use crate::config::Config;
use crate::error::ClientError;
use crate::layout::{CURATOR_PERMITS, CURATOR_WAITERS, ChildName, ForeignPolicy, Layout};
use crate::link::{ClientCall, SessionLink};
use crate::lock::inspect::{ask_all, children, name_of};
use crate::queue::{bare_permits, read_queue};

#[derive(Debug, Default)]
pub(super) struct Census {
    pub(super) locks: Vec<CensusLock>,
    pub(super) unreadable: Vec<String>,
    /// Whether the base is the root, below which other programs have their nodes too.
    pub(super) is_at_root: bool,
}

#[derive(Debug)]
pub(super) struct CensusLock {
    pub(super) name: Option<QueueName>,
    /// Its own queue, and the queues of a semaphore below it.
    pub(super) queues: Vec<CensusQueue>,
    /// Whether there are nodes below it that belong to none of its queues.
    pub(super) has_others: bool,
}

#[derive(Debug)]
pub(super) struct CensusQueue {
    pub(super) node: CensusNode,
    pub(super) part: Part,
    pub(super) contenders: Vec<CensusNode>,
    /// Nodes with names that an unknown client may have given to contenders.
    pub(super) foreign: Vec<CensusNode>,
}

#[derive(Clone, Debug)]
pub(super) struct CensusNode {
    /// Its path as the server knows it.
    pub(super) path: String,
    pub(super) name: String,
    pub(super) data: Vec<u8>,
    pub(super) stat: Stat,
}

pub(super) async fn count(link: &Arc<SessionLink>, config: &Config) -> Result<Census, ClientError> {
    let base = link.chroot.join(&config.base);
    let mut census = Census { is_at_root: config.base.is_root(), ..Census::default() };
    let reader = CensusReader { link, shown: config.base.as_str(), layout: config.naming.layout };
    for lock in reader.read_below(base.as_str(), &mut census).await? {
        // A node that lives with a session is no queue, and the server's own are not ours to look into.
        if lock.stat.ephemeral_owner == 0 && lock.path != "/zookeeper" {
            reader.read_lock(lock, &mut census).await?;
        }
    }
    Ok(census)
}

struct CensusReader<'a> {
    link: &'a Arc<SessionLink>,
    shown: &'a str,
    layout: Layout,
}

impl CensusReader<'_> {
    async fn read_lock(&self, node: CensusNode, census: &mut Census) -> Result<(), ClientError> {
        let is_readable = census.unreadable.len();
        let below = self.read_children(&node, census).await?;
        let name = name_of(&node.name, &node.data, self.layout);
        let part_of = |child: &CensusNode| match (self.layout, child.name.as_str()) {
            (Layout::Curator, CURATOR_WAITERS) => Some(Part::Waiters),
            (Layout::Curator, CURATOR_PERMITS) => Some(Part::Permits),
            _ => None,
        };
        let (parts, below): (Vec<_>, Vec<_>) =
            below.into_iter().partition(|child| child.stat.ephemeral_owner == 0 && part_of(child).is_some());
        let (line, others) = self.queue(node, Part::Line, below);
        let mut lock = CensusLock { name, queues: vec![line], has_others: others > 0 };
        for part in parts {
            let kind = part_of(&part).unwrap_or_default();
            let below = self.read_children(&part, census).await?;
            let (queue, others) = self.queue(part, kind, below);
            lock.has_others |= others > 0;
            lock.queues.push(queue);
        }
        // What cannot be seen may be anything.
        lock.has_others |= census.unreadable.len() > is_readable;
        census.locks.push(lock);
        Ok(())
    }

    /// Sorts the children of a queue, and counts all but contenders and their look-alikes.
    fn queue(&self, node: CensusNode, part: Part, children: Vec<CensusNode>) -> (CensusQueue, usize) {
        let names: Vec<String> = children.iter().map(|child| child.name.clone()).collect();
        let reading = read_queue(&names, part, self.layout, ForeignPolicy::Ignore);
        let permits = if self.layout == Layout::Kazoo { bare_permits(&names) } else { Vec::new() };
        let stands = |name: &str| {
            let mut known = reading.contenders.iter().chain(&permits);
            known.any(|contender| contender.id.as_str() == name)
        };
        let mut queue = CensusQueue { node, part, contenders: Vec::new(), foreign: Vec::new() };
        let mut others = 0;
        for child in children {
            if stands(&child.name) {
                queue.contenders.push(child);
            } else if matches!(ChildName::read(&child.name), ChildName::Foreign { .. }) {
                queue.foreign.push(child);
            } else {
                others += 1;
            }
        }
        (queue, others)
    }

    async fn read_children(&self, node: &CensusNode, census: &mut Census) -> Result<Vec<CensusNode>, ClientError> {
        if node.stat.num_children == 0 {
            return Ok(Vec::new());
        }
        self.read_below(&node.path, census).await
    }

    /// Reads the children of a node, without those gone by then.
    async fn read_below(&self, path: &str, census: &mut Census) -> Result<Vec<CensusNode>, ClientError> {
        let names = match children(self.link, path, self.shown).await {
            Err(error) if error.is(ErrorCode::NoAuth) => {
                census.unreadable.push(path.to_owned());
                return Ok(Vec::new());
            }
            names => names?,
        };
        let path_of = |name: &str| if path == "/" { format!("/{name}") } else { format!("{path}/{name}") };
        let read = |name: &String| ZkRequest::GetData { path: path_of(name), watch: false };
        let said = ask_all(self.link, self.shown, &names, read, ClientCall::data).await?;
        let mut nodes = Vec::with_capacity(names.len());
        for (name, said) in names.into_iter().zip(said) {
            let path = path_of(&name);
            match said {
                Ok((data, stat)) => nodes.push(CensusNode { path, name, data: data.into(), stat }),
                Err(error) if error.is(ErrorCode::NoAuth) => census.unreadable.push(path),
                Err(_) => {}
            }
        }
        Ok(nodes)
    }
}
