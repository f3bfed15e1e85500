//! Queues in Redis: the calls of one session, each one script, and the notifications about its contenders.
//!
//! It decides nothing: which contender may go, the recipes know. How a session lives, `session` knows.
//!
//! The script of a join stores all entries of one call, and shows the queue. It stores them only if none of them is
//! there yet and the epoch is that of the session's present connection. A value is one small hash, compared and set.
//!
//! - `view`: what is shown of queues. `watch`: waits, and our own contenders.

pub(crate) mod view;
mod watch;

use std::sync::Arc;

use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{
    BoxFuture, ContenderId, Departure, Entry, ErrorKind, Expected, Extent, Freshness, LossReason, Operation, QueueName,
    QueueView, Request, Ticket, Value, ValueVersion,
};
use lockkeeper_session::{
    Ask, Departing, Failure, Joined, Left, Life, Link as _, Make, Record, Refusal, Service, Stage, Stood, Stored,
    Watch, Young, anchor, outlives_session, part_letter,
};
use redis::{Cmd, Value as Answer, cmd};

use crate::connection::{Batch, answer, list, number, only, text, texts};
use crate::layout::{QueueMember, listed, mode_letter};
use crate::queue::view::is_foreign;
use crate::queue::watch::{Queues, Redis, RedisOwn, note_turn, run_guard};
use crate::script::Script;
use crate::session::{Core, RedisLink, check_copies, copied};

pub(crate) type RedisSession = lockkeeper_session::QueueSession<Redis>;

pub(crate) fn begin(core: Arc<Core>) -> RedisSession {
    RedisSession::new(Redis { core, young: Young::default() }, run_guard)
}

impl Redis {
    fn run<T: Send + 'static>(
        &self,
        script: Script,
        arguments: Vec<Vec<u8>>,
        operation: Operation,
        read: impl Fn(&RedisLink, Answer) -> Result<T, Failure> + Clone + Send + Sync + 'static,
    ) -> Make<RedisLink, T> {
        let core = self.core.clone();
        Arc::new(move |link: &Arc<RedisLink>| {
            let script = core.layout.script(script);
            let batch = Batch::new().script(script, &[core.layout.base()], &arguments[..]);
            let (asking, link, read) = (core.send(link, batch, operation), link.clone(), read.clone());
            Box::pin(async move { read(&link, answer(only(asking.await?)?, script.name)?) })
        })
    }
}

impl Service for Redis {
    type Link = RedisLink;
    type Own = RedisOwn;

    fn life(&self) -> &Arc<Life<RedisLink>> {
        &self.core.life
    }

    fn refusal(&self, queue: &QueueName, _entries: &[Entry]) -> Option<Refusal> {
        self.core.layout.refusal(queue).map(|why| (ErrorKind::InvalidName, why))
    }

    fn join(
        queues: &Arc<Queues>,
        queue: &QueueName,
        entries: &[Entry],
        shows_whole: bool,
    ) -> Make<RedisLink, Joined<RedisOwn>> {
        let core = queues.service.core.clone();
        let fixed = join_arguments(&core, queue, entries, shows_whole);
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

    /// By one of two scripts: the one that does not ask for the session is cheaper.
    fn leave(&self, queue: &QueueName, ticket: Ticket, id: Option<&ContenderId>, why: bool) -> Make<RedisLink, Left> {
        let script = if why { Script::LeaveJudged } else { Script::LeaveBelieved };
        let member = id.map(ContenderId::as_str).unwrap_or_default();
        let (session, part, name) = (self.core.id.to_string(), part_letter(queue.part()), queue.encoded());
        let arguments = arguments([&session, part, &name, &ticket.to_string(), member]);
        self.run(script, arguments, Operation::Leave, move |_, answer| {
            Ok(match text(answer)?.as_str() {
                "left" if why => Left::Removed,
                "left" => Left::RemovedUnproven,
                "absent" => Left::Absent,
                "broken" => Left::Gone(LossReason::Broken),
                "gone" => Left::Gone(LossReason::Expired),
                // A contender that is there in part was deleted by hand.
                _ => Left::Gone(LossReason::Removed),
            })
        })
    }

    fn look(&self, queue: &QueueName, _freshness: Freshness, extent: Extent<'_>) -> Make<RedisLink, QueueView> {
        let (place, extent) = match extent {
            Extent::Whole => ("", "whole"),
            // Only contenders of ours have places in the order.
            Extent::Around(Some(place)) if QueueMember::of(place).is_some() => (place.as_str(), "around"),
            Extent::Around(_) => ("", "around"),
        };
        let arguments = arguments([part_letter(queue.part()), &queue.encoded(), place, extent]);
        let read = |link: &RedisLink, answer| view::read(link.connection_number(), answer);
        self.run(Script::Look, arguments, Operation::View, read)
    }

    fn request(
        &self,
        queue: &QueueName,
        contender: &ContenderId,
        request: &Request,
    ) -> Result<Option<Make<RedisLink, bool>>, Refusal> {
        let refuse = |message: &str| Err((ErrorKind::Unsupported, message.to_owned()));
        if is_foreign(contender) {
            return refuse("the lock is another client's plain key, which hears no request");
        }
        let Some(member) = QueueMember::of(contender) else { return Ok(None) };
        let (what, text) = match request {
            Request::Yield(revocation) => ("yield", Ask::of(revocation).to_text()),
            Request::Break { token } if Some(*token) == member.token() => ("break", String::new()),
            Request::Break { .. } => return Ok(None),
            _ => return refuse("there is no such request on Redis"),
        };
        let arguments = arguments([part_letter(queue.part()), &queue.encoded(), contender.as_str(), what, &text]);
        let read = |_: &RedisLink, answer| Ok(number(&answer)? == 1);
        Ok(Some(self.run(Script::Request, arguments, Operation::Request, read)))
    }

    fn value(&self, queue: &QueueName) -> Make<RedisLink, Option<Value>> {
        let (core, key) = (self.core.clone(), self.core.layout.value(queue));
        Arc::new(move |link: &Arc<RedisLink>| {
            let asking = core.send(link, Batch::new().command(get_value(&key)), Operation::Value);
            Box::pin(async move { read_value_answer(answer(only(asking.await?)?, "HMGET")?) })
        })
    }

    /// It names the connection's epoch, as a join does.
    fn set_value(
        &self,
        queue: &QueueName,
        expected: Expected,
        value: Option<Arc<[u8]>>,
    ) -> Make<RedisLink, Option<ValueVersion>> {
        let (core, part, name) = (self.core.clone(), part_letter(queue.part()), queue.encoded());
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

    fn watch_queue(queues: &Arc<Queues>, queue: &QueueName) -> Watch<RedisLink, QueueView> {
        let core = &queues.service.core;
        let mut keys = core.layout.queues(queue);
        keys.extend(core.layout.plain(queue).map(str::to_owned));
        let look = [part_letter(queue.part()).to_owned(), queue.encoded(), String::new(), "whole".to_owned()];
        let layout = core.layout.clone();
        let looking = move |batch: Batch| batch.script(layout.script(Script::Look), &[layout.base()], &look[..]);
        let read = |link: &RedisLink, shown| view::read(link.connection_number(), answer(shown, "look")?);
        watch::begin_watch(core, keys, looking, read)
    }

    fn watch_value(queues: &Arc<Queues>, queue: &QueueName) -> Watch<RedisLink, Option<Value>> {
        let key = queues.service.core.layout.value(queue);
        let keys = vec![key.clone()];
        let reading = move |batch: Batch| batch.command(get_value(&key));
        let read = |_: &RedisLink, read| read_value_answer(answer(read, "HMGET")?);
        watch::begin_watch(&queues.service.core, keys, reading, read)
    }

    fn depart(queues: &Arc<Queues>, departing: Departing<Self>) -> BoxFuture<Result<Departure, Failure>> {
        watch::depart(queues, departing)
    }

    fn note(queues: &Arc<Queues>, stage: Stage<'_, RedisOwn>) {
        let Self { core, young } = &queues.service;
        match stage {
            Stage::Joining(_) => {}
            Stage::Placed(place) => {
                let queue = &place.queue;
                let at = [part_letter(queue.part()).to_owned(), queue.encoded(), place.id.to_string()];
                core.contenders.add(place.ticket, at);
                young.add(place);
            }
            Stage::Shown(place, view) => note_turn(queues, place, view),
            Stage::Gone(ticket) | Stage::Kept(ticket) => core.contenders.remove(ticket),
        }
    }
}

fn arguments<const N: usize>(texts: [&str; N]) -> Vec<Vec<u8>> {
    texts.into_iter().map(|text| text.as_bytes().to_vec()).collect()
}

/// The arguments of the script, but for those that a connection determines: the first two.
fn join_arguments(core: &Core, queue: &QueueName, entries: &[Entry], shows_whole: bool) -> Vec<String> {
    let since_unix = core.life.clock.unix_time();
    let extent = if shows_whole { "whole" } else { "around" };
    let timeout_ms = core.timing.timeout.as_millis().to_string();
    let mut arguments =
        vec![timeout_ms, part_letter(queue.part()).to_owned(), queue.encoded(), listed(queue), extent.to_owned()];
    for entry in entries {
        let anchor = anchor(entry).map(ContenderId::as_str).unwrap_or_default();
        let lifetime = if outlives_session(entry) { "p" } else { "s" };
        let (ticket, record) = (entry.ticket.to_string(), Record::of(entry, since_unix).to_text());
        let fixed = [mode_letter(entry.mode), &ticket, anchor, lifetime, &record];
        arguments.extend(fixed.map(str::to_owned));
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

fn get_value(key: &str) -> Cmd {
    let mut get = cmd("HMGET");
    get.arg(key).arg(&["version", "bytes"]);
    get
}

/// Reads what is stored of a value.
fn read_value_answer(answer: Answer) -> Result<Option<Value>, Failure> {
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
