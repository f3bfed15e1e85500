//! The value of a queue: the data of its node.
//!
//! A node of a line that holds nothing and never had children is an empty value, such as a barrier that kazoo has set.
//! The node that a queue leaves behind has had children.
//!
//! A conditional write uses the version that was just read, so that of the writers that expect the same state one
//! succeeds. A version also names the transaction that wrote it, since the node of a value that was removed and made
//! anew counts from zero again.

use std::sync::Arc;

use bytes::Bytes;
use lockkeeper_core::{
    BoxFuture, Error, ErrorKind, Expected, Operation, Part, QueueName, Result, VALUE_BYTES_MAX, Value, ValueVersion,
};
use lockkeeper_zk_proto::message::{
    Create, CreateMode, ErrorCode, MultiOperation, MultiResult, Stat, ZkRequest, ZkResponse,
};

use crate::error::{ClientError, ClientErrorKind};
use crate::link::{Synced, if_there};
use crate::lock::join::refusal_of;
use crate::lock::paths::QueuePath;
use crate::lock::queue_data::QueueData;
use crate::lock::session_core::{LOOK_ATTEMPTS_MAX, SessionCore};

/// How often a write is begun anew because another client changed the node in between.
const ATTEMPTS_MAX: u32 = 100;

pub(super) struct ValueNode {
    data: QueueData,
    stat: Stat,
    part: Part,
}

impl ValueNode {
    pub(super) fn value(&self) -> Option<Value> {
        let bytes = self.data.value().or_else(|| self.is_mere_existence().then(Vec::new))?.into();
        Some(Value { bytes, version: version(self.stat.mzxid, self.stat.version) })
    }

    /// Tells whether the node was made for itself, without data. No server tells whether it is a container.
    fn is_mere_existence(&self) -> bool {
        self.part == Part::Line && self.stat.data_length == 0 && self.stat.cversion == 0
    }
}

/// The transaction that wrote a value, and how often its node has been written.
fn version(mzxid: i64, data_version: i32) -> ValueVersion {
    ValueVersion(u128::from(mzxid.cast_unsigned()) << 32 | u128::from(data_version.cast_unsigned()))
}

/// Reads the answer to a read; `None` if there is no such node.
pub(super) fn stored(found: Result<(Bytes, Stat), ClientError>, part: Part) -> Result<Option<ValueNode>, ClientError> {
    Ok(if_there(found)?.map(|(data, stat)| ValueNode { data: QueueData::read(&data), stat, part }))
}

fn send_read(inner: &SessionCore, path: &QueuePath) -> Synced {
    let request = ZkRequest::GetData { path: path.on_server(), watch: false };
    inner.link.call_synced(&path.on_server(), &request, path.shown())
}

/// Reads, and reads again after a lost connection.
async fn read_stored(
    inner: &SessionCore,
    path: &QueuePath,
    part: Part,
    first: Synced,
) -> Result<Option<ValueNode>, ClientError> {
    let mut read = first;
    for _ in 1..LOOK_ATTEMPTS_MAX {
        match stored(read.data().await, part) {
            Err(error) if error.kind() == ClientErrorKind::ConnectionLost => read = send_read(inner, path),
            answer => return answer,
        }
    }
    stored(read.data().await, part)
}

pub(super) fn read(
    inner: &Arc<SessionCore>,
    queue: &QueueName,
) -> Result<impl Future<Output = Result<Option<Value>>> + Send + use<>> {
    let path = inner.path_of(queue)?;
    let first = send_read(inner, &path);
    let (inner, queue) = (inner.clone(), queue.clone());
    Ok(async move {
        let stored = read_stored(&inner, &path, queue.part(), first).await;
        let stored = stored.map_err(|error| inner.fail(error, Operation::Value, &queue))?;
        Ok(stored.and_then(|stored| stored.value()))
    })
}

pub(super) fn write(
    inner: &Arc<SessionCore>,
    queue: &QueueName,
    expected: Expected,
    value: Option<Arc<[u8]>>,
) -> Result<BoxFuture<Result<Option<ValueVersion>>>> {
    if value.as_ref().is_some_and(|value| value.len() > VALUE_BYTES_MAX) {
        let message = format!("a value has at most {VALUE_BYTES_MAX} bytes");
        return Err(Error::permanent(ErrorKind::LimitReached, Operation::Value, message).at(queue));
    }
    let path = inner.path_of(queue)?;
    let first = send_read(inner, &path);
    let write = Write { inner: inner.clone(), queue: queue.clone(), path, expected, value };
    Ok(inner.run(Operation::Value, queue, write.finish(first)))
}

struct Write {
    inner: Arc<SessionCore>,
    queue: QueueName,
    path: QueuePath,
    expected: Expected,
    value: Option<Arc<[u8]>>,
}

impl Write {
    async fn finish(self, first: Synced) -> Result<Option<ValueVersion>> {
        let fail = |error| self.inner.fail(error, Operation::Value, &self.queue);
        let mut read = first;
        for _ in 0..ATTEMPTS_MAX {
            let found = read_stored(&self.inner, &self.path, self.queue.part(), read).await.map_err(fail)?;
            let version = found.as_ref().and_then(ValueNode::value).map(|value| value.version);
            let is_expected = match self.expected {
                Expected::Any => true,
                Expected::Absent => version.is_none(),
                Expected::Version(expected) => version == Some(expected),
            };
            if !is_expected {
                return Ok(None);
            }
            let attempt = match (found, &self.value) {
                (None, None) => Ok(Some(ValueVersion(0))),
                (None, Some(value)) => self.make(value).await,
                (Some(stored), Some(value)) => self.set(&stored, value).await,
                (Some(stored), None) => self.remove(&stored).await,
            };
            if let Some(version) = attempt.map_err(fail)? {
                return Ok(Some(version));
            }
            read = send_read(&self.inner, &self.path);
        }
        let message = format!("others changed the value {ATTEMPTS_MAX} times in between");
        Err(Error::transient(ErrorKind::Backend, Operation::Value, message).at(&self.queue))
    }

    /// A node for a value alone lives until it is removed; one that belongs to a queue is deleted with the queue.
    fn create(&self, data: Vec<u8>) -> Create {
        let mode = match self.queue.part() {
            Part::Line => CreateMode::Persistent,
            Part::Waiters | Part::Permits => CreateMode::Container,
        };
        Create { path: self.path.on_server(), data: Some(data.into()), acl: self.inner.acl.clone(), mode }
    }

    /// Makes the node with the value, and its parents in the same segment. As all attempts, it has no version if the
    /// node was not as it had been read.
    async fn make(&self, value: &[u8]) -> Result<Option<ValueVersion>, ClientError> {
        let link = &self.inner.link;
        let mut parents = self.path.with_parents_on_server();
        parents.pop();
        let (made_parents, is_whole) = self.inner.make_parents(&self.queue, &self.path, parents.clone());
        let create = self.create(QueueData::read(&[]).with_value(&self.queue, Some(value)));
        let request = match create.mode {
            CreateMode::Container => ZkRequest::CreateContainer(create),
            _ => ZkRequest::Create2(create),
        };
        match link.call(&request, self.path.shown()).created().await {
            Ok((_, stat)) => Ok(Some(version(stat.mzxid, stat.version))),
            Err(error) if error.is(ErrorCode::NodeExists) => Ok(None),
            Err(error) if error.is(ErrorCode::NoNode) => {
                self.inner.note_vanished(&parents);
                match refusal_of(made_parents).await {
                    Some(refusal) if is_whole => Err(refusal),
                    _ if parents.is_empty() => Err(error),
                    _ => Ok(None),
                }
            }
            Err(error) => Err(error),
        }
    }

    async fn set(&self, stored: &ValueNode, value: &[u8]) -> Result<Option<ValueVersion>, ClientError> {
        let data = stored.data.with_value(&self.queue, Some(value));
        // The service deletes a queue's node, and a value with it, when the queue has been empty for a while.
        let is_leftover = stored.data.value().is_none() && stored.stat.num_children == 0;
        if is_leftover
            && self.queue.part() == Part::Line
            && let Some(version) = self.replace(stored, &data).await?
        {
            return Ok(Some(version));
        }
        let request =
            ZkRequest::SetData { path: self.path.on_server(), data: Some(data.into()), version: stored.stat.version };
        match self.inner.link.call(&request, self.path.shown()).stat().await {
            Ok(stat) => Ok(Some(version(stat.mzxid, stat.version))),
            Err(error) => overtaken(error),
        }
    }

    /// Puts a node that lives until it is removed in the place of one that may not; `None` if a contender queues there.
    async fn replace(&self, stored: &ValueNode, data: &[u8]) -> Result<Option<ValueVersion>, ClientError> {
        let operations = vec![
            MultiOperation::Delete { path: self.path.on_server(), version: stored.stat.version },
            MultiOperation::Create2(self.create(data.to_vec())),
        ];
        let answer = self.inner.link.call(&ZkRequest::Multi(operations), self.path.shown()).await;
        match answer.result? {
            ZkResponse::Multi(results) if !results.iter().any(|result| matches!(result, MultiResult::Error(_))) => {
                Ok(Some(version(answer.zxid, 0)))
            }
            _ => Ok(None),
        }
    }

    async fn remove(&self, stored: &ValueNode) -> Result<Option<ValueVersion>, ClientError> {
        if stored.value().is_none() {
            return Ok(Some(ValueVersion(0)));
        }
        let (path, version) = (self.path.on_server(), stored.stat.version);
        let rest = stored.data.with_value(&self.queue, None);
        let is_needed = stored.stat.num_children > 0;
        let request = match is_needed {
            true => ZkRequest::SetData { path, data: Some(rest.into()), version },
            false => ZkRequest::Delete { path, version },
        };
        match self.inner.link.call(&request, self.path.shown()).response().await {
            Ok(_) => Ok(Some(ValueVersion(0))),
            Err(error) if error.is(ErrorCode::NotEmpty) => Ok(None),
            Err(error) => overtaken(error),
        }
    }
}

fn overtaken(error: ClientError) -> Result<Option<ValueVersion>, ClientError> {
    match error.code() {
        Some(ErrorCode::BadVersion | ErrorCode::NoNode) => Ok(None),
        _ => Err(error),
    }
}
