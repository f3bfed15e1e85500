//! Joining: the entries of one call are stored by one script, which also shows the queue.
//!
//! The script stores them only if none of them is there yet and the epoch is that of the session's present connection.
//! So it can be sent again after a lost answer, and one that was withdrawn has no effect later.

use std::sync::Arc;

use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{
    BoxFuture, ENTRIES_MAX, Enqueued, Entry, Error, ErrorKind, Lifetime, Operation, PlaceBond, QueueName, QueueView,
    Rank, Result, Ticket,
};
use lockkeeper_session::{
    Coverage, Effect, Failure, FailureKind, Joining, Link as _, PlaceStanding, Progress, Record, refuse,
};
use redis::Value;

use crate::answers::{list, number, text, texts};
use crate::connection::{Flight, answer};
use crate::layout::{Member, can_stand, listed, mode_letter, part_letter};
use crate::queue::inner::Inner;
use crate::queue::place::Place;
use crate::queue::{view, withdraw};
use crate::script::Script;
use crate::session::{Call, Core, Link, Make, check_copies, copied};

/// The entries of one call.
struct Join {
    inner: Arc<Inner>,
    queue: QueueName,
    tickets: Vec<Ticket>,
    progress: Arc<Progress>,
    deadline: BootInstant,
    call: Call<Joined>,
    shows_whole: bool,
}

/// What a join was answered.
enum Joined {
    Stored(Stored),
    /// One of its entries was withdrawn before it was sent.
    Withdrawn,
    /// It was sent over a connection that is not the session's any more.
    Stale,
    /// A contender beside which an entry was to stand is gone.
    AnchorGone,
    /// Too many stand beside one contender.
    Full,
    /// They are stored, and too few replicas have them.
    Uncopied(Failure),
}

/// Entries that are stored.
struct Stored {
    /// `None` of one that is gone again.
    members: Vec<Option<Member>>,
    view: QueueView,
    asked_at: BootInstant,
}

/// Starts to join: the entries are noted and sent now.
pub(super) fn begin(inner: &Arc<Inner>, queue: &QueueName, entries: &[Entry]) -> BoxFuture<Result<Vec<Enqueued>>> {
    if entries.is_empty() {
        return Box::pin(std::future::ready(Ok(Vec::new())));
    }
    if let Err(error) = inner.check(Operation::Join, queue).and_then(|()| check(inner, queue, entries)) {
        return refuse(error);
    }
    let progress = Arc::<Progress>::default();
    for entry in entries {
        let outlives_session = matches!(entry.lifetime, Lifetime::Persistent { .. });
        let joining = Joining { queue: queue.clone(), outlives_session, progress: progress.clone() };
        inner.entries().begin(entry.ticket, joining);
    }
    let tickets: Vec<_> = entries.iter().map(|entry| entry.ticket).collect();
    let shows_whole = entries.len() > 1 || entries.iter().any(|entry| entry.mode.is_counted());
    let sending = Sending {
        core: inner.core.clone(),
        progress: progress.clone(),
        arguments: arguments(inner, queue, entries, shows_whole),
    };
    let make: Make<Joined> = Arc::new(move |link: &Arc<Link>| sending.send(link));
    let call = inner.core.life.call(make);
    let deadline = inner.core.life.deadline();
    let (inner, queue) = (inner.clone(), queue.clone());
    Box::pin(Join { inner, queue, tickets, progress, deadline, call, shows_whole }.finish())
}

/// Refuses entries that can never be stored.
fn check(inner: &Inner, queue: &QueueName, entries: &[Entry]) -> Result<()> {
    if entries.len() > ENTRIES_MAX {
        let message = format!("{ENTRIES_MAX} places at once are the most");
        return Err(Error::permanent(ErrorKind::LimitReached, Operation::Join, message).at(queue));
    }
    for entry in entries {
        if !can_stand(queue.part(), entry.mode) {
            let message = format!("a contender for `{}` does not stand in this part of a lock", entry.mode);
            return Err(Error::permanent(ErrorKind::Unsupported, Operation::Join, message).at(queue));
        }
        if let Rank::With(anchor) = &entry.rank
            && inner.place_of(queue, anchor).is_none()
        {
            return Err(anchor_gone(queue));
        }
    }
    Ok(())
}

/// The arguments of the script, but for those that a connection determines: the first two.
fn arguments(inner: &Inner, queue: &QueueName, entries: &[Entry], shows_whole: bool) -> Vec<String> {
    let since_unix = inner.core.life.clock.unix_time();
    let extent = if shows_whole { "whole" } else { "around" };
    let timeout_ms = inner.core.timing.timeout.as_millis().to_string();
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

/// What is sent, once or again.
struct Sending {
    core: Arc<Core>,
    progress: Arc<Progress>,
    arguments: Vec<String>,
}

impl Sending {
    fn send(&self, link: &Arc<Link>) -> BoxFuture<Result<Joined, Failure>> {
        if !self.progress.send() {
            return Box::pin(std::future::ready(Ok(Joined::Withdrawn)));
        }
        self.fly(link)
    }

    fn fly(&self, link: &Arc<Link>) -> BoxFuture<Result<Joined, Failure>> {
        let core = self.core.clone();
        let (session, epoch) = (core.id.to_string(), core.epoch(link.number));
        let arguments: Vec<_> = [&session, &epoch].into_iter().chain(&self.arguments).collect();
        let flight = Flight::new().script(core.layout.script(Script::Join), &[core.layout.base()], arguments);
        let flight = copied(flight, &core.config);
        let asked_at = core.life.clock.now();
        let (asking, link) = (core.fly(link, flight, Operation::Join), link.clone());
        Box::pin(async move {
            let mut answers = asking.await?.into_iter();
            let answer = answer(answers.next().ok_or_else(Failure::unexpected)?, "join")?;
            if let Value::BulkString(bytes) = &answer {
                if let Err(failure) = check_copies(&core.config, &mut answers) {
                    return Ok(Joined::Uncopied(failure));
                }
                let (member, guard_ms) = read_alone(bytes).ok_or_else(Failure::unexpected)?;
                core.renewed(asked_at);
                core.heard_of_guard(guard_ms);
                let view = QueueView::new(link.connection_number(), vec![member.contender()]);
                return Ok(Joined::Stored(Stored { members: vec![Some(member)], view, asked_at }));
            }
            let mut answer = list(answer)?.into_iter();
            let mut next = || answer.next().ok_or_else(Failure::unexpected);
            match text(next()?)?.as_str() {
                "ok" => {}
                "gone" => return Err(Failure::session_gone()),
                "stale" => {
                    link.shut();
                    return Ok(Joined::Stale);
                }
                "anchor" => return Ok(Joined::AnchorGone),
                "full" => return Ok(Joined::Full),
                _ => return Err(Failure::unexpected()),
            }
            if let Err(failure) = check_copies(&core.config, &mut answers) {
                return Ok(Joined::Uncopied(failure));
            }
            core.renewed(asked_at);
            let members = texts(next()?)?.iter().map(|member| Member::parse(member)).collect();
            let view = view::read(link.connection_number(), next()?)?;
            core.heard_of_guard(number(&next()?)?);
            Ok(Joined::Stored(Stored { members, view, asked_at }))
        })
    }
}

/// Reads the answer to the only contender of a lock: its member, and the least guard, in milliseconds.
fn read_alone(answer: &[u8]) -> Option<(Member, u64)> {
    let (member, guard_ms) = str::from_utf8(answer).ok()?.strip_prefix("ok ")?.split_once(' ')?;
    Some((Member::parse(member)?, guard_ms.parse().ok()?))
}

impl Join {
    /// Waits until it is known what became of the entries, and hands out their standings.
    async fn finish(mut self) -> Result<Vec<Enqueued>> {
        let stored = match self.until_certain().await {
            Ok(stored) => stored,
            Err(error) => {
                self.forget_unsent();
                return Err(error);
            }
        };
        let view = stored.view.clone();
        let places = self.place(stored)?;
        if self.inner.core.life.until_believable().await.is_err() {
            return Err(self.inner.over(Operation::Join, &self.queue));
        }
        let mut enqueued = Vec::with_capacity(places.len());
        for place in places {
            if !self.inner.entries().stand(place.member.ticket) {
                return Err(withdrawn(&self.queue));
            }
            let Some(token) = place.member.token() else {
                let message = "the service counts more than a token can hold";
                return Err(Error::permanent(ErrorKind::LimitReached, Operation::Join, message).at(&self.queue));
            };
            let id = place.id.clone();
            let standing = Arc::new(PlaceStanding(place));
            enqueued.push(Enqueued { id, token, view: view.clone(), standing });
        }
        Ok(enqueued)
    }

    async fn until_certain(&mut self) -> Result<Stored> {
        let core = self.inner.core.clone();
        let mut may_stand = false;
        loop {
            let failure = match core.life.answer(&mut self.call, self.deadline).await {
                Ok(Joined::Stored(stored)) => return Ok(stored),
                Ok(Joined::Withdrawn) => return Err(withdrawn(&self.queue)),
                Ok(Joined::AnchorGone) => {
                    self.note_refused(may_stand);
                    return Err(anchor_gone(&self.queue));
                }
                Ok(Joined::Full) => {
                    self.note_refused(may_stand);
                    let message = "too many contenders stand beside one";
                    return Err(Error::permanent(ErrorKind::LimitReached, Operation::Join, message).at(&self.queue));
                }
                Ok(Joined::Uncopied(failure)) => {
                    // They are left again, which is sent before any other call.
                    for ticket in &self.tickets {
                        drop(withdraw::begin(&self.inner, &self.queue, *ticket));
                    }
                    return Err(self.inner.fail(failure, Operation::Join, false, &self.queue));
                }
                Ok(Joined::Stale) => Failure::broken(Effect::None),
                Err(failure) => failure,
            };
            may_stand |= failure.effect == Effect::Unknown;
            if failure.is_passing() && failure.kind != FailureKind::Deadline && core.life.clock.now() < self.deadline {
                core.life.again(&mut self.call, &failure).await;
                continue;
            }
            self.note_refused(may_stand);
            let error = self.inner.fail(failure, Operation::Join, may_stand, &self.queue);
            // What an earlier attempt did is not known, also if the last one was refused.
            return Err(match may_stand && error.is_transient() && !error.is_lost() {
                true => Error::unknown(error.kind(), Operation::Join, error.to_string()).at(&self.queue),
                false => error,
            });
        }
    }

    /// Notes that the last attempt had no effect.
    fn note_refused(&self, may_stand: bool) {
        if !may_stand {
            self.progress.note_unsent();
        }
    }

    /// Notes the places of entries that are stored, and has them watched.
    fn place(&self, stored: Stored) -> Result<Vec<Arc<Place>>> {
        let Stored { members, view, asked_at } = stored;
        let inner = &self.inner;
        let placed_at = inner.core.life.clock.now();
        let mut places = Vec::with_capacity(members.len());
        for member in members {
            let Some(member) = member else {
                let message = "the contender was removed before its join was answered";
                return Err(Error::permanent(ErrorKind::Removed, Operation::Join, message).at(&self.queue));
            };
            let place = Arc::new(Place::new(
                self.queue.clone(),
                member,
                placed_at,
                PlaceBond::new(inner.core.life.bond().clone()),
            ));
            if !inner.entries().place(place.clone()) {
                // The withdrawal was sent behind the join.
                return Err(withdrawn(&self.queue));
            }
            inner.core.roll.add(member.ticket, self.at_place(&place));
            inner.watch_later(&place);
            places.push(place);
        }
        let coverage = match (self.shows_whole, places.first()) {
            (false, Some(place)) => Coverage::One(place.id.clone()),
            _ => Coverage::Whole,
        };
        inner.note_missing(&self.queue, &view, &coverage, asked_at);
        if let Some(first) = places.first() {
            inner.note_turn(&self.queue, &view, &first.id);
        }
        Ok(places)
    }

    /// Where a renewal looks for a contender.
    fn at_place(&self, place: &Place) -> [String; 3] {
        [part_letter(self.queue.part()).to_owned(), self.queue.encoded(), place.id.to_string()]
    }

    /// Forgets entries that cannot have taken effect, and never will: what still waits for a connection is not sent.
    fn forget_unsent(&self) {
        if !self.progress.withdraw() {
            self.tickets.iter().for_each(|ticket| self.inner.entries().forget(*ticket));
        }
    }
}

fn withdrawn(queue: &QueueName) -> Error {
    let message = "the entry was withdrawn while it was under way";
    Error::permanent(ErrorKind::Closed, Operation::Join, message).at(queue)
}

fn anchor_gone(queue: &QueueName) -> Error {
    let message = "the contender whose place was to be shared is gone";
    Error::permanent(ErrorKind::Removed, Operation::Join, message).at(queue)
}
