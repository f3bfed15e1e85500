//! Joins: the entries of one call are stored by one request, which also shows the queue.
//!
//! The service stores them only if none of them is there yet and no later connection has the session. So the request
//! can be sent again after a lost answer, and one that was withdrawn has no effect later.

use std::sync::Arc;

use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{
    BoxFuture, ENTRIES_MAX, Enqueued, Entry, Error, ErrorKind, Mode, Operation, Part, PlaceBond, QueueName, Result,
    Ticket,
};

use crate::queue::entries::{Coverage, JoinProgress, JoiningEntry, OwnStanding, Place};
use crate::queue::leave;
use crate::queue::service::{Joined, Queues, Service, Stage, Stood, Stored, anchor, outlives_session};
use crate::{Effect, FailureKind, Make, SessionCall, refuse};

struct JoinCall<S: Service> {
    queues: Arc<Queues<S>>,
    queue: QueueName,
    /// Their tickets, and whether they stay when the session ends.
    tickets: Vec<(Ticket, bool)>,
    progress: Arc<JoinProgress>,
    deadline: BootInstant,
    call: SessionCall<S::Link, Joined<S::Own>>,
    shows_whole: bool,
}

/// The places of entries that are stored.
type JoinedPlaces<S> = Vec<Arc<Place<<S as Service>::Own>>>;

/// Starts to join: the entries are noted and sent now.
pub(super) fn begin<S: Service>(
    queues: &Arc<Queues<S>>,
    queue: &QueueName,
    entries: &[Entry],
) -> BoxFuture<Result<Vec<Enqueued>>> {
    if entries.is_empty() {
        return Box::pin(std::future::ready(Ok(Vec::new())));
    }
    if let Err(error) = check(queues, queue, entries) {
        return refuse(error);
    }
    let progress = Arc::<JoinProgress>::default();
    let mut tickets = Vec::with_capacity(entries.len());
    for entry in entries {
        let outlives_session = outlives_session(entry);
        let joining = JoiningEntry { queue: queue.clone(), outlives_session, progress: progress.clone() };
        queues.entries.lock().begin(entry.ticket, joining);
        S::note(queues, Stage::Joining(entry.ticket));
        tickets.push((entry.ticket, outlives_session));
    }
    let shows_whole = entries.len() > 1 || entries.iter().any(|entry| entry.mode.is_counted());
    let (send, sending) = (S::join(queues, queue, entries, shows_whole), progress.clone());
    let make: Make<S::Link, _> = Arc::new(move |link| match sending.send() {
        true => send(link),
        false => Box::pin(std::future::ready(Ok(Joined::Withdrawn))),
    });
    let life = queues.service.life();
    let (call, deadline) = (life.call(make), life.deadline());
    let (queues, queue) = (queues.clone(), queue.clone());
    Box::pin(JoinCall { queues, queue, tickets, progress, deadline, call, shows_whole }.finish())
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
fn check<S: Service>(queues: &Queues<S>, queue: &QueueName, entries: &[Entry]) -> Result<()> {
    let refuse = |kind, message| Err(Error::permanent(kind, Operation::Join, message).at(queue));
    if entries.len() > ENTRIES_MAX {
        return refuse(ErrorKind::LimitReached, format!("at most {ENTRIES_MAX} entries per call"));
    }
    queues.check(Operation::Join, queue, entries)?;
    for entry in entries {
        if !can_stand(queue.part(), entry.mode) {
            let message = format!("a contender for `{}` does not stand in this part of a lock", entry.mode);
            return refuse(ErrorKind::Unsupported, message);
        }
        if anchor(entry).is_some_and(|anchor| queues.place_of(queue, anchor).is_none()) {
            return Err(anchor_gone(queue));
        }
    }
    Ok(())
}

impl<S: Service> JoinCall<S> {
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
        if self.queues.service.life().until_believable().await.is_err() {
            return Err(self.queues.over(Operation::Join, &self.queue));
        }
        let mut enqueued = Vec::with_capacity(places.len());
        for place in places {
            if !self.queues.entries.lock().stand(place.ticket) {
                return Err(withdrawn(&self.queue));
            }
            let (id, token) = (place.id.clone(), place.token);
            enqueued.push(Enqueued { id, token, view: view.clone(), standing: Arc::new(OwnStanding(place)) });
        }
        Ok(enqueued)
    }

    async fn until_certain(&mut self) -> Result<Stored<S::Own>> {
        let life = self.queues.service.life().clone();
        let mut may_stand = false;
        loop {
            let failure = match life.answer(&mut self.call, self.deadline).await {
                Ok(Joined::Stored(stored)) => return Ok(stored),
                Ok(refused) => return Err(self.refused(refused, may_stand)),
                Err(failure) => failure,
            };
            may_stand |= failure.effect == Effect::Unknown;
            if failure.is_passing() && failure.kind != FailureKind::Deadline && life.clock.now() < self.deadline {
                life.again(&mut self.call, &failure).await;
                continue;
            }
            self.note_refused(may_stand);
            let error = self.queues.fail(failure, Operation::Join, may_stand, &self.queue);
            // What an earlier attempt did is not known, also if the last one was refused.
            return Err(match may_stand && error.is_transient() && !error.is_lost() {
                true => Error::unknown(error.kind(), Operation::Join, error.to_string()).at(&self.queue),
                false => error,
            });
        }
    }

    fn refused(&self, refusal: Joined<S::Own>, may_stand: bool) -> Error {
        match refusal {
            Joined::AnchorGone => {
                self.note_refused(may_stand);
                anchor_gone(&self.queue)
            }
            Joined::Full(why) => {
                self.note_refused(may_stand);
                Error::permanent(ErrorKind::LimitReached, Operation::Join, why).at(&self.queue)
            }
            Joined::Unsafe(failure) => {
                // The removal is sent before any other call.
                for (ticket, _) in &self.tickets {
                    drop(leave::begin(&self.queues, &self.queue, *ticket));
                }
                self.queues.fail(failure, Operation::Join, false, &self.queue)
            }
            Joined::Stored(_) | Joined::Withdrawn => withdrawn(&self.queue),
        }
    }

    /// Notes that the last attempt had no effect.
    fn note_refused(&self, may_stand: bool) {
        if !may_stand {
            self.progress.note_unsent();
        }
    }

    fn place(&self, stored: Stored<S::Own>) -> Result<JoinedPlaces<S>> {
        let Stored { stood, view, asked_at } = stored;
        let queues = &self.queues;
        let placed_at = queues.service.life().clock.now();
        let mut places = Vec::with_capacity(self.tickets.len());
        for ((ticket, outlives_session), stood) in self.tickets.iter().zip(stood) {
            let Some(Stood { id, token, own }) = stood else {
                let message = "the contender was removed before its join was answered";
                return Err(Error::permanent(ErrorKind::Removed, Operation::Join, message).at(&self.queue));
            };
            let Some(token) = token else {
                let message = "the service counts more than a token can hold";
                return Err(Error::permanent(ErrorKind::LimitReached, Operation::Join, message).at(&self.queue));
            };
            let place = Arc::new(Place {
                queue: self.queue.clone(),
                id,
                ticket: *ticket,
                token,
                outlives_session: *outlives_session,
                placed_at,
                bond: PlaceBond::new(queues.service.life().bond().clone()),
                own,
            });
            if !queues.entries.lock().place(place.clone()) {
                // The withdrawal was sent behind the join.
                return Err(withdrawn(&self.queue));
            }
            S::note(queues, Stage::Placed(&place));
            S::note(queues, Stage::Shown(&place, &view));
            places.push(place);
        }
        let coverage = match (self.shows_whole, places.first()) {
            (false, Some(place)) => Coverage::One(place.id.clone()),
            _ => Coverage::Whole,
        };
        queues.note_missing(&self.queue, &view, &coverage, asked_at);
        Ok(places)
    }

    /// Forgets entries that cannot have taken effect, and never will: what still waits for a connection is not sent.
    fn forget_unsent(&self) {
        if !self.progress.withdraw() {
            for (ticket, _) in &self.tickets {
                self.queues.entries.lock().forget(*ticket);
                S::note(&self.queues, Stage::Gone(*ticket));
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
