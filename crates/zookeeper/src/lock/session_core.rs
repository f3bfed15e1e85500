//! State that the parts of one session share: its link, our own entries, the lists under way, and what it remembers of
//! nodes. The files above use them.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{
    BoxFuture, ContenderId, Error, ErrorKind, Liveness, LossReason, Operation, QueueName, Result, Ticket,
};
use lockkeeper_session::WATCH_AFTER;
use lockkeeper_zk_proto::message::{Acl, ZkRequest};
use lockkeeper_zk_proto::path::ZnodePath;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, oneshot};

use crate::config::Config;
use crate::error::{ClientError, ClientErrorKind};
use crate::layout::{ForeignPolicy, NodeNaming};
use crate::link::{Happening, LinkPhase, SessionLink, WatchWait};
use crate::lock::paths::QueuePath;
use crate::lock::place::{NodePlace, NodePlaces, PlaceEnd};
use crate::lock::shared_list::SharedLists;

/// How often a look is tried again after a lost connection; each attempt waits for the next connection.
pub(super) const LOOK_ATTEMPTS_MAX: u32 = 4;

/// How many nodes are remembered as seen; at this number all are forgotten, which costs a few requests.
const SEEN_MAX: usize = 100_000;

/// How many queues are remembered as having been warned about.
const REPORTED_MAX: usize = 1_000;

/// What the parts of one session share. Holding it does not keep the session alive.
pub(super) struct SessionCore {
    pub(super) link: Arc<SessionLink>,
    pub(super) naming: NodeNaming,
    /// The access list of the nodes of locks; those above them are open.
    pub(super) acl: Vec<Acl>,
    pub(super) foreign: ForeignPolicy,
    pub(super) base: ZnodePath,
    places: Mutex<NodePlaces>,
    pub(super) lists: SharedLists,
    /// Held by the one place that sends a proof for all waiters of one.
    pub(super) proving: tokio::sync::Mutex<()>,
    pub(super) kick: Notify,
    /// When the prover will look by itself; [`u64::MAX`] if it will not, or is just looking.
    prover_wakes_at_nanos: AtomicU64,
    /// Nodes that this session has seen below which queues lie; they may have vanished since.
    seen: Mutex<HashSet<String>>,
    /// Queues in which something was passed over, each reported once.
    reported: Mutex<HashSet<QueueName>>,
}

impl SessionCore {
    pub(super) fn new(link: Arc<SessionLink>, config: &Config) -> Self {
        Self {
            link,
            naming: config.naming,
            acl: config.acl.clone(),
            foreign: config.foreign,
            base: config.base.clone(),
            places: Mutex::default(),
            lists: SharedLists::default(),
            proving: tokio::sync::Mutex::default(),
            kick: Notify::new(),
            prover_wakes_at_nanos: AtomicU64::new(u64::MAX),
            seen: Mutex::default(),
            reported: Mutex::default(),
        }
    }

    /// No code panics while the places are locked, so a panic elsewhere leaves them whole.
    pub(super) fn places(&self) -> MutexGuard<'_, NodePlaces> {
        self.places.lock()
    }

    pub(super) fn path_of(&self, queue: &QueueName) -> Result<QueuePath> {
        QueuePath::of(queue, &self.base, &self.link.chroot, self.naming.layout)
    }

    /// Returns the unseen nodes among a queue's own and its parents, each with its place from the top.
    pub(super) fn unseen(&self, paths: Vec<String>) -> Vec<(usize, String)> {
        let seen = self.seen.lock();
        paths.into_iter().enumerate().filter(|(_, path)| !seen.contains(path)).collect()
    }

    /// Notes nodes that were there.
    pub(super) fn note_seen(&self, paths: Vec<String>) {
        let mut seen = self.seen.lock();
        if paths.last().is_some_and(|queue| seen.contains(queue)) {
            return;
        }
        if seen.len() >= SEEN_MAX {
            seen.clear();
        }
        seen.extend(paths);
    }

    /// Notes that some of these are gone: the service deletes nodes that have been empty for a while.
    pub(super) fn note_vanished(&self, paths: &[String]) {
        let mut seen = self.seen.lock();
        for path in paths {
            seen.remove(path);
        }
    }

    /// Waits until it is known whether the session has outlived a node of ours that vanished: when the service ends a
    /// session, its nodes' watches fire first, and only then is the connection closed.
    pub(super) async fn outlive(&self, path: &QueuePath) {
        for _ in 0..LOOK_ATTEMPTS_MAX {
            let sync = self.link.call(&ZkRequest::Sync { path: path.on_server() }, path.shown());
            match sync.response().await {
                Err(error) if error.kind() == ClientErrorKind::ConnectionLost => {}
                _ => return,
            }
        }
    }

    pub(super) fn report_nesting(&self, queue: &QueueName, path: &QueuePath) {
        if path.is_nested_below(&self.base) && self.is_unreported(queue) {
            tracing::warn!(target: "lockkeeper", lock = %queue, "lies in the path of another lock");
        }
    }

    /// Whether nothing was reported of this queue yet.
    fn is_unreported(&self, queue: &QueueName) -> bool {
        let mut reported = self.reported.lock();
        reported.len() < REPORTED_MAX && reported.insert(queue.clone())
    }

    pub(super) fn report_junk(&self, queue: &QueueName, name: &str, count: usize) {
        if self.is_unreported(queue) {
            tracing::warn!(
                target: "lockkeeper",
                lock = %queue, name, count,
                "passed over nodes that are not contenders"
            );
        }
    }

    pub(super) fn fail(&self, error: ClientError, operation: Operation, queue: &QueueName) -> Error {
        match self.link.trouble() {
            Some(trouble) if error.kind() == ClientErrorKind::Deadline => error.held_up_by(operation, trouble),
            _ => error.into_core(operation, self.loss()),
        }
        .at(queue)
    }

    pub(super) fn lost(&self, reason: LossReason, operation: Operation, queue: &QueueName) -> Error {
        Error::transient(ErrorKind::Lost(reason), operation, reason.to_string()).at(queue)
    }

    pub(super) fn safe_for(&self) -> Duration {
        let now = self.link.clock.now();
        self.link.safe_until().map_or(Duration::ZERO, |until| until.saturating_duration_since(now))
    }

    pub(super) fn wake_prover(&self) {
        self.kick.notify_one();
    }

    /// Makes sure that the prover looks at a new place in time; most places are left before that.
    pub(super) fn expect_prover(&self) {
        let due = self.link.clock.now().saturating_add(WATCH_AFTER);
        if self.prover_wakes_at_nanos.load(Ordering::SeqCst) > due.as_nanos() {
            self.wake_prover();
        }
    }

    /// Notes when the prover will look by itself; `None` if it will not.
    pub(super) fn prover_sleeps_until(&self, wakes_at: Option<BootInstant>) {
        self.prover_wakes_at_nanos.store(wakes_at.map_or(u64::MAX, BootInstant::as_nanos), Ordering::SeqCst);
    }

    /// Has the prover look after a place as soon as it can: it sets the watch on its node again, or finds out why it is
    /// gone.
    pub(super) fn look_after(&self, place: Arc<NodePlace>) {
        self.places().unwatched.push_front(place);
        self.wake_prover();
    }

    pub(super) fn found_gone(&self, place: &Arc<NodePlace>) {
        if place.bond.remove() {
            place.ends(PlaceEnd::Unknown);
            self.look_after(place.clone());
        }
    }

    /// Waits for the next connection, until all missed events have arrived.
    pub(super) async fn until_restored(&self, operation: Operation, queue: &QueueName) -> Result<()> {
        match self.link.until(|status| status.phase == LinkPhase::Restored).await.phase {
            LinkPhase::Over => Err(self.session_over(operation, queue)),
            _ => Ok(()),
        }
    }

    /// Waits for something on this connection; `None` if there was another one before, and all its missed events
    /// have arrived.
    pub(super) async fn on_connection<T>(
        &self,
        epoch: u64,
        queue: &QueueName,
        work: impl Future<Output = T> + Send,
    ) -> Result<Option<T>> {
        tokio::select! {
            biased;
            done = work => Ok(Some(done)),
            _ = self.link.until(|status| status.epoch != epoch || !status.phase.is_online()) => {
                self.until_restored(Operation::Wait, queue).await.map(|()| None)
            }
        }
    }

    /// Waits until a watch that was set on this connection fires, or there is another one.
    pub(super) async fn fired(&self, fired: WatchWait, epoch: u64, queue: &QueueName) -> Result<Option<Happening>> {
        match self.on_connection(epoch, queue, fired).await? {
            Some(None) => Err(self.session_over(Operation::Wait, queue)),
            happening => Ok(happening.flatten()),
        }
    }

    pub(super) fn session_over(&self, operation: Operation, queue: &QueueName) -> Error {
        self.lost(self.loss().unwrap_or(LossReason::Expired), operation, queue)
    }

    fn loss(&self) -> Option<LossReason> {
        match self.link.bond.liveness() {
            Liveness::Lost(reason) => Some(reason),
            Liveness::Held { .. } | Liveness::Jeopardy { .. } => None,
        }
    }

    /// Runs something that takes several requests: it is begun now and goes on in the background, also when its answer
    /// is not awaited.
    pub(super) fn run<T: Send + 'static>(
        &self,
        operation: Operation,
        queue: &QueueName,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> BoxFuture<Result<T>> {
        let (answer, answered) = oneshot::channel();
        self.link.adopt(Box::pin(async move {
            // The caller may have gone.
            let _ = answer.send(work.await);
        }));
        let over = self.session_over(operation, queue);
        Box::pin(async move { answered.await.unwrap_or(Err(over)) })
    }

    pub(super) fn place_of(&self, id: &ContenderId) -> Option<(Ticket, Arc<NodePlace>)> {
        let ticket = crate::layout::ticket_of(id.as_str())?;
        let place = self.places().find(ticket).filter(|place| place.id == *id).cloned()?;
        Some((ticket, place))
    }

    /// Finds the place of a contender of ours whose end this session will hear of: it stands, or is being left.
    pub(super) fn own_place(&self, id: &ContenderId) -> Option<Arc<NodePlace>> {
        let ticket = crate::layout::ticket_of(id.as_str())?;
        self.places().find_or_leaving(ticket).filter(|place| place.id == *id).cloned()
    }
}

impl fmt::Debug for SessionCore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("SessionCore").field(&self.link).finish()
    }
}

/// A call under way, or why it was refused.
pub(super) fn begun<T: Send + 'static>(
    begun: Result<impl Future<Output = Result<T>> + Send + 'static>,
) -> BoxFuture<Result<T>> {
    match begun {
        Ok(work) => Box::pin(work),
        Err(error) => Box::pin(std::future::ready(Err(error))),
    }
}
