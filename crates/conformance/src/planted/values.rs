//! Values that are compared, numbered or reported wrongly.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use lockkeeper_core::{BoxFuture, Expected, Part, QueueName, Result, Session, Value, ValueVersion};

use crate::planted::Bug;

fn stored_at(bug: Bug, queue: &QueueName) -> QueueName {
    if matches!(bug, Bug::ValuesOfTheName) { queue.with_part(Part::Line) } else { queue.clone() }
}

/// A state that does not change when the same value is written again.
fn state_of(bytes: &[u8]) -> ValueVersion {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    ValueVersion(u128::from(hasher.finish()))
}

fn shown(bug: Bug, value: Option<Value>) -> Option<Value> {
    let value = value?;
    let version = if matches!(bug, Bug::VersionsStartAnew) { state_of(&value.bytes) } else { value.version };
    Some(Value { version, ..value })
}

pub(super) fn value(bug: Bug, inner: &Arc<dyn Session>, queue: &QueueName) -> BoxFuture<Result<Option<Value>>> {
    let reading = inner.values().get(&stored_at(bug, queue));
    Box::pin(async move { Ok(shown(bug, reading.await?)) })
}

pub(super) fn set_value(
    bug: Bug,
    inner: &Arc<dyn Session>,
    queue: &QueueName,
    expected: Expected,
    value: Option<Arc<[u8]>>,
) -> BoxFuture<Result<Option<ValueVersion>>> {
    let queue = stored_at(bug, queue);
    match bug {
        Bug::SetsWithoutComparing => inner.values().set(&queue, Expected::Any, value),
        Bug::VersionsStartAnew => {
            let inner = inner.clone();
            Box::pin(async move {
                let found = inner.values().get(&queue).await?;
                let expected = match (expected, found) {
                    (Expected::Version(version), Some(found)) if state_of(&found.bytes) == version => {
                        Expected::Version(found.version)
                    }
                    (expected, _) => expected,
                };
                let state = value.as_ref().map(|bytes| state_of(bytes));
                let written = inner.values().set(&queue, expected, value).await?;
                Ok(written.map(|written| state.unwrap_or(written)))
            })
        }
        _ => inner.values().set(&queue, expected, value),
    }
}

pub(super) fn value_changed(
    bug: Bug,
    inner: &Arc<dyn Session>,
    queue: &QueueName,
    seen: Option<ValueVersion>,
) -> BoxFuture<Result<Option<Value>>> {
    let (queue, inner) = (stored_at(bug, queue), inner.clone());
    if !matches!(bug, Bug::MissesWrites) {
        return inner.values().until_changed(&queue, seen);
    }
    let now = inner.values().get(&queue);
    Box::pin(async move {
        let now = now.await?.map(|value| value.version);
        inner.values().until_changed(&queue, now).await
    })
}
