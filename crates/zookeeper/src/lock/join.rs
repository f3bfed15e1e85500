//! Taking places: the nodes are made and the queue listed in one round trip.
//!
//! The requests leave in one segment, and a session's requests are answered in their order, so the list shows the new
//! nodes. When an answer is lost, the nodes are looked for by their tickets under the same session; a node of another
//! session is never taken for ours. Several places are one transaction: all of them are found, or none.

use std::sync::Arc;

use lockkeeper_core::{
    Advice, Enqueued, Entry, Error, ErrorKind, Lifetime, Mode, Operation, QueueName, Rank, Result, Ticket,
};
use lockkeeper_zk_proto::message::{
    Acl, Create, CreateMode, ErrorCode, MultiOperation, MultiResult, OpCode, ZkRequest, ZkResponse,
};

use crate::error::{ClientError, ClientErrorKind};
use crate::layout::find_ticket;
use crate::link::{CallAnswer, ClientCall, if_there};
use crate::lock::owner::ContenderData;
use crate::lock::paths::QueuePath;
use crate::lock::place::NodePlace;
use crate::lock::queue_data;
use crate::lock::session_core::SessionCore;
use crate::lock::shared_list::{ListFreshness, ListShare, QueueListing};

/// How often a join is begun anew: because the queue's node was not there, vanished in between, or the connection
/// broke.
const ATTEMPTS_MAX: u32 = 8;

pub(super) struct QueueJoin {
    pub(super) inner: Arc<SessionCore>,
    pub(super) queue: QueueName,
    pub(super) path: QueuePath,
    pub(super) wanted: Vec<WantedNode>,
}

pub(super) struct JoinRequests {
    /// Making the node's parents, topmost first, as far as they are not known to be there.
    parents: Vec<ClientCall>,
    /// Whether all of them are made.
    is_whole: bool,
    make: ClientCall,
    list: ListShare,
}

/// Why an attempt failed.
enum JoinFailure {
    Request(ClientError),
    /// The contender whose place was to be shared is gone.
    AnchorGone,
}

impl From<ClientError> for JoinFailure {
    fn from(error: ClientError) -> Self {
        Self::Request(error)
    }
}

impl QueueJoin {
    /// Notes the tickets and sends the first attempt.
    pub(super) fn begin(inner: Arc<SessionCore>, queue: &QueueName, entries: &[Entry]) -> Result<(Self, JoinRequests)> {
        let path = inner.path_of(queue)?;
        let wanted = |(entry, turn)| WantedNode::of(&inner, queue, &path, entry, turn);
        let wanted = entries.iter().zip(0..).map(wanted).collect::<Result<Vec<_>>>()?;
        inner.report_nesting(queue, &path);
        for wanted in &wanted {
            inner.places().begin(queue, wanted.ticket, wanted.outlives_session());
        }
        let join = Self { inner, queue: queue.clone(), path, wanted };
        let sent = join.send();
        Ok((join, sent))
    }

    /// Sends an attempt in one segment: the creation of those parents that this session has not seen yet, of our nodes,
    /// and a list, unless one is under way that can be put off behind them. So a first join takes one round trip too,
    /// and joins stand in the order of their calls. A single node is made in one transaction with places of this
    /// session that are just being left, unless many of its contenders wait.
    fn send(&self) -> JoinRequests {
        let link = &self.inner.link;
        let (parents, is_whole) = self.inner.make_parents(&self.queue, &self.path, self.path.with_parents_on_server());
        let request = request(&self.wanted);
        // Where others of this session wait, the next of them is granted the lock by the deletion, so nothing is to be
        // done along with that.
        let make = match link.is_crowded() {
            true => link.call(&request, self.path.shown()),
            false => link.call_creation(&request, self.path.shown()),
        };
        JoinRequests {
            parents,
            is_whole,
            make,
            list: self.inner.send_list(&self.path, self.queue.part(), ListFreshness::Behind),
        }
    }

    pub(super) async fn finish(self, sent: JoinRequests) -> Result<Vec<Enqueued>> {
        let made = match self.made(sent).await {
            Ok(made) => made,
            Err(error) => {
                self.forget_if_without_effect(&error);
                return Err(error);
            }
        };
        self.settle(made).await
    }

    /// A join that certainly had no effect leaves nothing to be withdrawn.
    fn forget_if_without_effect(&self, error: &Error) {
        if error.advice() != Advice::Unknown {
            for wanted in &self.wanted {
                self.inner.places().take(wanted.ticket);
            }
        }
    }

    async fn made(&self, mut sent: JoinRequests) -> Result<Made> {
        let mut trouble = None;
        for _ in 0..ATTEMPTS_MAX {
            let JoinRequests { parents, is_whole, make, list } = sent;
            let answer = make.await;
            let error = match self.read(answer, &list).await {
                Ok(made) => {
                    self.inner.note_seen(self.path.with_parents_on_server());
                    return Ok(made);
                }
                Err(JoinFailure::AnchorGone) => return Err(self.anchor_gone()),
                Err(JoinFailure::Request(error)) => error,
            };
            // A caller that withdrew a ticket meanwhile must not find another node made after it.
            if !self.wanted.iter().all(|wanted| self.inner.places().is_open(wanted.ticket)) {
                return Err(self.withdrawn());
            }
            if error.is(ErrorCode::NoNode) {
                if is_whole && let Some(refusal) = refusal_of(parents).await {
                    return Err(self.explain(refusal));
                }
                self.inner.note_vanished(&self.path.with_parents_on_server());
                sent = self.send();
            } else if error.kind() == ClientErrorKind::ConnectionLost {
                // A server closes the connection on an operation that it does not know.
                let refusal = refusal_of(parents).await.filter(|refusal| refusal.is(ErrorCode::Unimplemented));
                if let Some(refusal) = refusal {
                    return Err(self.fail(refusal));
                }
                match self.find().await? {
                    Some(made) => return Ok(made),
                    None => sent = self.send(),
                }
            } else {
                return Err(self.explain(error));
            }
            trouble = Some(error);
        }
        let message = format!("the queue's node was not there, or the connection broke, {ATTEMPTS_MAX} times over");
        let error = Error::transient(ErrorKind::ConnectionLost, Operation::Join, message).at(&self.queue);
        Err(trouble.into_iter().fold(error, |error, trouble| error.caused_by(trouble)))
    }

    async fn read(&self, made: CallAnswer, list: &ListShare) -> Result<Made, JoinFailure> {
        let nodes = match made.result? {
            ZkResponse::Create2 { path, stat } => vec![MadeNode::of(&path, stat.czxid, Some(stat.ephemeral_owner))],
            // Servers before 3.8.2 send no Stat here; the transaction is the one that the answer is about.
            ZkResponse::Multi(results) => self.read_transaction(&results, made.zxid)?,
            _ => return Err(ClientError::unexpected(OpCode::Create2, self.path.shown()).into()),
        };
        if nodes.len() != self.wanted.len() {
            return Err(ClientError::unexpected(OpCode::Multi, self.path.shown()).into());
        }
        let listing = list.listing().await.ok().filter(|listing| listing.epoch == made.epoch);
        Ok(Made { nodes, listing })
    }

    fn read_transaction(&self, results: &[MultiResult], zxid: i64) -> Result<Vec<MadeNode>, JoinFailure> {
        let mut nodes = Vec::with_capacity(self.wanted.len());
        let operations = self.wanted.iter().flat_map(WantedNode::operations);
        for (operation, result) in operations.zip(results) {
            match (operation, result) {
                (_, MultiResult::Error(ErrorCode::Ok | ErrorCode::RuntimeInconsistency)) => {}
                (MultiOperation::Check { .. }, MultiResult::Error(ErrorCode::NoNode)) => {
                    return Err(JoinFailure::AnchorGone);
                }
                (_, MultiResult::Error(code)) => {
                    return Err(ClientError::of_refusal(*code, OpCode::Multi, self.path.shown()).into());
                }
                (_, MultiResult::Create { path } | MultiResult::Create2 { path, .. }) => {
                    nodes.push(MadeNode::of(path, zxid, None));
                }
                _ => {}
            }
        }
        Ok(nodes)
    }

    /// Looks for our nodes by their tickets; `None` if the lost request certainly had no effect.
    ///
    /// The sync makes that certain: the session's requests are taken in their order, and no request of a connection
    /// that was left behind is taken after the session has moved.
    async fn find(&self) -> Result<Option<Made>> {
        let part = self.queue.part();
        let look = self.inner.send_list(&self.path, part, ListFreshness::Synced);
        let listing = self.inner.look(&self.path, part, look).await.map_err(|error| self.fail_unknown(error))?;
        let children = listing.children.as_deref().unwrap_or_default();
        let name_of = |wanted: &WantedNode| find_ticket(children, wanted.ticket).cloned();
        let names: Vec<_> = self.wanted.iter().filter_map(name_of).collect();
        if names.is_empty() {
            return Ok(None);
        }
        if names.len() < self.wanted.len() {
            // They were made together, so another client has removed some.
            return Err(self.removed());
        }
        let exists = |name: &String| {
            let request = ZkRequest::Exists { path: self.path.child_on_server(name), watch: false };
            self.inner.link.call(&request, self.path.shown())
        };
        let calls: Vec<_> = names.iter().map(exists).collect();
        let mut nodes = Vec::with_capacity(names.len());
        for (name, call) in names.into_iter().zip(calls) {
            let stat = if_there(call.stat().await).map_err(|error| self.fail_unknown(error))?;
            let stat = stat.ok_or_else(|| self.removed())?;
            nodes.push(MadeNode { name, czxid: stat.czxid, ephemeral_owner: Some(stat.ephemeral_owner) });
        }
        Ok(Some(Made { nodes, listing: Some(listing) }))
    }

    /// Says why the queue's node, or ours in it, could not be made.
    fn explain(&self, refusal: ClientError) -> Error {
        if refusal.is(ErrorCode::NoChildrenForEphemerals) {
            let path = self.path.shown();
            let message = format!(
                "{path}, or a node above it, is ephemeral: another program's lock of one node, below which no queue \
                 can be; lock another path"
            );
            let error = Error::permanent(ErrorKind::ForeignContender, Operation::Join, message);
            return error.at(&self.queue).caused_by(refusal);
        }
        match refusal.is(ErrorCode::NoNode) && self.path.has_chroot() {
            true => self.fail(ClientError::no_chroot(self.path.chroot())),
            false => self.fail(refusal),
        }
    }

    pub(super) fn fail(&self, error: ClientError) -> Error {
        self.inner.fail(error, Operation::Join, &self.queue)
    }

    /// A failure to find out whether our nodes were made.
    fn fail_unknown(&self, error: ClientError) -> Error {
        let failed = self.fail(error.clone());
        match failed.advice() {
            Advice::Transient if !matches!(failed.kind(), ErrorKind::Lost(_)) => {
                Error::unknown(failed.kind(), Operation::Join, "").at(&self.queue).caused_by(error)
            }
            _ => failed,
        }
    }

    pub(super) fn withdrawn(&self) -> Error {
        self.gone("the ticket was withdrawn while it was being sent")
    }

    /// Unknown, so that the remaining ones of several are withdrawn too.
    fn removed(&self) -> Error {
        let message = "our contender was removed from the queue";
        match self.wanted.len() {
            1 => self.gone(message),
            _ => Error::unknown(ErrorKind::Removed, Operation::Join, message).at(&self.queue),
        }
    }

    fn anchor_gone(&self) -> Error {
        self.gone("the contender whose place was to be shared is gone")
    }

    fn gone(&self, message: &str) -> Error {
        Error::permanent(ErrorKind::Removed, Operation::Join, message).at(&self.queue)
    }
}

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

fn request(wanted: &[WantedNode]) -> ZkRequest {
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
