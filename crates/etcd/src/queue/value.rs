//! The values of queues: one key each, compared and set.

use std::sync::Arc;

use lockkeeper_core::{Expected, Operation, QueueName, Value, ValueVersion};
use lockkeeper_session::{Effect, Failure, Lookable as _};

use crate::proto::{KeyValue, RangeRequest, RangeResponse, Response, ResponseOp};
use crate::queue::inner::Inner;
use crate::queue::service::Make;
use crate::rpc::{absent, delete, key_range, modified_at, no_room, put};
use crate::session::{Link, header};

/// The state of a value is where tokens begin and the revision at which it was written: a service that begins anew uses
/// its revisions again.
fn version(offset: u64, revision: i64) -> ValueVersion {
    ValueVersion(u128::from(offset) + u128::from(revision.cast_unsigned()))
}

/// Returns the revision of a state, if it is one of this service.
fn revision(offset: u64, version: ValueVersion) -> Option<i64> {
    i64::try_from(version.0.checked_sub(u128::from(offset))?).ok()
}

fn read_answer(inner: &Inner, answer: RangeResponse) -> Option<Value> {
    let offset = inner.core.epoch().offset;
    let value = |kv: KeyValue| Value { version: version(offset, kv.mod_revision), bytes: kv.value.into() };
    answer.kvs.into_iter().next().map(value)
}

/// Makes the call that reads the value of a queue.
pub(super) fn reading(inner: &Arc<Inner>, queue: &QueueName) -> Make<Option<Value>> {
    let (inner, queue) = (inner.clone(), queue.clone());
    Arc::new(move |link| {
        let (reader, key, over) = (inner.clone(), inner.core.layout.value(&queue), link.clone());
        inner.run_look(&queue, async move {
            let core = &reader.core;
            let answer = core.ask(&over, key_range(key), Operation::Value, core.life.deadline()).await?;
            Ok(read_answer(&reader, answer))
        })
    })
}

/// Reads the value of a queue as the member behind this connection has it.
pub(super) async fn of_member(inner: &Inner, link: &Link, queue: &QueueName) -> Result<Option<Value>, Failure> {
    let range = RangeRequest { serializable: true, ..key_range(inner.core.layout.value(queue)) };
    let answer = inner.core.send(link, range, Operation::Wait, inner.core.life.deadline()).await?;
    Ok(read_answer(inner, answer))
}

/// Makes the call that writes the value of a queue, or removes it, if it is as expected.
pub(super) fn writing(
    inner: &Arc<Inner>,
    queue: &QueueName,
    expected: Expected,
    value: Option<Arc<[u8]>>,
) -> Make<Option<ValueVersion>> {
    let (inner, queue) = (inner.clone(), queue.clone());
    Arc::new(move |link| {
        let (writer, name, value, over) = (inner.clone(), queue.clone(), value.clone(), link.clone());
        inner.run(&queue, async move { write(&writer, &over, &name, expected, value).await })
    })
}

/// Writes under the stamp of the connection, as a join does: a write that was not answered never takes effect behind
/// one that comes after it over the next connection. Without a stamp only a write on a state that was read does so: no
/// state comes twice, but a value can be absent again.
async fn write(
    inner: &Inner,
    link: &Link,
    queue: &QueueName,
    expected: Expected,
    value: Option<Arc<[u8]>>,
) -> Result<Option<ValueVersion>, Failure> {
    let core = &inner.core;
    let (key, offset) = (core.layout.value(queue), core.epoch().offset);
    let is_on_state = matches!(expected, Expected::Version(_));
    let mut conditions = match expected {
        Expected::Any => Vec::new(),
        Expected::Absent => vec![absent(key.clone())],
        Expected::Version(version) => match revision(offset, version) {
            Some(revision) => vec![modified_at(key.clone(), revision)],
            None => return Ok(None),
        },
    };
    let change = match value {
        Some(value) => put(key, &*value, 0),
        None => delete(key),
    };
    let deadline = core.life.deadline();
    if link.stamp.is_none() && !is_on_state {
        // The next connection may find room for one.
        link.connection.shut();
        return Err(no_room());
    }
    let session = core.layout.session(core.lease);
    conditions.extend(link.stamp.map(|stamp| modified_at(session.clone(), stamp)));
    let request = core.meant(conditions, vec![change], vec![key_range(session).into()]);
    let answer = core.ask(link, request, Operation::Value, deadline).await?;
    if answer.succeeded {
        return Ok(Some(version(offset, header(&answer)?.revision)));
    }
    let stamp = match answer.responses.first() {
        Some(ResponseOp { response: Some(Response::Range(range)) }) => range.kvs.first().map(|kv| kv.mod_revision),
        _ => return Err(Failure::unexpected()),
    };
    match stamp {
        None => Err(Failure::session_gone()),
        Some(stamp) if link.stamp.is_some_and(|written| written != stamp) => {
            // Another connection of the session has taken over.
            link.connection.shut();
            Err(Failure::broken(Effect::None))
        }
        Some(_) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_of_a_service_that_began_anew_is_another_one() {
        assert_eq!(revision(1_000, version(1_000, 7)), Some(7));
        assert_ne!(version(1_000, 7), version(2_000, 7));
        assert_eq!(revision(2_000, version(1_000, 7)), None);
    }
}
