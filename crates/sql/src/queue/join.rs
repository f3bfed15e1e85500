//! Joining: the entries of one call are stored by one statement, which also shows the queue.
//!
//! The statement stores them only if none of them is there yet and the epoch is that of the session's present
//! connection. So it can be sent again after a lost answer, and one that was withdrawn has no effect later.

use std::sync::Arc;

use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{
    BoxFuture, ContenderId, ENTRIES_MAX, Enqueued, Entry, Error, ErrorKind, Lifetime, Mode, Operation, Part, PlaceBond,
    QueueName, QueueView, Rank, Result, Ticket,
};
use lockkeeper_session::{Coverage, Effect, Failure, FailureKind, Joining, PlaceStanding, Progress, refuse};

use crate::queue::inner::{Inner, named, stale};
use crate::queue::place::Place;
use crate::queue::record;
use crate::queue::rows::{Answer, Stored, mode_number, ticket_of};
use crate::session::{Call, Core, Link, Make};
use crate::statement::{Argument, Statement};

/// The entries of one call.
struct Join {
    inner: Arc<Inner>,
    queue: QueueName,
    tickets: Vec<Ticket>,
    outlives_session: bool,
    progress: Arc<Progress>,
    deadline: BootInstant,
    call: Call<Joined>,
    shows_whole: bool,
}

/// What a join was answered.
enum Joined {
    Stored(Shown),
    /// One of its entries was withdrawn before it was sent.
    Withdrawn,
    /// The contender beside which an entry was to stand is gone.
    AnchorGone,
    /// No room is left in the queue, or beside the anchor.
    Full,
}

/// Entries that are stored, and the queue with them.
struct Shown {
    stored: Vec<Stored>,
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
    let outlives_session = is_persistent(&entries[0]);
    for entry in entries {
        let joining = Joining { queue: queue.clone(), outlives_session, progress: progress.clone() };
        inner.entries().begin(entry.ticket, joining);
        // A new connection would remove what it does not expect.
        inner.core.roll.expect(entry.ticket);
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
    Box::pin(Join { inner, queue, tickets, outlives_session, progress, deadline, call, shows_whole }.finish())
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

/// Tells which modes stand in which part of a lock.
const fn can_stand(part: Part, mode: Mode) -> bool {
    match part {
        Part::Line => matches!(mode, Mode::Mutex | Mode::Read | Mode::Write | Mode::Candidate | Mode::Member),
        Part::Waiters => matches!(mode, Mode::Acquire),
        Part::Permits => matches!(mode, Mode::Permit),
    }
}

/// Refuses entries that can never be stored.
fn check(inner: &Inner, queue: &QueueName, entries: &[Entry]) -> Result<()> {
    let refuse = |kind, message: String| Err(Error::permanent(kind, Operation::Join, message).at(queue));
    if entries.len() > ENTRIES_MAX {
        return refuse(ErrorKind::LimitReached, format!("{ENTRIES_MAX} places at once are the most"));
    }
    for entry in entries {
        if !can_stand(queue.part(), entry.mode) {
            let message = format!("a contender for `{}` does not stand in this part of a lock", entry.mode);
            return refuse(ErrorKind::Unsupported, message);
        }
        if is_persistent(entry) != is_persistent(&entries[0]) || anchor(entry) != anchor(&entries[0]) {
            let message = "places that are taken together stand together, and live as long as each other";
            return refuse(ErrorKind::Unsupported, message.to_owned());
        }
        if anchor(entry).is_some_and(|anchor| inner.place_of(queue, anchor).is_none()) {
            return Err(anchor_gone(queue));
        }
    }
    Ok(())
}

/// The arguments of the statement, but for those that a connection determines: the first two.
fn arguments(inner: &Inner, queue: &QueueName, entries: &[Entry], shows_whole: bool) -> Vec<Argument> {
    let [name, part] = named(queue);
    let anchor = anchor(&entries[0]).and_then(ticket_of);
    vec![
        name,
        part,
        Argument::Ids(entries.iter().map(|entry| entry.ticket.bits()).collect()),
        Argument::Bytes(entries.iter().map(|entry| mode_number(entry.mode)).collect()),
        Argument::Flag(is_persistent(&entries[0])),
        Argument::OptionalId(anchor.map(Ticket::bits)),
        Argument::Text(record::texts(entries, inner.core.life.clock.unix_time())),
        Argument::Flag(shows_whole),
    ]
}

/// What is sent, once or again.
struct Sending {
    core: Arc<Core>,
    progress: Arc<Progress>,
    arguments: Vec<Argument>,
}

impl Sending {
    fn send(&self, link: &Arc<Link>) -> BoxFuture<Result<Joined, Failure>> {
        if !self.progress.send() {
            return Box::pin(std::future::ready(Ok(Joined::Withdrawn)));
        }
        let mut arguments = vec![self.core.id.into(), Argument::Int(self.core.epoch(link.number))];
        arguments.extend_from_slice(&self.arguments);
        let asked_at = self.core.life.clock.now();
        let asking = self.core.ask(link, Statement::new("join", arguments), Operation::Join);
        let link = link.clone();
        Box::pin(async move {
            let answer = Answer::read(asking.await?)?;
            match answer.word.as_str() {
                "ok" => {}
                "gone" => return Err(Failure::session_gone()),
                "stale" => return Err(stale(&link)),
                "anchor" => return Ok(Joined::AnchorGone),
                "full" => return Ok(Joined::Full),
                _ => return Err(Failure::unexpected()),
            }
            let (stored, view) = (answer.stored()?, answer.view(link.connection_number())?);
            Ok(Joined::Stored(Shown { stored, view, asked_at }))
        })
    }
}

impl Join {
    /// Waits until it is known what became of the entries, and hands out their standings.
    async fn finish(mut self) -> Result<Vec<Enqueued>> {
        let shown = match self.until_certain().await {
            Ok(shown) => shown,
            Err(error) => {
                self.forget_unsent();
                return Err(error);
            }
        };
        let view = shown.view.clone();
        let places = self.place(shown)?;
        if self.inner.core.life.until_believable().await.is_err() {
            return Err(self.inner.over(Operation::Join, &self.queue));
        }
        let mut enqueued = Vec::with_capacity(places.len());
        for place in places {
            if !self.inner.entries().stand(place.ticket) {
                return Err(withdrawn(&self.queue));
            }
            let (id, token) = (place.id.clone(), place.token);
            let standing = Arc::new(PlaceStanding(place));
            enqueued.push(Enqueued { id, token, view: view.clone(), standing });
        }
        Ok(enqueued)
    }

    async fn until_certain(&mut self) -> Result<Shown> {
        let core = self.inner.core.clone();
        let mut may_stand = false;
        loop {
            let failure = match core.life.answer(&mut self.call, self.deadline).await {
                Ok(Joined::Stored(shown)) => return Ok(shown),
                Ok(Joined::Withdrawn) => return Err(withdrawn(&self.queue)),
                Ok(Joined::AnchorGone) => {
                    self.note_refused(may_stand);
                    return Err(anchor_gone(&self.queue));
                }
                Ok(Joined::Full) => {
                    self.note_refused(may_stand);
                    let message = "the queue has no room: too many contenders stand beside one, or its numbers end";
                    return Err(Error::permanent(ErrorKind::LimitReached, Operation::Join, message).at(&self.queue));
                }
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

    /// Notes the places of entries that are stored.
    fn place(&self, shown: Shown) -> Result<Vec<Arc<Place>>> {
        let Shown { stored, view, asked_at } = shown;
        let inner = &self.inner;
        let placed_at = inner.core.life.clock.now();
        let mut places = Vec::with_capacity(self.tickets.len());
        for ticket in &self.tickets {
            // They are answered in the order of the tickets, but for those that are gone again.
            let at = places.len();
            let in_turn = stored.get(at).filter(|stored| stored.ticket == *ticket);
            let Some(&stored) = in_turn else {
                let message = "the contender was removed before its join was answered";
                return Err(Error::permanent(ErrorKind::Removed, Operation::Join, message).at(&self.queue));
            };
            let bond = PlaceBond::new(inner.core.life.bond().clone());
            let place = Arc::new(Place::new(self.queue.clone(), stored, self.outlives_session, placed_at, bond));
            place.note(&view);
            if !inner.entries().place(place.clone()) {
                // The withdrawal was sent behind the join.
                return Err(withdrawn(&self.queue));
            }
            inner.core.roll.add(*ticket);
            places.push(place);
        }
        let coverage = match (self.shows_whole, places.first()) {
            (false, Some(place)) => Coverage::One(place.id.clone()),
            _ => Coverage::Whole,
        };
        inner.note_missing(&self.queue, &view, &coverage, asked_at);
        Ok(places)
    }

    /// Forgets entries that cannot have taken effect, and never will: what still waits for a connection is not sent.
    fn forget_unsent(&self) {
        if !self.progress.withdraw() {
            for ticket in &self.tickets {
                self.inner.entries().forget(*ticket);
                self.inner.core.roll.remove(*ticket);
            }
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
