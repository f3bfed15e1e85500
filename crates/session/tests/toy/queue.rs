//! Queues in the toy's server, and how its answers read.

use std::sync::Arc;

use lockkeeper_core::{
    BoxFuture, Contender, ContenderId, Departure, Entry, ErrorKind, Expected, Extent, FencingToken, Freshness,
    Lifetime, LossReason, Mode, Operation, Part, QueueName, QueueView, Rank, Request, Ticket, Value, ValueVersion,
};
use lockkeeper_session::{
    Ask, Departing, Failure, Joined, Left, Life, Link as _, Make, Place, Queues, Record, Refusal, Service, Stage,
    Stood, Stored, Watch,
};
use serde_json::{Value as Json, json};

use crate::session::{Core, Link, ok};

/// All modes, in the order of their numbers.
pub(crate) const MODES: [Mode; 7] =
    [Mode::Mutex, Mode::Read, Mode::Write, Mode::Acquire, Mode::Permit, Mode::Candidate, Mode::Member];

/// One session's queues on the toy's server.
pub(crate) struct Toy(pub(crate) Arc<Core>);

/// Nothing is kept of a contender: its ticket is its name.
#[derive(Debug)]
pub(crate) struct Own;

impl lockkeeper_session::Own for Own {}

/// The question of this kind about a queue.
fn about(op: &str, queue: &QueueName) -> Json {
    let part = match queue.part() {
        Part::Line => 0,
        Part::Waiters => 1,
        Part::Permits => 2,
    };
    json!({"op": op, "lock": queue.as_str(), "part": part})
}

pub(crate) fn mode_number(mode: Mode) -> usize {
    MODES.iter().position(|known| *known == mode).expect("it lists all that can be asked for")
}

fn mode_of(json: &Json) -> Option<Mode> {
    MODES.get(usize::try_from(json.as_u64()?).ok()?).copied()
}

fn view(link: &Link, answer: &Json) -> Result<QueueView, Failure> {
    let contender = |row: &Json| {
        let ticket = Ticket::parse(row[0].as_str()?)?;
        Some(Contender { id: ContenderId::new(ticket.to_string()), ticket: Some(ticket), mode: mode_of(&row[1])? })
    };
    let rows = answer["contenders"].as_array().ok_or_else(Failure::unexpected)?;
    let contenders: Option<Vec<_>> = rows.iter().map(contender).collect();
    let mut view = QueueView::new(link.connection_number(), contenders.ok_or_else(Failure::unexpected)?);
    view.elsewhere = mode_of(&answer["elsewhere"]);
    Ok(view)
}

fn value(answer: &Json) -> Result<Option<Value>, Failure> {
    let Some(version) = answer["version"].as_u64() else { return Ok(None) };
    let bytes = answer["bytes"].as_array().ok_or_else(Failure::unexpected)?;
    let bytes: Option<Arc<[u8]>> = bytes.iter().map(|byte| u8::try_from(byte.as_u64()?).ok()).collect();
    Ok(Some(Value { version: ValueVersion(version.into()), bytes: bytes.ok_or_else(Failure::unexpected)? }))
}

impl Toy {
    /// Makes the call of one question, which names the session and its connection.
    fn call<T: Send + 'static>(
        &self,
        operation: Operation,
        question: Json,
        read: impl Fn(&Link, Json) -> Result<T, Failure> + Clone + Send + Sync + 'static,
    ) -> Make<Link, T> {
        let core = self.0.clone();
        Arc::new(move |link: &Arc<Link>| {
            let mut question = question.clone();
            question["session"] = core.id.clone().into();
            question["epoch"] = link.number.into();
            let (asking, link, read) = (core.ask(link, question, operation), link.clone(), read.clone());
            Box::pin(async move { read(&link, asking.await?) })
        })
    }

    /// Looks, and asks behind that when the lock will have changed.
    fn watch<T: Send + 'static>(&self, question: Json, read: fn(&Link, &Json) -> Result<T, Failure>) -> Watch<Link, T> {
        let core = self.0.clone();
        Box::new(move |link| {
            let (asking, lock) = (core.ask(link, question.clone(), Operation::Wait), question["lock"].clone());
            let (core, link) = (core.clone(), link.clone());
            Box::pin(async move {
                let answer = asking.await?;
                let until = json!({"op": "until", "lock": lock, "seen": answer["seen"], "session": core.id});
                let told = link.connection.ask(until);
                // Whichever way the wait ends, a look tells.
                Ok((read(&link, &answer)?, Box::pin(async move { drop(told.await) }) as BoxFuture<()>))
            })
        })
    }
}

/// Notes what became of a contender of ours, or what it is asked.
fn tell(queues: &Arc<Queues<Toy>>, place: &Arc<Place<Own>>, news: &Json) {
    match news["ask"].as_str().and_then(Ask::read) {
        Some(revocation) => _ = place.bond.revoke(revocation),
        None => queues.found_gone(place),
    }
}

/// Hears what becomes of our own contenders, until the session is over.
pub(crate) async fn listen(queues: Arc<Queues<Toy>>) {
    let core = &queues.service.0;
    let mut after = 0;
    while let Some(link) = core.life.next_link().await {
        let question = json!({"op": "news", "session": core.id, "after": after});
        let Ok(answer) = link.connection.ask(question).await else {
            core.life.until_other(&link).await;
            continue;
        };
        for news in answer["news"].as_array().into_iter().flatten() {
            after += 1;
            let ticket = news["ticket"].as_str().and_then(Ticket::parse);
            let Some(ticket) = ticket else { continue };
            let place = {
                let mut early = core.early.lock().expect("nothing panics while it is locked");
                let place = queues.of_ticket(ticket);
                if place.is_none() {
                    early.push((ticket, news.clone()));
                }
                place
            };
            if let Some(place) = place {
                tell(&queues, &place, news);
            }
        }
        if answer["word"] == "gone" {
            core.life.until_other(&link).await;
        }
    }
}

impl Service for Toy {
    type Link = Link;
    type Own = Own;

    fn life(&self) -> &Arc<Life<Link>> {
        &self.0.life
    }

    fn refusal(&self, _queue: &QueueName, _entries: &[Entry]) -> Option<Refusal> {
        None
    }

    fn join(
        queues: &Arc<Queues<Self>>,
        queue: &QueueName,
        entries: &[Entry],
        _shows_whole: bool,
    ) -> Make<Link, Joined<Own>> {
        let core = queues.service.0.clone();
        let tickets: Vec<_> = entries.iter().map(|entry| ContenderId::new(entry.ticket.to_string())).collect();
        let entry = |entry: &Entry| {
            let anchor = match &entry.rank {
                Rank::Tail => None,
                Rank::With(anchor) => Some(anchor.as_str()),
            };
            json!({"ticket": entry.ticket.to_string(), "mode": mode_number(entry.mode), "anchor": anchor,
                   "persistent": matches!(entry.lifetime, Lifetime::Persistent { .. }),
                   "record": Record::of(entry, core.life.clock.unix_time()).to_text()})
        };
        let mut question = about("join", queue);
        question["entries"] = entries.iter().map(entry).collect();
        let clock = core.life.clock.clone();
        let joining = move |asked_at| {
            let tickets = tickets.clone();
            move |link: &Link, answer: Json| {
                if answer["word"] == "anchor" {
                    return Ok(Joined::AnchorGone);
                }
                ok(&answer)?;
                let tokens = answer["tokens"].as_array().ok_or_else(Failure::unexpected)?;
                let stood = |(id, token): (&ContenderId, &Json)| {
                    let token = FencingToken::new(token.as_u64()?, 0);
                    Some(Stood { id: id.clone(), token, own: Own })
                };
                let stood = tickets.iter().zip(tokens).map(stood).collect();
                Ok(Joined::Stored(Stored { stood, view: view(link, &answer["view"])?, asked_at }))
            }
        };
        Arc::new(move |link: &Arc<Link>| {
            Self(core.clone()).call(Operation::Join, question.clone(), joining(clock.now()))(link)
        })
    }

    fn leave(&self, queue: &QueueName, ticket: Ticket, _id: Option<&ContenderId>, _why: bool) -> Make<Link, Left> {
        let mut question = about("leave", queue);
        question["ticket"] = ticket.to_string().into();
        self.call(Operation::Leave, question, |_, answer| match answer["word"].as_str() {
            Some("left") => Ok(Left::Removed),
            Some("broken") => Ok(Left::Gone(LossReason::Broken)),
            Some("removed") => Ok(Left::Gone(LossReason::Removed)),
            Some("gone") => Ok(Left::Gone(LossReason::Expired)),
            _ => Err(Failure::unexpected()),
        })
    }

    fn look(&self, queue: &QueueName, _freshness: Freshness, _extent: Extent<'_>) -> Make<Link, QueueView> {
        self.call(Operation::View, about("look", queue), |link, answer| view(link, &answer))
    }

    fn request(
        &self,
        queue: &QueueName,
        contender: &ContenderId,
        request: &Request,
    ) -> Result<Option<Make<Link, bool>>, Refusal> {
        let mut question = about("request", queue);
        question["ticket"] = contender.as_str().into();
        match request {
            Request::Yield(revocation) => question["ask"] = Ask::of(revocation).to_text().into(),
            Request::Break { token } if token.turn() == 0 => question["token"] = token.as_u64().into(),
            Request::Break { .. } => return Ok(None),
            _ => return Err((ErrorKind::Unsupported, "there is no such request here".to_owned())),
        }
        Ok(Some(self.call(Operation::Request, question, |_, answer| Ok(answer["count"] == 1))))
    }

    fn value(&self, queue: &QueueName) -> Make<Link, Option<Value>> {
        self.call(Operation::Value, about("value", queue), |_, answer| value(&answer))
    }

    fn set_value(
        &self,
        queue: &QueueName,
        expected: Expected,
        value: Option<Arc<[u8]>>,
    ) -> Make<Link, Option<ValueVersion>> {
        let mut question = about("set_value", queue);
        question["expected"] = match expected {
            Expected::Any => "any".into(),
            Expected::Absent => "absent".into(),
            Expected::Version(version) => u64::try_from(version.0).unwrap_or(u64::MAX).into(),
        };
        question["bytes"] = value.map_or(Json::Null, |bytes| bytes.to_vec().into());
        self.call(Operation::Value, question, |_, answer| {
            if answer["word"] == "no" {
                return Ok(None);
            }
            ok(&answer)?;
            let version = answer["version"].as_u64().ok_or_else(Failure::unexpected)?;
            Ok(Some(ValueVersion(version.into())))
        })
    }

    fn watch_queue(queues: &Arc<Queues<Self>>, queue: &QueueName) -> Watch<Link, QueueView> {
        queues.service.watch(about("look", queue), view)
    }

    fn watch_value(queues: &Arc<Queues<Self>>, queue: &QueueName) -> Watch<Link, Option<Value>> {
        queues.service.watch(about("value", queue), |_, answer| value(answer))
    }

    fn depart(queues: &Arc<Queues<Self>>, departing: Departing<Self>) -> BoxFuture<Result<Departure, Failure>> {
        let Departing { link, ahead, mine, .. } = departing;
        let core = &queues.service.0;
        let ticket = mine.as_ref().map(|mine| mine.ticket.to_string());
        let question = json!({"op": "departure", "ahead": ahead.as_str(), "mine": ticket, "session": core.id});
        let (asking, queues) = (core.ask(&link, question, Operation::Wait), queues.clone());
        Box::pin(async move {
            let answer = asking.await?;
            match (answer["word"].as_str(), mine) {
                (Some("left"), _) => return Ok(Departure::Gone),
                (Some("mine"), Some(mine)) => queues.found_gone(&mine),
                _ => ok(&answer)?,
            }
            Ok(Departure::Recheck)
        })
    }

    fn note(queues: &Arc<Queues<Self>>, stage: Stage<'_, Own>) {
        let core = &queues.service.0;
        if let Stage::Placed(place) = stage {
            let mut early = core.early.lock().expect("nothing panics while it is locked");
            let news: Vec<_> = early.extract_if(.., |(ticket, _)| *ticket == place.ticket).collect();
            drop(early);
            news.iter().for_each(|(_, news)| tell(queues, place, news));
        }
    }
}
