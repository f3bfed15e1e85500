//! Requests about another client's contender: that it gives up, or that it is removed.

use std::sync::Arc;

use bytes::Bytes;
use lockkeeper_core::{
    BoxFuture, ContenderId, Error, ErrorKind, FencingToken, Operation, QueueName, Request, Result, Revocation,
};
use lockkeeper_zk_proto::message::{ErrorCode, MultiOperation, MultiResult, OpCode, Stat, ZkRequest};

use crate::error::ClientError;
use crate::link::{ClientCall, Synced, if_there};
use crate::lock::inspect::token_of;
use crate::lock::owner::{ContenderData, REVOKE};
use crate::lock::paths::QueuePath;
use crate::lock::queue_data::QueueData;
use crate::lock::session_core::SessionCore;

/// How often a request is begun anew because another client changed a node in between.
const ATTEMPTS_MAX: u32 = 16;

/// Starts a request about a contender; `false` if it is not there, or has another token.
pub(super) fn begin(
    inner: &Arc<SessionCore>,
    queue: &QueueName,
    contender: &ContenderId,
    request: Request,
) -> Result<BoxFuture<Result<bool>>> {
    let path = inner.path_of(queue)?;
    let first = Read::send(inner, &path, contender);
    let asking = ContenderRequest { inner: inner.clone(), queue: queue.clone(), path, contender: contender.clone() };
    Ok(inner.run(Operation::Request, queue, asking.finish(request, first)))
}

struct ContenderRequest {
    inner: Arc<SessionCore>,
    queue: QueueName,
    path: QueuePath,
    contender: ContenderId,
}

/// A sync, and the contender's node and the lock's own read after it, in one segment.
struct Read {
    contender: Synced,
    line: ClientCall,
}

type NodeData = (Bytes, Stat);

impl Read {
    fn send(inner: &SessionCore, path: &QueuePath, contender: &ContenderId) -> Self {
        let read = |path| ZkRequest::GetData { path, watch: false };
        let contender = read(path.child_on_server(contender.as_str()));
        Self {
            contender: inner.link.call_synced(&path.on_server(), &contender, path.shown()),
            line: inner.link.call(&read(path.line_on_server()), path.shown()),
        }
    }

    /// Returns the contender's node, if it is there, and as much of the lock's own node as may be read.
    async fn nodes(self) -> Result<Option<(NodeData, Option<NodeData>)>, ClientError> {
        let Some(contender) = if_there(self.contender.data().await)? else {
            return Ok(None);
        };
        match self.line.data().await {
            Ok(line) => Ok(Some((contender, Some(line)))),
            Err(error) if error.code().is_some() => Ok(Some((contender, None))),
            Err(error) => Err(error),
        }
    }
}

impl ContenderRequest {
    async fn finish(self, request: Request, first: Read) -> Result<bool> {
        let fail = |error| self.inner.fail(error, Operation::Request, &self.queue);
        let mut read = first;
        for _ in 0..ATTEMPTS_MAX {
            let Some((contender, line)) = read.nodes().await.map_err(fail)? else {
                return Ok(false);
            };
            let attempt = match &request {
                Request::Yield(revocation) => self.ask(revocation, contender).await,
                Request::Break { token } => self.break_it(*token, contender, line).await,
                _ => {
                    let message = "this service cannot do it";
                    return Err(Error::permanent(ErrorKind::Unsupported, Operation::Request, message).at(&self.queue));
                }
            };
            match attempt.map_err(fail)? {
                Committed::Done => return Ok(true),
                Committed::Gone => return Ok(false),
                Committed::Overtaken => read = Read::send(&self.inner, &self.path, &self.contender),
            }
        }
        let message = format!("others changed the node {ATTEMPTS_MAX} times in between");
        Err(Error::transient(ErrorKind::Backend, Operation::Request, message).at(&self.queue))
    }

    /// Asks the owner to give up: within its own data if that has our form, else in Curator's way, which replaces the
    /// data.
    async fn ask(&self, revocation: &Revocation, (data, stat): NodeData) -> Result<Committed, ClientError> {
        let data = match ContenderData::read(&data) {
            Some(data) => data.with_request(revocation).to_bytes(),
            None => REVOKE.to_vec(),
        };
        let path = self.path.child_on_server(self.contender.as_str());
        let request = ZkRequest::SetData { path, data: Some(data.into()), version: stat.version };
        match self.inner.link.call(&request, self.path.shown()).response().await {
            Ok(_) => Ok(Committed::Done),
            Err(error) if error.is(ErrorCode::NoNode) => Ok(Committed::Gone),
            Err(error) if error.is(ErrorCode::BadVersion) => Ok(Committed::Overtaken),
            Err(error) => Err(error),
        }
    }

    /// Deletes the node, and notes in the lock's own node that it was broken, in one transaction: a client that finds
    /// it gone finds the note.
    async fn break_it(
        &self,
        token: FencingToken,
        (data, stat): NodeData,
        line: Option<NodeData>,
    ) -> Result<Committed, ClientError> {
        let id = self.contender.as_str();
        if token_of(&self.inner.link, &self.path, id, &data, &stat).await? != Some(token) {
            return Ok(Committed::Gone);
        }
        let mut operations = Vec::with_capacity(2);
        if let Some((data, stat)) = line
            && let Some(noted) = QueueData::read(&data).with_broken(id)
        {
            let (path, version) = (self.path.line_on_server(), stat.version);
            operations.push(MultiOperation::SetData { path, data: Some(noted.into()), version });
        }
        operations.push(MultiOperation::Delete { path: self.path.child_on_server(id), version: -1 });
        self.commit(operations).await
    }

    /// Commits a break. Where the note is refused for want of a right, only the deletion is done.
    async fn commit(&self, mut operations: Vec<MultiOperation>) -> Result<Committed, ClientError> {
        loop {
            let request = ZkRequest::Multi(operations.clone());
            let blamed = MultiResult::blamed(&self.inner.link.call(&request, self.path.shown()).results().await?);
            let is_note = blamed.is_some_and(|(at, _)| at + 1 < operations.len());
            match blamed.map(|(_, code)| code) {
                None => return Ok(Committed::Done),
                Some(ErrorCode::NoAuth) if is_note => drop(operations.remove(0)),
                Some(ErrorCode::BadVersion | ErrorCode::NoNode) if is_note => return Ok(Committed::Overtaken),
                Some(ErrorCode::NoNode) => return Ok(Committed::Gone),
                Some(code) => return Err(ClientError::of_refusal(code, OpCode::Multi, self.path.shown())),
            }
        }
    }
}

/// How an attempt ended.
enum Committed {
    Done,
    /// There is no such contender any more.
    Gone,
    /// A node is not as it was read.
    Overtaken,
}
