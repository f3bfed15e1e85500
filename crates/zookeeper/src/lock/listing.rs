//! Listing a queue, and finding out whether its lock is in use as one of another kind.
//!
//! The kinds of locks on one name meet in the lock's own node: a semaphore has two nodes below it. Whoever lists one
//! queue looks at the others only as far as it must: from a semaphore's parts the lock's own node is listed along in the
//! same segment; from the lock's own node the parts are listed only if it shows them.

use lockkeeper_core::{Error, ErrorKind, Mode, Operation, Part, QueueName, QueueView, Result, Version};
use lockkeeper_zk_proto::message::{ErrorCode, OpCode, Request, Response};

use crate::error::{ClientError, ClientErrorKind};
use crate::layout::{Layout, mode_in_line, read_queue};
use crate::link::{Answer, Call, Fired};
use crate::lock::paths::QueuePath;
use crate::lock::session::{Inner, LOOK_ATTEMPTS_MAX};

/// A sync and a list under way.
#[derive(Debug)]
pub(super) struct Look {
    /// What makes it show all that was acknowledged to anybody before; none where less will do.
    sync: Option<Call>,
    list: List,
}

/// A list under way, and along with it one of the lock's own node if the queue lies elsewhere.
#[derive(Debug)]
pub(super) struct List {
    queue: Call,
    line: Option<Call>,
}

/// The children of a queue's node, as they were listed on one connection.
#[derive(Debug)]
pub(super) struct Listing {
    pub(super) epoch: u64,
    /// `None` if there is no such node.
    pub(super) children: Option<Vec<String>>,
    /// Those of the lock's own node, if the queue lies elsewhere.
    line: Vec<String>,
}

impl Look {
    async fn listing(self) -> Result<Listing, ClientError> {
        if let Some(sync) = self.sync {
            sync.await.result?;
        }
        self.list.listing().await
    }
}

impl List {
    /// Waits for the lists.
    pub(super) async fn listing(self) -> Result<Listing, ClientError> {
        let (epoch, children) = children(self.queue.await)?;
        let line = match self.line {
            Some(line) => children_of(line).await?,
            None => Vec::new(),
        };
        Ok(Listing { epoch, children, line })
    }
}

/// Lists a node's children; none if there is no such node.
async fn children_of(call: Call) -> Result<Vec<String>, ClientError> {
    children(call.await).map(|(_, children)| children.unwrap_or_default())
}

/// Reads the answer to a list: the connection, and the children if there is such a node.
fn children(Answer { epoch, result, .. }: Answer) -> Result<(u64, Option<Vec<String>>), ClientError> {
    match result {
        Ok(Response::GetChildren { children }) => Ok((epoch, Some(children))),
        Ok(_) => Err(ClientError::unexpected(OpCode::GetChildren, "")),
        Err(error) if error.is(ErrorCode::NoNode) => Ok((epoch, None)),
        Err(error) => Err(error),
    }
}

impl Inner {
    /// Sends a sync and a list in one segment: they cost one round trip, and the list shows all that was acknowledged to
    /// anybody before.
    pub(super) fn send_look(&self, path: &QueuePath, part: Part) -> Look {
        let sync = self.link.call(&Request::Sync { path: path.on_server() }, path.shown());
        Look { sync: Some(sync), list: self.send_list(path, part) }
    }

    /// Sends a list alone: it shows all that this connection was told of, and may be older than what others know.
    pub(super) fn send_look_behind(&self, path: &QueuePath, part: Part) -> Look {
        Look { sync: None, list: self.send_list(path, part) }
    }

    /// Sends a list.
    pub(super) fn send_list(&self, path: &QueuePath, part: Part) -> List {
        let list = |path: String, shown| self.link.call(&Request::GetChildren { path, watch: false }, shown);
        List { queue: list(path.on_server(), path.shown()), line: self.send_line_list(path, part) }
    }

    /// Sends a list that sets a watch on the queue besides.
    pub(super) fn send_watching_list(&self, path: &QueuePath, part: Part) -> (List, Fired) {
        let request = Request::GetChildren { path: path.on_server(), watch: true };
        let (queue, fired) = self.link.call_watching(&request, path.shown());
        (List { queue, line: self.send_line_list(path, part) }, fired)
    }

    fn send_line_list(&self, path: &QueuePath, part: Part) -> Option<Call> {
        let is_needed = !self.naming.layout.is_one_node(Part::Line, part);
        let request = || Request::GetChildren { path: path.line_on_server(), watch: false };
        is_needed.then(|| self.link.call(&request(), path.shown()))
    }

    /// Lists a queue. A look whose connection was lost is made again, with a sync.
    pub(super) async fn look(&self, path: &QueuePath, part: Part, first: Look) -> Result<Listing, ClientError> {
        let mut look = first;
        for _ in 1..LOOK_ATTEMPTS_MAX {
            match look.listing().await {
                Err(error) if error.kind() == ClientErrorKind::ConnectionLost => look = self.send_look(path, part),
                listing => return listing,
            }
        }
        look.listing().await
    }

    /// Puts a list in order, says what was passed over, and looks into the parts of a semaphore if it showed some.
    pub(super) async fn view(
        &self,
        queue: &QueueName,
        path: &QueuePath,
        listing: Listing,
        operation: Operation,
    ) -> Result<QueueView> {
        let Listing { epoch, children, line } = listing;
        let layout = self.naming.layout;
        let reading = read_queue(children.unwrap_or_default(), queue.part(), layout, self.foreign);
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
        let mut view = QueueView::new(Version(epoch), reading.contenders);
        view.mutex_role = path.mutex_role(&self.base);
        view.candidate = self.naming.election.shown();
        view.elsewhere = reading.elsewhere.or_else(|| mode_in_line(line, layout, self.foreign));
        if view.elsewhere.is_none() && !reading.parts.is_empty() {
            let looked = self.look_into_parts(path, &reading.parts).await;
            view.elsewhere = looked.map_err(|error| self.fail(error, operation, queue))?;
        }
        Ok(view)
    }

    /// Looks whether anybody stands in one of a semaphore's parts. A look whose connection was lost is made again.
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
        // What a line shows below itself is Curator's, whatever our own layout is.
        let list = |&part: &Part| {
            let request = Request::GetChildren { path: path.part_on_server(part, Layout::Curator), watch: false };
            (part, self.link.call(&request, path.shown()))
        };
        let calls: Vec<_> = parts.iter().map(list).collect();
        let mut found = None;
        for (part, call) in calls {
            let reading = read_queue(children_of(call).await?, part, Layout::Curator, self.foreign);
            found = found.or_else(|| reading.contenders.first().map(|first| first.mode));
        }
        Ok(found)
    }
}
