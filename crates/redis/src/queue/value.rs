//! The values of queues: one small hash each, compared and set.

use std::sync::Arc;

use lockkeeper_core::{Expected, Operation, QueueName, Value, ValueVersion};
use lockkeeper_session::Failure;
use redis::{Cmd, Value as Answer, cmd};

use crate::answers::{list, only, text};
use crate::connection::{Batch, answer};
use crate::layout::part_letter;
use crate::script::Script;
use crate::session::{Core, Link, Make};

/// Reads a value by its key.
pub(super) fn get(key: &str) -> Cmd {
    let mut get = cmd("HMGET");
    get.arg(key).arg(&["version", "bytes"]);
    get
}

/// Reads what is stored of a value.
pub(super) fn read_answer(answer: Answer) -> Result<Option<Value>, Failure> {
    let [version, bytes] = <[Answer; 2]>::try_from(list(answer)?).map_err(|_| Failure::unexpected())?;
    match (version, bytes) {
        (Answer::Nil, _) => Ok(None),
        (version, Answer::BulkString(bytes)) => {
            let version = ValueVersion(text(version)?.parse().map_err(|_| Failure::unexpected())?);
            Ok(Some(Value { version, bytes: bytes.into() }))
        }
        _ => Err(Failure::unexpected()),
    }
}

/// Makes the call that reads the value of a queue.
pub(super) fn reading(core: &Arc<Core>, queue: &QueueName) -> Make<Option<Value>> {
    let (core, key) = (core.clone(), core.layout.value(queue));
    Arc::new(move |link: &Arc<Link>| {
        let asking = core.send(link, Batch::new().command(get(&key)), Operation::Value);
        Box::pin(async move { read_answer(answer(only(asking.await?)?, "HMGET")?) })
    })
}

/// Makes the call that writes or removes it. It names the connection's epoch, as a join does.
pub(super) fn writing(
    core: &Arc<Core>,
    queue: &QueueName,
    expected: Expected,
    value: Option<Arc<[u8]>>,
) -> Make<Option<ValueVersion>> {
    let (core, part, name) = (core.clone(), part_letter(queue.part()), queue.encoded());
    let expected = match expected {
        Expected::Any => "any".to_owned(),
        Expected::Absent => "absent".to_owned(),
        Expected::Version(version) => version.0.to_string(),
    };
    Arc::new(move |link: &Arc<Link>| {
        let (session, epoch) = (core.id.to_string(), core.epoch(link.number));
        let texts = [&*session, &*epoch, part, &*name, &*expected, if value.is_some() { "set" } else { "remove" }];
        let mut arguments: Vec<&[u8]> = texts.iter().map(|text| text.as_bytes()).collect();
        arguments.extend(value.as_deref());
        let batch = Batch::new().script(core.layout.script(Script::SetValue), &[core.layout.base()], arguments);
        let (asking, link) = (core.send(link, batch, Operation::Value), link.clone());
        Box::pin(async move {
            let mut answer = list(answer(only(asking.await?)?, "set_value")?)?.into_iter();
            let mut next = || text(answer.next().ok_or_else(Failure::unexpected)?);
            match next()?.as_str() {
                "ok" => Ok(Some(ValueVersion(next()?.parse().map_err(|_| Failure::unexpected())?))),
                "no" => Ok(None),
                word => Err(Failure::refused(word, &*link)),
            }
        })
    })
}
