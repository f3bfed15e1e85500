//! A session as locks see it: what its parts share, and the waist's methods. Each way of doing something has its own file.

use std::collections::HashSet;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{
    BoxFuture, ContenderId, Departure, Enqueued, Entry, Error, ErrorKind, Liveness, LossReason, Operation, QueueName,
    QueueView, Result, Session, SessionBond, Ticket, Version, Withdrawal,
};
use lockkeeper_zk_proto::message::{ErrorCode, OpCode, Request, Response};
use lockkeeper_zk_proto::path::ZnodePath;
use tokio::sync::Notify;

use crate::client::Client;
use crate::config::Config;
use crate::error::{ClientError, ClientErrorKind};
use crate::layout::{ForeignPolicy, Layout, read_queue};
use crate::link::{Answer, Call, Link};
use crate::lock::paths::QueuePath;
use crate::lock::place::{Place, Places};
use crate::lock::prover::Prover;
use crate::lock::{departure, join, prover, withdraw};

/// How often a look is tried again because the connection was lost under it; each waits for the next connection.
const LOOK_ATTEMPTS_MAX: u32 = 4;

/// How many nodes are remembered as seen; at this number all are forgotten, which costs a few requests.
const SEEN_MAX: usize = 100_000;

/// How many queues are remembered as having been warned about.
const REPORTED_MAX: usize = 1_000;

/// What the parts of one session share. Whoever holds it does not keep the session alive.
pub(super) struct Inner {
    pub(super) link: Arc<Link>,
    pub(super) layout: Layout,
    foreign: ForeignPolicy,
    base: ZnodePath,
    places: Mutex<Places>,
    /// Wakes the prover.
    pub(super) kick: Arc<Notify>,
    /// When the prover will look by itself; [`u64::MAX`] if it will not, or is just looking.
    prover_wakes_at_nanos: AtomicU64,
    /// Nodes that this session has seen below which queues lie; they may have vanished since.
    seen: Mutex<HashSet<String>>,
    /// Queues in which something was passed over, each reported once.
    reported: Mutex<HashSet<QueueName>>,
}

impl Inner {
    /// Nothing panics while the places are locked, so what a panic elsewhere left here is whole.
    pub(super) fn places(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn path_of(&self, queue: &QueueName) -> Result<QueuePath> {
        QueuePath::of(queue, &self.base, self.link.chroot())
    }

    fn seen(&self) -> MutexGuard<'_, HashSet<String>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns those of a queue's own node and its parents that were not seen, each with its place from the top.
    pub(super) fn unseen(&self, paths: Vec<String>) -> Vec<(usize, String)> {
        let seen = self.seen();
        paths.into_iter().enumerate().filter(|(_, path)| !seen.contains(path)).collect()
    }

    /// Notes nodes that were there.
    pub(super) fn note_seen(&self, paths: Vec<String>) {
        let mut seen = self.seen();
        if paths.last().is_some_and(|queue| seen.contains(queue)) {
            return;
        }
        if seen.len() >= SEEN_MAX {
            seen.clear();
        }
        seen.extend(paths);
    }

    /// Notes that some of these are gone: the service deletes what has been empty for a while.
    pub(super) fn note_vanished(&self, paths: &[String]) {
        let mut seen = self.seen();
        for path in paths {
            seen.remove(path);
        }
    }

    /// Sends a sync and a list in one segment: they cost one round trip, and the list shows all that was acknowledged to
    /// anybody before.
    pub(super) fn send_look(&self, path: &QueuePath) -> Look {
        let on_server = path.on_server();
        let sync = self.link.call(&Request::Sync { path: on_server.clone() }, path.shown());
        let list = self.link.call(&Request::GetChildren { path: on_server, watch: false }, path.shown());
        Look { sync, list }
    }

    /// Lists a queue after a sync; `None` if its node is not there. A look whose connection was lost is made again.
    pub(super) async fn look(&self, path: &QueuePath, first: Look) -> Result<Listing, ClientError> {
        let mut look = first;
        for _ in 1..LOOK_ATTEMPTS_MAX {
            match look.listing().await {
                Err(error) if error.kind() == ClientErrorKind::ConnectionLost => look = self.send_look(path),
                listing => return listing,
            }
        }
        look.listing().await
    }

    /// Waits until it is known whether the session has outlived a node of ours that vanished: when the service ends a session,
    /// its nodes' watches fire first, and only then is the connection closed.
    pub(super) async fn outlive(&self, path: &QueuePath) {
        for _ in 0..LOOK_ATTEMPTS_MAX {
            let sync = self.link.call(&Request::Sync { path: path.on_server() }, path.shown());
            match sync.response().await {
                Err(error) if error.kind() == ClientErrorKind::ConnectionLost => {}
                _ => return,
            }
        }
    }

    /// Puts a list in order, and says what was passed over.
    pub(super) fn view(&self, queue: &QueueName, listing: Listing, operation: Operation) -> Result<QueueView> {
        let reading = read_queue(listing.children.unwrap_or_default(), self.foreign);
        if let Some(name) = reading.foreign {
            let message = format!(
                "`{name}` may be a contender of an unknown kind, so no order with it is certain; `?foreign=ignore` \
                 passes over such names, `?foreign=wait` waits for them"
            );
            return Err(Error::permanent(ErrorKind::ForeignContender, operation, message).at(queue));
        }
        if let Some(name) = reading.junk.first() {
            self.report_junk(queue, name, reading.junk.len());
        }
        Ok(QueueView::new(Version(listing.epoch), reading.contenders))
    }

    /// Warns of a queue that lies in another one's path.
    pub(super) fn report_nesting(&self, queue: &QueueName, path: &QueuePath) {
        if path.is_nested_below(&self.base) && self.is_news(queue) {
            tracing::warn!(target: "lockkeeper", lock = %queue, "lies in the path of another lock");
        }
    }

    /// Whether nothing was reported of this queue yet.
    fn is_news(&self, queue: &QueueName) -> bool {
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        reported.len() < REPORTED_MAX && reported.insert(queue.clone())
    }

    fn report_junk(&self, queue: &QueueName, name: &str, count: usize) {
        if self.is_news(queue) {
            tracing::warn!(target: "lockkeeper", lock = %queue, name, count, "passed over children that are no contenders");
        }
    }

    /// Says a failure in the words of locks.
    pub(super) fn fail(&self, error: ClientError, operation: Operation, queue: &QueueName) -> Error {
        let lost = match self.link.bond().liveness() {
            Liveness::Lost(reason) => Some(reason),
            Liveness::Held { .. } | Liveness::Jeopardy { .. } => None,
        };
        error.into_core(operation, lost).at(queue)
    }

    pub(super) fn lost(&self, reason: LossReason, operation: Operation, queue: &QueueName) -> Error {
        Error::transient(ErrorKind::Lost(reason), operation, reason.to_string()).at(queue)
    }

    /// How long the session can certainly be believed from now on.
    pub(super) fn safe_for(&self) -> Duration {
        let now = self.link.clock().now();
        self.link.safe_until().map_or(Duration::ZERO, |until| until.saturating_duration_since(now))
    }

    /// Asks the prover to look at what is due.
    pub(super) fn wake_prover(&self) {
        self.kick.notify_one();
    }

    /// Makes sure that the prover looks at a new place in time; most places are left before that.
    pub(super) fn expect_prover(&self) {
        let due = self.link.clock().now().saturating_add(prover::WATCH_AFTER);
        if self.prover_wakes_at_nanos.load(Ordering::SeqCst) > due.as_nanos() {
            self.wake_prover();
        }
    }

    /// Notes when the prover will look by itself; `None` if it will not.
    pub(super) fn prover_sleeps_until(&self, wakes_at: Option<BootInstant>) {
        self.prover_wakes_at_nanos.store(wakes_at.map_or(u64::MAX, BootInstant::as_nanos), Ordering::SeqCst);
    }

    /// Has the watch on a place's node set again as soon as can be.
    pub(super) fn rewatch(&self, place: Arc<Place>) {
        self.places().unwatched.push_front(place);
    }

    /// Finds the place of a contender of ours.
    pub(super) fn place_of(&self, id: &ContenderId) -> Option<(Ticket, Arc<Place>)> {
        let ticket = crate::layout::ticket_of(id.as_str())?;
        let place = self.places().find(ticket).filter(|place| place.id == *id).cloned()?;
        Some((ticket, place))
    }
}

/// A sync and a list under way.
#[derive(Debug)]
pub(super) struct Look {
    sync: Call,
    list: Call,
}

/// The children of a queue's node, as they were listed on one connection.
#[derive(Debug)]
pub(super) struct Listing {
    pub(super) epoch: u64,
    /// `None` if there is no such node.
    pub(super) children: Option<Vec<String>>,
}

impl Look {
    async fn listing(self) -> Result<Listing, ClientError> {
        self.sync.await.result?;
        Listing::read(self.list.await)
    }
}

impl Listing {
    /// Reads the answer to a list.
    pub(super) fn read(answer: Answer) -> Result<Self, ClientError> {
        let Answer { epoch, result } = answer;
        match result {
            Ok(Response::GetChildren { children }) => Ok(Self { epoch, children: Some(children) }),
            Ok(_) => Err(ClientError::unexpected(OpCode::GetChildren, "")),
            Err(error) if error.is(ErrorCode::NoNode) => Ok(Self { epoch, children: None }),
            Err(error) => Err(error),
        }
    }
}

/// One session of a keeper.
pub(super) struct ZooKeeperSession {
    /// Keeps the session alive.
    client: Client,
    inner: Arc<Inner>,
}

impl ZooKeeperSession {
    /// Takes a session for locks, and starts what proves it alive.
    pub(super) fn new(client: Client, config: &Config) -> Self {
        let inner = Arc::new(Inner {
            link: client.link().clone(),
            layout: config.layout,
            foreign: config.foreign,
            base: config.base.clone(),
            places: Mutex::default(),
            kick: Arc::new(Notify::new()),
            prover_wakes_at_nanos: AtomicU64::new(u64::MAX),
            seen: Mutex::default(),
            reported: Mutex::default(),
        });
        client.link().adopt(Box::pin(Prover::new(inner.clone()).run()));
        Self { client, inner }
    }
}

impl Session for ZooKeeperSession {
    fn bond(&self) -> &SessionBond {
        self.inner.link.bond()
    }

    fn view(&self, queue: &QueueName) -> BoxFuture<Result<QueueView>> {
        let (inner, queue) = (self.inner.clone(), queue.clone());
        let path = match inner.path_of(&queue) {
            Ok(path) => path,
            Err(error) => return refuse(error),
        };
        let sent_at = inner.link.clock().now();
        let look = inner.send_look(&path);
        Box::pin(async move {
            let listing = inner.look(&path, look).await;
            let listing = listing.map_err(|error| inner.fail(error, Operation::View, &queue))?;
            let view = inner.view(&queue, listing, Operation::View)?;
            if inner.places().misses_any(&queue, &view.contenders, sent_at) {
                inner.outlive(&path).await;
            }
            Ok(view)
        })
    }

    fn enqueue(&self, queue: &QueueName, entry: Entry) -> BoxFuture<Result<Enqueued>> {
        match join::Join::begin(self.inner.clone(), queue, &entry) {
            Ok((join, sent)) => Box::pin(join.finish(sent)),
            Err(error) => refuse(error),
        }
    }

    fn departure(
        &self,
        queue: &QueueName,
        mine: Option<&ContenderId>,
        ahead: &ContenderId,
        seen: Version,
    ) -> BoxFuture<Result<Departure>> {
        match departure::Wait::begin(self.inner.clone(), queue, mine, ahead, seen) {
            Ok((wait, watch)) => Box::pin(wait.finish(watch)),
            Err(error) => refuse(error),
        }
    }

    fn withdraw(&self, queue: &QueueName, ticket: Ticket) -> Withdrawal {
        withdraw::begin(&self.inner, queue, ticket)
    }

    fn close(&self) -> BoxFuture<Result<()>> {
        let closing = self.client.close();
        Box::pin(async move { closing.await.map_err(|error| error.into_core(Operation::Close, None)) })
    }
}

fn refuse<T: Send + 'static>(error: Error) -> BoxFuture<Result<T>> {
    Box::pin(std::future::ready(Err(error)))
}

impl fmt::Debug for ZooKeeperSession {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("ZooKeeperSession").field(&self.client).finish()
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Inner").field(&self.link).finish()
    }
}
