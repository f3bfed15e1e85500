//! The values of queues: one small row each, compared and set.

use std::sync::Arc;

use lockkeeper_core::{
    BoxFuture, Error, ErrorKind, Expected, Operation, QueueName, Result, VALUE_BYTES_MAX, Value, ValueVersion,
};
use lockkeeper_session::{Failure, refuse};

use crate::queue::inner::{Inner, named, stale};
use crate::queue::rows::{Answer, version};
use crate::session::{Link, Make};
use crate::statement::{Argument, Statement};

/// Reads the value of a queue.
pub(super) fn read(inner: &Arc<Inner>, queue: &QueueName) -> BoxFuture<Result<Option<Value>>> {
    if let Err(error) = inner.check(Operation::Value, queue) {
        return refuse(error);
    }
    let looking = inner.core.life.look(inner.run(Statement::new("value", named(queue).into()), Operation::Value));
    let (inner, queue) = (inner.clone(), queue.clone());
    Box::pin(async move {
        let value = looking.await.and_then(|(_, answer)| answer.value());
        value.map_err(|failure| inner.fail(failure, Operation::Value, false, &queue))
    })
}

/// Writes the value of a queue, or removes it, if it is as expected. It names the connection's epoch, as a join does: a
/// write that was not answered never takes effect behind one that comes after it over the next connection.
pub(super) fn write(
    inner: &Arc<Inner>,
    queue: &QueueName,
    expected: Expected,
    value: Option<Arc<[u8]>>,
) -> BoxFuture<Result<Option<ValueVersion>>> {
    if value.as_ref().is_some_and(|value| value.len() > VALUE_BYTES_MAX) {
        let message = format!("a value has at most {VALUE_BYTES_MAX} bytes");
        return refuse(Error::permanent(ErrorKind::LimitReached, Operation::Value, message).at(queue));
    }
    if let Err(error) = inner.check(Operation::Value, queue) {
        return refuse(error);
    }
    let Some(expected) = numbers(expected) else {
        // No value of ours was ever in that state.
        return Box::pin(std::future::ready(Ok(None)));
    };
    let writing = inner.core.life.write(making(inner, queue, expected, value));
    let (inner, queue) = (inner.clone(), queue.clone());
    Box::pin(async move { writing.await.map_err(|failure| inner.fail(failure, Operation::Value, true, &queue)) })
}

/// What is expected, and the version if one is; `None` if a database counts no such version.
fn numbers(expected: Expected) -> Option<[i64; 2]> {
    Some(match expected {
        Expected::Any => [0, 0],
        Expected::Absent => [1, 0],
        Expected::Version(version) => [2, i64::try_from(version.0).ok()?],
    })
}

fn making(
    inner: &Arc<Inner>,
    queue: &QueueName,
    expected: [i64; 2],
    value: Option<Arc<[u8]>>,
) -> Make<Option<ValueVersion>> {
    let (core, queue) = (inner.core.clone(), queue.clone());
    let value = value.map(|value| value.to_vec());
    Arc::new(move |link: &Arc<Link>| {
        let [name, part] = named(&queue);
        let [expected, version] = expected.map(Argument::Int);
        let value = Argument::OptionalBytes(value.clone());
        let arguments =
            vec![core.id.into(), Argument::Int(core.epoch(link.number)), name, part, expected, version, value];
        let asking = core.ask(link, Statement::new("set_value", arguments), Operation::Value);
        let link = link.clone();
        Box::pin(async move { judge(&Answer::read(asking.await?)?, &link) })
    })
}

/// Reads how a write ended.
fn judge(answer: &Answer, link: &Link) -> Result<Option<ValueVersion>, Failure> {
    match answer.word.as_str() {
        "ok" => version(answer.number()?).map(Some),
        "no" => Ok(None),
        "gone" => Err(Failure::session_gone()),
        "stale" => Err(stale(link)),
        _ => Err(Failure::unexpected()),
    }
}
