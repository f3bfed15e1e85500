//! Joins, and the values of queues.
//!
//! The script of a join stores all entries of one call, and shows the queue. It stores them only if none of them is
//! there yet and the epoch is that of the session's present connection. A value is one small hash, compared and set.

use std::sync::Arc;

use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{Entry, Expected, Lifetime, Operation, QueueName, QueueView, Rank, Value, ValueVersion};
use lockkeeper_session::{Failure, Joined, Link as _, Make, Record, Stood, Stored};
use redis::{Cmd, Value as Answer, cmd};

use crate::connection::{Batch, answer, list, number, only, text, texts};
use crate::layout::{QueueMember, listed, mode_letter, part_letter};
use crate::queue::state::RedisOwn;
use crate::queue::view;
use crate::script::Script;
use crate::session::{Core, RedisLink, check_copies, copied};

pub(super) fn join(
    core: &Arc<Core>,
    queue: &QueueName,
    entries: &[Entry],
    shows_whole: bool,
) -> Make<RedisLink, Joined<RedisOwn>> {
    let (core, fixed) = (core.clone(), join_arguments(core, queue, entries, shows_whole));
    Arc::new(move |link: &Arc<RedisLink>| {
        let (session, epoch) = (core.id.to_string(), core.epoch(link.number));
        let arguments: Vec<_> = [&session, &epoch].into_iter().chain(&fixed).collect();
        let batch = Batch::new().script(core.layout.script(Script::Join), &[core.layout.base()], arguments);
        let asked_at = core.life.clock.now();
        let asking = core.send(link, copied(batch, &core.config), Operation::Join);
        let (core, link) = (core.clone(), link.clone());
        Box::pin(async move { read_join(&core, &link, asking.await?, asked_at) })
    })
}

/// The arguments of the script, but for those that a connection determines: the first two.
fn join_arguments(core: &Core, queue: &QueueName, entries: &[Entry], shows_whole: bool) -> Vec<String> {
    let since_unix = core.life.clock.unix_time();
    let extent = if shows_whole { "whole" } else { "around" };
    let timeout_ms = core.timing.timeout.as_millis().to_string();
    let mut arguments =
        vec![timeout_ms, part_letter(queue.part()).to_owned(), queue.encoded(), listed(queue), extent.to_owned()];
    for entry in entries {
        let anchor = match &entry.rank {
            Rank::Tail => String::new(),
            Rank::With(anchor) => anchor.as_str().to_owned(),
        };
        let lifetime = match entry.lifetime {
            Lifetime::Session => "s",
            Lifetime::Persistent { .. } => "p",
        };
        let record = Record::of(entry, since_unix).to_text();
        let mode = mode_letter(entry.mode).to_owned();
        arguments.extend([mode, entry.ticket.to_string(), anchor, lifetime.to_owned(), record]);
    }
    arguments
}

/// Reads the answers: of the script, and of the replicas that are waited for.
fn read_join(
    core: &Core,
    link: &RedisLink,
    answers: Vec<Answer>,
    asked_at: BootInstant,
) -> Result<Joined<RedisOwn>, Failure> {
    let mut answers = answers.into_iter();
    let answer = answer(answers.next().ok_or_else(Failure::unexpected)?, "join")?;
    let (members, view, guard_ms) = if let Answer::BulkString(bytes) = &answer {
        let (member, guard_ms) = read_alone(bytes).ok_or_else(Failure::unexpected)?;
        (vec![Some(member)], QueueView::new(link.connection_number(), vec![member.contender()]), guard_ms)
    } else {
        let mut answer = list(answer)?.into_iter();
        let mut next = || answer.next().ok_or_else(Failure::unexpected);
        match text(next()?)?.as_str() {
            "ok" => {}
            "anchor" => return Ok(Joined::AnchorGone),
            "full" => return Ok(Joined::Full("too many contenders stand beside one")),
            word => return Err(Failure::refused(word, link)),
        }
        let members = texts(next()?)?.iter().map(|member| QueueMember::parse(member)).collect();
        (members, view::read(link.connection_number(), next()?)?, number(&next()?)?)
    };
    if let Err(failure) = check_copies(&core.config, &mut answers) {
        return Ok(Joined::Unsafe(failure));
    }
    core.renewed(asked_at);
    core.heard_of_guard(guard_ms);
    let stood = |member: QueueMember| Stood { id: member.id(), token: member.token(), own: RedisOwn::default() };
    let stood = members.into_iter().map(|member| member.map(stood)).collect();
    Ok(Joined::Stored(Stored { stood, view, asked_at }))
}

/// Reads the answer to the only contender of a lock: its member, and the least guard, in milliseconds.
fn read_alone(answer: &[u8]) -> Option<(QueueMember, u64)> {
    let (member, guard_ms) = str::from_utf8(answer).ok()?.strip_prefix("ok ")?.split_once(' ')?;
    Some((QueueMember::parse(member)?, guard_ms.parse().ok()?))
}

pub(super) fn get_value(key: &str) -> Cmd {
    let mut get = cmd("HMGET");
    get.arg(key).arg(&["version", "bytes"]);
    get
}

/// Reads what is stored of a value.
pub(super) fn read_value_answer(answer: Answer) -> Result<Option<Value>, Failure> {
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

pub(super) fn read_value(core: &Arc<Core>, queue: &QueueName) -> Make<RedisLink, Option<Value>> {
    let (core, key) = (core.clone(), core.layout.value(queue));
    Arc::new(move |link: &Arc<RedisLink>| {
        let asking = core.send(link, Batch::new().command(get_value(&key)), Operation::Value);
        Box::pin(async move { read_value_answer(answer(only(asking.await?)?, "HMGET")?) })
    })
}

/// Makes the call that writes or removes it. It names the connection's epoch, as a join does.
pub(super) fn write_value(
    core: &Arc<Core>,
    queue: &QueueName,
    expected: Expected,
    value: Option<Arc<[u8]>>,
) -> Make<RedisLink, Option<ValueVersion>> {
    let (core, part, name) = (core.clone(), part_letter(queue.part()), queue.encoded());
    let expected = match expected {
        Expected::Any => "any".to_owned(),
        Expected::Absent => "absent".to_owned(),
        Expected::Version(version) => version.0.to_string(),
    };
    Arc::new(move |link: &Arc<RedisLink>| {
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
