//! The queues, as locks see them: the calls of one session in a database, each one statement, and the notifications
//! about its contenders.
//!
//! It decides nothing: which contender may go, the recipes know. How a session lives, `session` knows.

mod dead;
mod waits;

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::{
    BoxFuture, ContenderId, Departure, Entry, ErrorKind, Expected, Extent, Freshness, LossReason, QueueName, QueueView,
    Request, Ticket, Value, ValueVersion,
};
use lockkeeper_session::{
    Ask, Departing, Failure, Joined, Left, Life, Link as _, Make, Record, Refusal, Service, Stage, Stood, Stored,
    Watch, anchor, outlives_session,
};

use crate::answer::{SqlAnswer, id_of, mode_number, ticket_of, version};
use crate::look::SqlLink;
use crate::queue::waits::{AheadCount, QueueWatches};
use crate::session::Core;
use crate::statement::{Argument, Statement, UNWANTED, looking, named};

/// One session's queues in a database.
pub(crate) struct Sql {
    core: Arc<Core>,
    watches: Arc<QueueWatches>,
}

type Queues = lockkeeper_session::Queues<Sql>;

pub(crate) type SqlSession = lockkeeper_session::QueueSession<Sql>;

pub(crate) fn begin(core: Arc<Core>) -> SqlSession {
    SqlSession::new(Sql { watches: QueueWatches::new(core.clone()), core }, |queues: Arc<Queues>| async move {
        queues.hear_of(&queues.service.core.contenders).await;
    })
}

impl Sql {
    /// Makes the call of one statement, whose first arguments name the session and, where the connection must be its
    /// latest, that one's epoch.
    fn run<T: Send + 'static>(
        &self,
        statement: impl Fn(&SqlLink) -> Statement + Send + Sync + 'static,
        read: impl Fn(&SqlLink, SqlAnswer) -> Result<T, Failure> + Clone + Send + Sync + 'static,
    ) -> Make<SqlLink, T> {
        let core = self.core.clone();
        Arc::new(move |link: &Arc<SqlLink>| {
            let (asking, link, read) = (core.ask(link, statement(link)), link.clone(), read.clone());
            Box::pin(async move { read(&link, SqlAnswer::read(asking.await?)?) })
        })
    }
}

impl Service for Sql {
    type Link = SqlLink;
    type Own = AheadCount;

    fn life(&self) -> &Arc<Life<SqlLink>> {
        &self.core.life
    }

    fn refusal(&self, _queue: &QueueName, entries: &[Entry]) -> Option<Refusal> {
        let first = entries.first()?;
        let differs =
            |entry: &Entry| outlives_session(entry) != outlives_session(first) || anchor(entry) != anchor(first);
        let message = "places that are taken together stand together, and live as long as each other";
        entries.iter().any(differs).then(|| (ErrorKind::Unsupported, message.to_owned()))
    }

    fn join(
        queues: &Arc<Queues>,
        queue: &QueueName,
        entries: &[Entry],
        shows_whole: bool,
    ) -> Make<SqlLink, Joined<AheadCount>> {
        let core = queues.service.core.clone();
        let [name, part] = named(queue);
        let fixed = [
            name,
            part,
            Argument::Ids(entries.iter().map(|entry| entry.ticket.bits()).collect()),
            Argument::Bytes(entries.iter().map(|entry| mode_number(entry.mode)).collect()),
            Argument::Flag(outlives_session(&entries[0])),
            Argument::OptionalId(anchor(&entries[0]).and_then(ticket_of).map(Ticket::bits)),
            Argument::Text(records(entries, core.life.clock.unix_time())),
            Argument::Flag(shows_whole),
        ];
        let tickets: Arc<[_]> = entries.iter().map(|entry| entry.ticket).collect();
        let queues = Arc::downgrade(queues);
        Arc::new(move |link: &Arc<SqlLink>| {
            let asked_at = core.life.clock.now();
            let (ours, all) = (queues.clone(), tickets.clone());
            let is_wanted = move || ours.upgrade().is_some_and(|queues| all.iter().all(|ticket| queues.wants(*ticket)));
            let asking = core.ask(link, core.of_epoch(link, "join", &fixed).while_wanted(is_wanted));
            let (link, tickets) = (link.clone(), tickets.clone());
            Box::pin(async move {
                let answer = SqlAnswer::read(asking.await?)?;
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
                    Some(Stood { id: id_of(*ticket), token: Some(token), own: AheadCount::default() })
                };
                Ok(Joined::Stored(Stored { stood: tickets.iter().map(stood).collect(), view, asked_at }))
            })
        })
    }

    fn leave(&self, queue: &QueueName, ticket: Ticket, _id: Option<&ContenderId>, _why: bool) -> Make<SqlLink, Left> {
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
                    _ => Left::Gone(core.reason_of_absence(ticket)),
                })
            },
        )
    }

    fn look(&self, queue: &QueueName, _freshness: Freshness, extent: Extent<'_>) -> Make<SqlLink, QueueView> {
        let statement = looking(queue, extent);
        let read = |link: &SqlLink, answer: SqlAnswer| answer.view(link.connection_number());
        self.run(move |_| statement.clone(), read)
    }

    fn request(
        &self,
        queue: &QueueName,
        contender: &ContenderId,
        request: &Request,
    ) -> Result<Option<Make<SqlLink, bool>>, Refusal> {
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
        let read = |_: &SqlLink, answer: SqlAnswer| Ok(answer.number()? == 1);
        Ok(Some(self.run(move |_| statement.clone(), read)))
    }

    fn value(&self, queue: &QueueName) -> Make<SqlLink, Option<Value>> {
        let statement = Statement::new("value", named(queue).into());
        self.run(move |_| statement.clone(), |_, answer| answer.value())
    }

    fn set_value(
        &self,
        queue: &QueueName,
        expected: Expected,
        value: Option<Arc<[u8]>>,
    ) -> Make<SqlLink, Option<ValueVersion>> {
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
        let statement = move |link: &SqlLink| core.of_epoch(link, "set_value", &fixed);
        self.run(statement, |link, answer| match answer.word.as_str() {
            "ok" => version(answer.number()?).map(Some),
            "no" => Ok(None),
            word => Err(Failure::refused(word, link)),
        })
    }

    fn watch_queue(queues: &Arc<Queues>, queue: &QueueName) -> Watch<SqlLink, QueueView> {
        let read = |link: &SqlLink, answer: SqlAnswer| answer.view(link.connection_number());
        queues.service.watches.begin(queue, looking(queue, Extent::Whole), read)
    }

    fn watch_value(queues: &Arc<Queues>, queue: &QueueName) -> Watch<SqlLink, Option<Value>> {
        let look = Statement::new("value", named(queue).into());
        queues.service.watches.begin(queue, look, |_, answer| answer.value())
    }

    fn depart(queues: &Arc<Queues>, departing: Departing<Self>) -> BoxFuture<Result<Departure, Failure>> {
        let Departing { link, ahead, mine, .. } = departing;
        match ticket_of(&ahead) {
            Some(ahead) => waits::depart(queues.service.core.clone(), link, ahead, mine),
            // No contender here ever had that name.
            None => Box::pin(std::future::ready(Ok(Departure::Gone))),
        }
    }

    fn outwait_dead(queues: &Arc<Queues>, lock: &QueueName) -> BoxFuture<bool> {
        let (queues, lock) = (queues.clone(), lock.clone());
        Box::pin(async move { dead::outwait(&queues.service, &lock).await })
    }

    fn note(queues: &Arc<Queues>, stage: Stage<'_, AheadCount>) {
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

/// Writes the records of the entries of one join: a line for all if they are the same, else a line each.
fn records(entries: &[Entry], since_unix: Duration) -> String {
    let mut lines: Vec<_> = entries.iter().map(|entry| Record::of(entry, since_unix).to_text()).collect();
    lines.dedup();
    if lines.len() > 1 {
        lines = entries.iter().map(|entry| Record::of(entry, since_unix).to_text()).collect();
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use lockkeeper_core::{Mode, Owner, Ticket};

    use super::*;

    #[test]
    fn equal_records_are_sent_once_and_others_one_by_one() {
        let entry = |command: &str| {
            Entry::new(Ticket::from_bits(1), Mode::Mutex, Arc::new(Owner::new("web-3", 4_121, command)))
        };
        let lines = |entries: &[Entry]| records(entries, Duration::ZERO).lines().count();
        assert_eq!(lines(&[entry("a"), entry("a"), entry("a")]), 1);
        assert_eq!(lines(&[entry("a"), entry("a"), entry("b")]), 3);
    }
}
