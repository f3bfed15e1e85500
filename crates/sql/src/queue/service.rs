//! Queues in a database: the calls of one session, each one statement, and what is told of its contenders.

use std::sync::Arc;

use lockkeeper_core::{
    BoxFuture, ContenderId, Departure, Entry, ErrorKind, Expected, Extent, Freshness, Lifetime, LossReason, QueueName,
    QueueView, Rank, Request, Ticket, Value, ValueVersion,
};
use lockkeeper_session::{
    Ask, Departing, Failure, Joined, Left, Life, Link as _, Refusal, Service, Stage, Stood, Stored, Watch,
};

use crate::queue::place::{Own, id_of, ticket_of};
use crate::queue::rows::{Answer, mode_number, version};
use crate::queue::watch::{self, Watches};
use crate::queue::{departure, guard, record};
use crate::session::{Core, Link, Make};
use crate::statement::{Argument, Statement, UNWANTED, part_number};

/// One session's queues in a database.
pub(crate) struct Sql {
    pub(super) core: Arc<Core>,
    pub(super) watches: Watches,
}

/// The queues of one session.
pub(super) type Queues = lockkeeper_session::Queues<Sql>;

/// A session of a keeper.
pub(crate) type SqlSession = lockkeeper_session::QueueSession<Sql>;

/// Takes a session for locks.
pub(crate) fn begin(core: Arc<Core>) -> SqlSession {
    SqlSession::new(Sql { core, watches: Watches::default() }, guard::run)
}

impl Sql {
    /// Makes the call of one statement, whose first arguments name the session and, where the connection must be its
    /// latest, that one's epoch.
    pub(super) fn run<T: Send + 'static>(
        &self,
        statement: impl Fn(&Link) -> Statement + Send + Sync + 'static,
        read: impl Fn(&Link, Answer) -> Result<T, Failure> + Clone + Send + Sync + 'static,
    ) -> Make<T> {
        let core = self.core.clone();
        Arc::new(move |link: &Arc<Link>| {
            let (asking, link, read) = (core.ask(link, statement(link)), link.clone(), read.clone());
            Box::pin(async move { read(&link, Answer::read(asking.await?)?) })
        })
    }
}

impl Service for Sql {
    type Link = Link;
    type Own = Own;

    fn life(&self) -> &Arc<Life<Link>> {
        &self.core.life
    }

    fn refusal(&self, _queue: &QueueName, entries: &[Entry]) -> Option<Refusal> {
        let first = entries.first()?;
        let differs = |entry: &Entry| is_persistent(entry) != is_persistent(first) || anchor(entry) != anchor(first);
        let message = "places that are taken together stand together, and live as long as each other";
        entries.iter().any(differs).then(|| (ErrorKind::Unsupported, message.to_owned()))
    }

    fn join(queues: &Arc<Queues>, queue: &QueueName, entries: &[Entry], shows_whole: bool) -> Make<Joined<Own>> {
        let core = queues.service.core.clone();
        let [name, part] = named(queue);
        let fixed = [
            name,
            part,
            Argument::Ids(entries.iter().map(|entry| entry.ticket.bits()).collect()),
            Argument::Bytes(entries.iter().map(|entry| mode_number(entry.mode)).collect()),
            Argument::Flag(is_persistent(&entries[0])),
            Argument::OptionalId(anchor(&entries[0]).and_then(ticket_of).map(Ticket::bits)),
            Argument::Text(record::texts(entries, core.life.clock.unix_time())),
            Argument::Flag(shows_whole),
        ];
        let tickets: Arc<[_]> = entries.iter().map(|entry| entry.ticket).collect();
        let queues = Arc::downgrade(queues);
        Arc::new(move |link: &Arc<Link>| {
            let asked_at = core.life.clock.now();
            let (ours, all) = (queues.clone(), tickets.clone());
            let is_wanted = move || ours.upgrade().is_some_and(|queues| all.iter().all(|ticket| queues.wants(*ticket)));
            let asking = core.ask(link, of_epoch(&core, link, "join", &fixed).while_wanted(is_wanted));
            let (link, tickets) = (link.clone(), tickets.clone());
            Box::pin(async move {
                let answer = Answer::read(asking.await?)?;
                match answer.word.as_str() {
                    "ok" => {}
                    "anchor" => return Ok(Joined::AnchorGone),
                    UNWANTED => return Ok(Joined::Withdrawn),
                    "full" => {
                        let why = "the queue has no room: too many contenders stand beside one, or its numbers end";
                        return Ok(Joined::Full(why));
                    }
                    word => return Err(Failure::refused(word, &*link)),
                }
                let (stored, view) = (answer.stored()?, answer.view(link.connection_number())?);
                let stood = |ticket: &Ticket| {
                    // Those that are gone again are left out.
                    let token = stored.iter().find(|stored| stored.ticket == *ticket)?.token;
                    Some(Stood { id: id_of(*ticket), token: Some(token), own: Own::default() })
                };
                Ok(Joined::Stored(Stored { stood: tickets.iter().map(stood).collect(), view, asked_at }))
            })
        })
    }

    fn leave(&self, queue: &QueueName, ticket: Ticket, _id: Option<&ContenderId>, _why: bool) -> Make<Left> {
        let [name, part] = named(queue);
        let statement = Statement::new("leave", vec![self.core.id.into(), name, part, ticket.into()]);
        let core = self.core.clone();
        self.run(
            move |_| statement.clone(),
            move |link, answer| {
                // Those of this process that wait for it need not be told by the server.
                core.waits.left(link, ticket);
                Ok(match answer.word.as_str() {
                    "left" => Left::Removed,
                    "broken" => Left::Gone(LossReason::Broken),
                    "gone" => Left::Gone(LossReason::Expired),
                    _ => Left::Gone(LossReason::Removed),
                })
            },
        )
    }

    fn look(&self, queue: &QueueName, _freshness: Freshness, extent: Extent<'_>) -> Make<QueueView> {
        let statement = looking(queue, extent);
        let read = |link: &Link, answer: Answer| answer.view(link.connection_number());
        self.run(move |_| statement.clone(), read)
    }

    fn request(
        &self,
        queue: &QueueName,
        contender: &ContenderId,
        request: &Request,
    ) -> Result<Option<Make<bool>>, Refusal> {
        let Some(ticket) = ticket_of(contender) else { return Ok(None) };
        let (token, ask) = match request {
            Request::Yield(revocation) => (None, Some(Ask::of(revocation).to_text())),
            Request::Break { token } if token.turn() == 0 => (Some(token.as_i64()), None),
            // Only a process knows its turns.
            Request::Break { .. } => return Ok(None),
            _ => return Err((ErrorKind::Unsupported, "there is no such request on a database".to_owned())),
        };
        let [name, part] = named(queue);
        let arguments = vec![name, part, ticket.into(), Argument::OptionalInt(token), Argument::OptionalText(ask)];
        let statement = Statement::new("request", arguments);
        let read = |_: &Link, answer: Answer| Ok(answer.number()? == 1);
        Ok(Some(self.run(move |_| statement.clone(), read)))
    }

    fn value(&self, queue: &QueueName) -> Make<Option<Value>> {
        let statement = Statement::new("value", named(queue).into());
        self.run(move |_| statement.clone(), |_, answer| answer.value())
    }

    fn set_value(&self, queue: &QueueName, expected: Expected, value: Option<Arc<[u8]>>) -> Make<Option<ValueVersion>> {
        let (expected, version_before) = match expected {
            Expected::Any => (0, 0),
            Expected::Absent => (1, 0),
            // No value of ours was ever in a state that a database cannot count.
            Expected::Version(version) => (2, i64::try_from(version.0).unwrap_or(i64::MAX)),
        };
        let [name, part] = named(queue);
        let value = Argument::OptionalBytes(value.map(|value| value.to_vec()));
        let fixed = [name, part, Argument::Int(expected), Argument::Int(version_before), value];
        let core = self.core.clone();
        let statement = move |link: &Link| of_epoch(&core, link, "set_value", &fixed);
        self.run(statement, |link, answer| match answer.word.as_str() {
            "ok" => version(answer.number()?).map(Some),
            "no" => Ok(None),
            word => Err(Failure::refused(word, link)),
        })
    }

    fn watch_queue(queues: &Arc<Queues>, queue: &QueueName) -> Watch<Link, QueueView> {
        let read = |link: &Link, answer: Answer| answer.view(link.connection_number());
        watch::begin(queues, queue, looking(queue, Extent::Whole), read)
    }

    fn watch_value(queues: &Arc<Queues>, queue: &QueueName) -> Watch<Link, Option<Value>> {
        watch::begin(queues, queue, Statement::new("value", named(queue).into()), |_, answer| answer.value())
    }

    fn depart(queues: &Arc<Queues>, departing: Departing<Self>) -> BoxFuture<Result<Departure, Failure>> {
        departure::begin(queues, departing)
    }

    fn note(queues: &Arc<Queues>, stage: Stage<'_, Own>) {
        let core = &queues.service.core;
        match stage {
            // A new connection would remove what it does not expect.
            Stage::Joining(ticket) => core.contenders.expect(ticket),
            Stage::Placed(place) => core.contenders.add(place.ticket, ()),
            Stage::Shown(place, view) => place.own.note(view.ahead_of(&place.id)),
            Stage::Gone(ticket) | Stage::Kept(ticket) => core.contenders.remove(ticket),
        }
    }
}

const fn is_persistent(entry: &Entry) -> bool {
    matches!(entry.lifetime, Lifetime::Persistent { .. })
}

/// The contender beside which an entry is to stand.
const fn anchor(entry: &Entry) -> Option<&ContenderId> {
    match &entry.rank {
        Rank::Tail => None,
        Rank::With(anchor) => Some(anchor),
    }
}

/// How a statement names a queue: its name, and its part.
pub(super) fn named(queue: &QueueName) -> [Argument; 2] {
    [Argument::Text(queue.as_str().to_owned()), Argument::Int(part_number(queue.part()))]
}

/// The statement that looks at a queue.
pub(super) fn looking(queue: &QueueName, extent: Extent<'_>) -> Statement {
    let (around, whole) = match extent {
        Extent::Whole => (None, true),
        // What is no contender of ours is not there.
        Extent::Around(place) => (place.and_then(ticket_of), false),
    };
    let [name, part] = named(queue);
    Statement::new("look", vec![name, part, Argument::OptionalId(around.map(Ticket::bits)), Argument::Flag(whole)])
}

/// The statement that has an effect only while this connection is the session's latest.
pub(super) fn of_epoch(core: &Core, link: &Link, function: &'static str, fixed: &[Argument]) -> Statement {
    let mut arguments = vec![core.id.into(), Argument::Int(core.epoch(link.number))];
    arguments.extend_from_slice(fixed);
    Statement::new(function, arguments)
}
