//! The nodes of a join: the wanted ones, the made ones, and their parents.

use std::sync::Arc;

use lockkeeper_core::{Entry, Error, ErrorKind, Lifetime, Mode, Operation, QueueName, Rank, Result, Ticket};
use lockkeeper_zk_proto::message::{Acl, Create, CreateMode, ErrorCode, MultiOperation, ZkRequest};

use crate::error::ClientError;
use crate::link::ClientCall;
use crate::lock::owner::ContenderData;
use crate::lock::paths::QueuePath;
use crate::lock::place::NodePlace;
use crate::lock::queue_data;
use crate::lock::session_core::SessionCore;
use crate::lock::shared_list::QueueListing;

pub(super) struct WantedNode {
    pub(super) ticket: Ticket,
    pub(super) turn: u32,
    pub(super) create: Create,
    /// The place of ours that it shares, and that must be there when it is made.
    pub(super) anchor: Option<Arc<NodePlace>>,
}

impl WantedNode {
    /// Says which node an entry asks for; `turn` tells it from the others of its transaction.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`], permanent, for anything but a read that is to share another's place;
    /// [`ErrorKind::Removed`] if that contender is gone, or is not ours.
    pub(super) fn of(
        inner: &SessionCore,
        queue: &QueueName,
        path: &QueuePath,
        entry: &Entry,
        turn: u32,
    ) -> Result<Self> {
        let anchor = match &entry.rank {
            Rank::Tail => None,
            Rank::With(_) if entry.mode != Mode::Read => {
                let message = "only a read can share the place of another contender here";
                return Err(Error::permanent(ErrorKind::Unsupported, Operation::Join, message).at(queue));
            }
            Rank::With(id) => {
                let found = inner.place_of(id).map(|(_, place)| place);
                Some(found.filter(|place| place.queue == *queue && place.bond.stands()).ok_or_else(|| {
                    let message = "the contender whose place was to be shared is gone";
                    Error::permanent(ErrorKind::Removed, Operation::Join, message).at(queue)
                })?)
            }
        };
        let name = match &anchor {
            None => inner.naming.at_tail(entry.ticket, entry.mode, queue.part()),
            Some(anchor) => inner.naming.beside(entry.ticket, anchor.sequence),
        };
        let mode = match (&entry.lifetime, name.is_sequential) {
            (Lifetime::Session, true) => CreateMode::EphemeralSequential,
            (Lifetime::Session, false) => CreateMode::Ephemeral,
            (Lifetime::Persistent { .. }, true) => CreateMode::PersistentSequential,
            (Lifetime::Persistent { .. }, false) => CreateMode::Persistent,
        };
        let shared = anchor.as_ref().map(|anchor| anchor.token);
        let data = ContenderData::of(entry, inner.link.clock.unix_time(), shared, turn).to_bytes();
        let path = path.child_on_server(&name.text);
        let create = Create { path, data: Some(data.into()), acl: inner.acl.clone(), mode };
        Ok(Self { ticket: entry.ticket, turn, create, anchor })
    }

    pub(super) fn outlives_session(&self) -> bool {
        !self.create.mode.is_ephemeral()
    }

    /// What makes it, in a transaction: only while the contender whose place it shares is there.
    pub(super) fn operations(&self) -> impl Iterator<Item = MultiOperation> {
        let check = |anchor: &Arc<NodePlace>| MultiOperation::Check { path: anchor.on_server(), version: -1 };
        let create = MultiOperation::Create2(self.create.clone());
        self.anchor.as_ref().map(check).into_iter().chain(std::iter::once(create))
    }
}

pub(super) fn request(wanted: &[WantedNode]) -> ZkRequest {
    match wanted {
        // A single node is answered with a Stat by every server.
        [one] if one.anchor.is_none() => ZkRequest::Create2(one.create.clone()),
        all => ZkRequest::Multi(all.iter().flat_map(WantedNode::operations).collect()),
    }
}

/// Our nodes, in the order in which they were asked for.
pub(super) struct Made {
    pub(super) nodes: Vec<MadeNode>,
    /// The queue with our nodes in it, if it was listed on the same connection.
    pub(super) listing: Option<Arc<QueueListing>>,
}

pub(super) struct MadeNode {
    pub(super) name: String,
    pub(super) czxid: i64,
    /// The session that it belongs to, if the answer said so.
    pub(super) ephemeral_owner: Option<i64>,
}

impl MadeNode {
    pub(super) fn of(path: &str, czxid: i64, ephemeral_owner: Option<i64>) -> Self {
        let name = path.rsplit('/').next().unwrap_or_default().to_owned();
        Self { name, czxid, ephemeral_owner }
    }
}

impl SessionCore {
    /// Sends the creation of those of these nodes that this session has not seen; they are a queue's own and those
    /// above it, from the top. Tells whether that is all of them.
    pub(super) fn make_parents(
        &self,
        queue: &QueueName,
        path: &QueuePath,
        nodes: Vec<String>,
    ) -> (Vec<ClientCall>, bool) {
        let (all, named_at) = (nodes.len(), path.named_at());
        let make = |(at, node): (usize, String)| {
            let data = if at == named_at { queue_data::initial(queue) } else { Vec::new() };
            let acl = if at < named_at { vec![Acl::open()] } else { self.acl.clone() };
            let create = Create { path: node, data: Some(data.into()), acl, mode: CreateMode::Container };
            self.link.call(&ZkRequest::CreateContainer(create), path.shown())
        };
        let parents: Vec<_> = self.unseen(nodes).into_iter().map(make).collect();
        let is_whole = parents.len() == all;
        (parents, is_whole)
    }
}

/// Returns why the last parent could not be made, if it could not, and is not there either.
///
/// The nodes above it may be refused for want of a right and exist nevertheless; the last one's parent is then missing.
pub(super) async fn refusal_of(parents: Vec<ClientCall>) -> Option<ClientError> {
    let mut refusal = None;
    for parent in parents {
        match parent.response().await {
            Ok(_) => refusal = None,
            Err(error) if error.is(ErrorCode::NodeExists) => refusal = None,
            // The first refusal is the cause of those below it.
            Err(error) => {
                refusal.get_or_insert(error);
            }
        }
    }
    refusal
}
