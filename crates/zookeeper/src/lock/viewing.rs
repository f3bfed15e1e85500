//! Listing a queue, and finding out whether a contender stands on the other side of its lock.
//!
//! The kinds of locks on one name meet in the lock's own node: a semaphore has two nodes below it. A list of one queue
//! looks at the other queues only as far as it must: from a semaphore's parts the lock's own node is listed along in
//! the same segment; from the lock's own node the parts are listed only if it shows them.

use std::sync::Arc;

use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{ConnectionNumber, Error, ErrorKind, Mode, Operation, Part, QueueName, QueueView, Result};
use lockkeeper_zk_proto::message::ZkRequest;

use crate::error::{ClientError, ClientErrorKind};
use crate::layout::Layout;
use crate::link::{ClientCall, WatchWait, if_there};
use crate::lock::paths::QueuePath;
use crate::lock::session_core::{LOOK_ATTEMPTS_MAX, SessionCore};
use crate::lock::shared_list::ListShare;
use crate::lock::shared_list::{ListFreshness, ListedQueue, QueueListing};
use crate::queue::{mode_in_line, read_queue};

/// A list that sets a watch under way, and along with it one of the lock's own node if the queue lies elsewhere.
#[derive(Debug)]
pub(super) struct WatchingList {
    queue: ClientCall,
    line: Option<ClientCall>,
    asked_at: BootInstant,
}

impl WatchingList {
    pub(super) async fn listing(self) -> Result<QueueListing, ClientError> {
        let mut answers = vec![self.queue.await];
        if let Some(line) = self.line {
            answers.push(line.await);
        }
        QueueListing::of_answers(answers.into_iter(), ListFreshness::Behind, self.asked_at)
    }
}

impl QueueListing {
    /// Whether some place of ours that was made before the list was asked for is missing in it.
    pub(super) fn misses_any(&self, inner: &SessionCore, path: &QueuePath, part: Part, view: &QueueView) -> bool {
        *self.misses_any.get_or_init(|| inner.places().misses_any(path, part, &view.contenders, self.asked_at))
    }

    fn reading(&self, inner: &SessionCore, queue: &QueueName, path: &QueuePath) -> &ListedQueue {
        self.reading.get_or_init(|| {
            let layout = inner.naming.layout;
            let children = self.children.as_deref().unwrap_or_default();
            let reading = read_queue(children, queue.part(), layout, inner.foreign);
            if let Some(name) = reading.junk.first() {
                inner.report_junk(queue, name, reading.junk.len());
            }
            let mut view = QueueView::new(ConnectionNumber(self.epoch), reading.contenders);
            view.mutex_role = path.mutex_role(&inner.base);
            view.candidate = inner.naming.election.shown();
            view.elsewhere = reading.elsewhere.or_else(|| mode_in_line(&self.line, layout, inner.foreign));
            ListedQueue { view, foreign: reading.foreign, parts: reading.parts }
        })
    }
}

impl SessionCore {
    /// Sends a list, or puts one off behind all earlier requests.
    ///
    /// A list after a sync leaves with its sync in one segment, so that it costs one round trip too.
    pub(super) fn send_list(&self, path: &QueuePath, part: Part, freshness: ListFreshness) -> ListShare {
        self.lists.ask(&self.link, self.naming.layout, path, part, freshness)
    }

    /// Sends a list that also sets a watch on the queue.
    pub(super) fn send_watching_list(&self, path: &QueuePath, part: Part) -> (WatchingList, WatchWait) {
        let request = ZkRequest::GetChildren { path: path.on_server(), watch: true };
        let (queue, fired) = self.link.call_watching(&request, path.shown());
        let is_needed = !self.naming.layout.is_in_line(part);
        let request = || ZkRequest::GetChildren { path: path.line_on_server(), watch: false };
        let line = is_needed.then(|| self.link.call(&request(), path.shown()));
        (WatchingList { queue, line, asked_at: self.link.clock.now() }, fired)
    }

    /// Lists a queue. A look whose connection was lost is retried, with a sync.
    pub(super) async fn look(
        &self,
        path: &QueuePath,
        part: Part,
        first: ListShare,
    ) -> Result<Arc<QueueListing>, ClientError> {
        let mut list = first;
        for _ in 1..LOOK_ATTEMPTS_MAX {
            match list.listing().await {
                Err(error) if error.kind() == ClientErrorKind::ConnectionLost => {
                    list = self.send_list(path, part, ListFreshness::Synced);
                }
                listing => return listing,
            }
        }
        list.listing().await
    }

    /// Puts a list in order, reports the ignored names, and looks into the parts of a semaphore if it showed some.
    pub(super) async fn view(
        &self,
        queue: &QueueName,
        path: &QueuePath,
        listing: &QueueListing,
        operation: Operation,
    ) -> Result<QueueView> {
        let ListedQueue { view, foreign, parts } = listing.reading(self, queue, path);
        if let Some(name) = foreign {
            let message = format!(
                "`{name}` may be a contender of an unknown kind, so no order with it is certain; `?foreign=ignore` \
                 passes over such names, `?foreign=wait` waits for them"
            );
            return Err(Error::permanent(ErrorKind::ForeignContender, operation, message).at(queue));
        }
        let mut view = view.clone();
        if view.elsewhere.is_none() && !parts.is_empty() {
            let looked = self.look_into_parts(path, parts).await;
            view.elsewhere = looked.map_err(|error| self.fail(error, operation, queue))?;
        }
        Ok(view)
    }

    /// As [`view`](Self::view). If it misses a place of ours, it is known by then whether the session has outlived
    /// that.
    pub(super) async fn outlived_view(
        &self,
        queue: &QueueName,
        path: &QueuePath,
        listing: &QueueListing,
        operation: Operation,
    ) -> Result<QueueView> {
        let view = self.view(queue, path, listing, operation).await?;
        if listing.misses_any(self, path, queue.part(), &view) {
            self.outlive(path).await;
        }
        Ok(view)
    }

    /// Looks whether a contender stands in one of a semaphore's parts. A look whose connection was lost is retried.
    async fn look_into_parts(&self, path: &QueuePath, parts: &[Part]) -> Result<Option<Mode>, ClientError> {
        let mut attempt = 1;
        loop {
            match self.look_into_parts_once(path, parts).await {
                Err(error) if error.kind() == ClientErrorKind::ConnectionLost && attempt < LOOK_ATTEMPTS_MAX => {
                    attempt += 1;
                }
                found => return found,
            }
        }
    }

    async fn look_into_parts_once(&self, path: &QueuePath, parts: &[Part]) -> Result<Option<Mode>, ClientError> {
        // The parts below a line are Curator's, also if our own layout is another.
        let list = |&part: &Part| {
            let request = ZkRequest::GetChildren { path: path.part_on_server(part, Layout::Curator), watch: false };
            (part, self.link.call(&request, path.shown()))
        };
        let calls: Vec<_> = parts.iter().map(list).collect();
        let mut found = None;
        for (part, call) in calls {
            let children = if_there(call.children().await)?.unwrap_or_default();
            let reading = read_queue(&children, part, Layout::Curator, self.foreign);
            found = found.or_else(|| reading.contenders.first().map(|first| first.mode));
        }
        Ok(found)
    }
}
