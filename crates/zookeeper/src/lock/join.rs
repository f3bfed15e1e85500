//! Taking a place: the node is made and the queue listed in one round trip.
//!
//! The two requests leave in one segment, and a session's requests are answered in their order, so the list shows the new
//! node. When an answer is lost, the node is looked for by its ticket under the same session; a node of another session is
//! never taken for ours.

use std::sync::Arc;

use lockkeeper_core::{
    Advice, ContenderId, Enqueued, Entry, Error, ErrorKind, FencingToken, LossReason, Operation, QueueName, Result,
    Ticket,
};
use lockkeeper_zk_proto::message::{
    Acl, Create, CreateMode, ErrorCode, MultiOperation, MultiResult, OpCode, Request, Response, Stat,
};

use crate::error::{ClientError, ClientErrorKind};
use crate::layout::Named;
use crate::link::{Answer, Call};
use crate::lock::owner;
use crate::lock::paths::QueuePath;
use crate::lock::place::{Place, PlaceStanding};
use crate::lock::session::{Inner, Listing};
use crate::lock::withdraw;

/// How often a join is begun anew: because the queue's node was not there, vanished in between, or the connection broke.
const ATTEMPTS_MAX: u32 = 8;

/// The first sequence number at which joining is refused: the counter sticks at 2147483647, and orders nothing from there.
const SEQUENCE_REFUSED: i32 = i32::MAX - (1 << 20);

/// A join under way.
pub(super) struct Join {
    inner: Arc<Inner>,
    queue: QueueName,
    path: QueuePath,
    ticket: Ticket,
    create: Create,
}

/// The requests of one attempt.
pub(super) struct Sent {
    /// Making the node's parents, topmost first, as far as they are not known to be there.
    parents: Vec<Call>,
    /// Whether all of them are made.
    is_whole: bool,
    create: Call,
    list: Call,
}

/// Our node, as it was made or found.
struct Made {
    name: String,
    stat: Stat,
    /// The queue with our node in it, if it was listed on the same connection.
    listing: Option<Listing>,
}

impl Join {
    /// Notes the ticket and sends the first attempt.
    pub(super) fn begin(inner: Arc<Inner>, queue: &QueueName, entry: &Entry) -> Result<(Self, Sent)> {
        let path = inner.path_of(queue)?;
        let prefix = inner.layout.prefix(entry.ticket, entry.mode);
        let create = Create {
            path: path.child_on_server(&prefix),
            data: Some(owner::contender_data(&entry.owner, inner.link.clock().unix_time()).into()),
            acl: vec![Acl::open()],
            mode: CreateMode::EphemeralSequential,
        };
        inner.report_nesting(queue, &path);
        inner.places().begin(entry.ticket);
        let join = Self { inner, queue: queue.clone(), path, ticket: entry.ticket, create };
        let sent = join.send();
        Ok((join, sent))
    }

    /// Sends an attempt in one segment: the makings of those parents that this session has not seen yet, of our node, and
    /// a list. So a first join takes one round trip too, and joins stand in the order of their calls.
    fn send(&self) -> Sent {
        let link = &self.inner.link;
        let paths = self.path.with_parents_on_server();
        let (all, queue_at) = (paths.len(), paths.len().saturating_sub(1));
        let unseen = self.inner.unseen(paths);
        let is_whole = unseen.len() == all;
        let make = |(at, path): (usize, String)| {
            let data = if at == queue_at { owner::queue_data(&self.queue) } else { Vec::new() };
            let create = Create { path, data: Some(data.into()), acl: vec![Acl::open()], mode: CreateMode::Container };
            link.call(&Request::CreateContainer(create), self.path.shown())
        };
        let parents = unseen.into_iter().map(make).collect();
        let create = link.call(&Request::Create2(self.create.clone()), self.path.shown());
        let list = Request::GetChildren { path: self.path.on_server(), watch: false };
        Sent { parents, is_whole, create, list: link.call(&list, self.path.shown()) }
    }

    /// Goes on until the place is had, or cannot be.
    pub(super) async fn finish(self, sent: Sent) -> Result<Enqueued> {
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
            self.inner.places().take(self.ticket);
        }
    }

    async fn made(&self, mut sent: Sent) -> Result<Made> {
        let mut trouble = None;
        for _ in 0..ATTEMPTS_MAX {
            let Sent { parents, is_whole, create, list } = sent;
            let answer = create.await;
            let error = match self.read(answer, list).await {
                Ok(made) => {
                    self.inner.note_seen(self.path.with_parents_on_server());
                    return Ok(made);
                }
                Err(error) => error,
            };
            // Whoever withdrew the ticket meanwhile must not find another node made after it.
            if !self.inner.places().is_open(self.ticket) {
                return Err(self.withdrawn());
            }
            if error.is(ErrorCode::NoNode) {
                if is_whole && let Some(refusal) = refusal_of(parents).await {
                    return Err(self.explain(refusal));
                }
                self.inner.note_vanished(&self.path.with_parents_on_server());
                sent = self.send();
            } else if error.kind() == ClientErrorKind::ConnectionLost {
                match self.find().await? {
                    Some(made) => return Ok(made),
                    None => sent = self.send(),
                }
            } else {
                return Err(self.fail(error));
            }
            trouble = Some(error);
        }
        let message = format!("the queue's node was not there, or the connection broke, {ATTEMPTS_MAX} times over");
        let error = Error::transient(ErrorKind::ConnectionLost, Operation::Join, message).at(&self.queue);
        Err(trouble.into_iter().fold(error, |error, trouble| error.caused_by(trouble)))
    }

    /// Reads the answers of one attempt.
    async fn read(&self, created: Answer, list: Call) -> Result<Made, ClientError> {
        let Response::Create2 { path, stat } = created.result? else {
            return Err(ClientError::unexpected(OpCode::Create2, self.path.shown()));
        };
        let name = path.rsplit('/').next().unwrap_or_default().to_owned();
        let listing = Listing::read(list.await).ok().filter(|listing| listing.epoch == created.epoch);
        Ok(Made { name, stat, listing })
    }

    /// Looks for our node by its ticket; `None` if the lost request certainly had no effect.
    ///
    /// The sync makes that certain: the session's requests are taken in their order, and none of a connection that was
    /// left behind is taken after the session has moved.
    async fn find(&self) -> Result<Option<Made>> {
        let look = self.inner.send_look(&self.path);
        let listing = self.inner.look(&self.path, look).await.map_err(|error| self.fail_unknown(error))?;
        let prefix = self.inner.layout.ticket_prefix(self.ticket);
        let found = listing.children.iter().flatten().find(|name| name.starts_with(&prefix));
        let Some(name) = found.cloned() else {
            return Ok(None);
        };
        let path = self.path.child_on_server(&name);
        let exists = self.inner.link.call(&Request::Exists { path, watch: false }, self.path.shown());
        match exists.response().await {
            Ok(Response::Stat(stat)) => Ok(Some(Made { name, stat, listing: Some(listing) })),
            Ok(_) => Err(self.fail_unknown(ClientError::unexpected(OpCode::Exists, self.path.shown()))),
            Err(error) if error.is(ErrorCode::NoNode) => Err(self.removed()),
            Err(error) => Err(self.fail_unknown(error)),
        }
    }

    /// Makes a place of our node, and waits until it may be believed.
    async fn settle(self, made: Made) -> Result<Enqueued> {
        let Made { name, stat, listing } = made;
        let Named::Contender { sequence, .. } = Named::read(&name) else {
            return Err(self.fail(ClientError::unexpected(OpCode::Create2, self.path.shown())));
        };
        let id = ContenderId::new(name);
        let now = self.inner.link.clock().now();
        let place = Place::new(self.queue.clone(), self.path.clone(), id.clone(), sequence, now);
        let place = Arc::new(place);
        if !self.inner.places().place(self.ticket, place.clone()) {
            withdraw::delete(&self.inner, &place);
            return Err(self.withdrawn());
        }
        self.inner.expect_prover();
        self.check(sequence, &stat)?;
        let listing = match listing {
            Some(listing) => listing,
            None => {
                let look = self.inner.send_look(&self.path);
                self.inner.look(&self.path, look).await.map_err(|error| self.fail(error))?
            }
        };
        let view = self.inner.view(&self.queue, listing, Operation::Join)?;
        let token = u64::try_from(stat.czxid).ok().and_then(|grant| FencingToken::new(grant, 0));
        let token = token.ok_or_else(|| self.fail(ClientError::unexpected(OpCode::Create2, self.path.shown())))?;
        until_believable(&self.inner, &place, Operation::Join).await?;
        self.inner.link.depend();
        if !self.inner.places().stand(self.ticket) {
            self.inner.link.depend_no_more();
            return Err(self.withdrawn());
        }
        let standing = Arc::new(PlaceStanding::new(self.inner.clone(), place));
        Ok(Enqueued { id, token, view, standing })
    }

    fn check(&self, sequence: i32, stat: &Stat) -> Result<()> {
        if Some(stat.ephemeral_owner) != self.inner.link.session_id() {
            let message = "the service made our node for another session than ours";
            return Err(Error::permanent(ErrorKind::Backend, Operation::Join, message).at(&self.queue));
        }
        if !(0..SEQUENCE_REFUSED).contains(&sequence) {
            let message = format!(
                "the queue's node has counted {sequence} children, and order ends near 2147483647; delete the node {} \
                 while nobody uses it, and it starts anew",
                self.path.shown()
            );
            return Err(Error::permanent(ErrorKind::LimitReached, Operation::Join, message).at(&self.queue));
        }
        Ok(())
    }

    /// Says why the queue's node could not be made.
    fn explain(&self, refusal: ClientError) -> Error {
        if refusal.is(ErrorCode::NoNode) && self.path.has_chroot() {
            let message = format!("the chroot {} does not exist", self.path.chroot());
            let error = Error::permanent(ErrorKind::InvalidConfig, Operation::Join, message);
            return error.at(&self.queue).caused_by(refusal);
        }
        self.fail(refusal)
    }

    fn fail(&self, error: ClientError) -> Error {
        self.inner.fail(error, Operation::Join, &self.queue)
    }

    /// A failure to find out whether our node was made.
    fn fail_unknown(&self, error: ClientError) -> Error {
        let failed = self.fail(error.clone());
        match failed.advice() {
            Advice::Transient if !matches!(failed.kind(), ErrorKind::Lost(_)) => {
                Error::unknown(failed.kind(), Operation::Join, "").at(&self.queue).caused_by(error)
            }
            _ => failed,
        }
    }

    fn withdrawn(&self) -> Error {
        let message = "the ticket was withdrawn while it was being sent";
        Error::permanent(ErrorKind::Removed, Operation::Join, message).at(&self.queue)
    }

    fn removed(&self) -> Error {
        let message = "somebody removed our contender from the queue";
        Error::permanent(ErrorKind::Removed, Operation::Join, message).at(&self.queue)
    }
}

/// Returns why the last parent could not be made, if it could not, and is not there either.
///
/// Those above it may be refused for want of a right and be there all the same; the last one's parent is then missing.
async fn refusal_of(parents: Vec<Call>) -> Option<ClientError> {
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

/// Waits until the session may be believed for about half of its timeout, so that a grant is worth something: at once as a
/// rule, since the write that made a node proves as much as any other. After a stall it takes another write or two.
pub(super) async fn until_believable(inner: &Inner, place: &Place, operation: Operation) -> Result<()> {
    let clock = inner.link.clock();
    let timeout = inner.link.timeout();
    let give_up_at = clock.now().saturating_add(timeout);
    loop {
        if inner.safe_for() >= inner.link.worth_granting() {
            return Ok(());
        }
        let outcome = prove(inner, place).await;
        if inner.safe_for() >= inner.link.worth_granting() {
            return Ok(());
        }
        if let Err(error) = outcome
            && error.kind() == ClientErrorKind::SessionLost
        {
            return Err(inner.fail(error, operation, &place.queue));
        }
        if place.is_removed() || clock.now() >= give_up_at {
            return match inner.safe_for().is_zero() {
                true => Err(inner.lost(LossReason::Lapsed, operation, &place.queue)),
                false => Ok(()),
            };
        }
        // What was answered just now is proved by a write that is sent a little later.
        clock.sleep_until(clock.now().saturating_add(timeout / 20)).await;
    }
}

/// Sends a write that goes through the quorum and changes nothing, and waits for its answer.
async fn prove(inner: &Inner, place: &Place) -> Result<(), ClientError> {
    let call = inner.link.call(&proof_request(place), place.path.shown());
    let response = call.response().await;
    if finds_node_gone(&response) {
        place.remove();
    }
    response.map(|_| ())
}

/// The proof write: a transaction that only checks that a node of ours is there.
pub(super) fn proof_request(place: &Place) -> Request {
    Request::Multi(vec![MultiOperation::Check { path: place.on_server(), version: -1 }])
}

/// Whether the answer to a proof write says that the node is gone. The write has proved the session all the same.
pub(super) fn finds_node_gone(response: &Result<Response, ClientError>) -> bool {
    match response {
        Ok(Response::Multi(results)) => {
            results.iter().any(|result| matches!(result, MultiResult::Error(ErrorCode::NoNode)))
        }
        Ok(_) => false,
        Err(error) => error.is(ErrorCode::NoNode),
    }
}
