//! One attempt in the one queue of a lock, or among the waiters of a semaphore.

use std::sync::Arc;

use lockkeeper_core::{
    BoxFuture, Caller, ContenderId, Departure, Enqueued, Entry, Extent, FencingToken, Freshness, LivenessAt, Mode,
    Opener, Part, QueueName, QueueView, Rank, Result, Session, Standing, Ticket,
};

use crate::contend::place::evict_idle_holder;
use crate::contend::place::{ArmedPlace, Granted};
use crate::contend::refusal::{check_standing, check_with_reason, kind_mismatch, removed};
use crate::contend::until_answered;
use crate::deadlock::KeyCall;
use crate::decide::{self, Decision};
use crate::event::Event;
use crate::shared::Shared;
use crate::shared::call::spans;
use crate::shared::known_head::KnownHead;

/// Asks for one place of one mode in one queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OnePlace<'a> {
    pub(crate) queue: &'a QueueName,
    pub(crate) mode: Mode,
    pub(crate) caller: Caller,
    /// Whether it may be kept while no task holds the lock.
    pub(crate) is_kept: bool,
    /// The call of an owner key that is refused if its wait closes a circle.
    pub(crate) asking: Option<&'a KeyCall>,
}

/// How many readers of its own process a writer remembers while it waits for them: more than most processes have
/// reading at a time, and some kilobytes. Behind more of them it looks at the queue again.
const READERS_KEPT_MAX: usize = 64;

impl<'a> OnePlace<'a> {
    /// A place that is left when its caller's hold ends.
    pub(crate) const fn new(queue: &'a QueueName, mode: Mode, caller: Caller) -> Self {
        Self { queue, mode, caller, is_kept: false, asking: None }
    }
}

impl OnePlace<'_> {
    /// Takes the place if no wait is needed.
    pub(crate) async fn try_once(&self, shared: &Shared) -> Result<Option<(Granted, QueueView)>> {
        match self.look(shared).await? {
            Some(session) => self.join(shared, session).await?.granted_at_once().await,
            None => Ok(None),
        }
    }

    /// Returns the session under which it is taken, if that answers at once, and in the caller's runtime.
    pub(crate) fn session_at_once(&self, shared: &Shared) -> Option<Arc<dyn Session>> {
        if self.is_kept { None } else { shared.session_at_once() }
    }

    /// Returns what opens the sessions under which it is taken.
    pub(crate) const fn opener<'s>(&self, shared: &'s Shared) -> &'s Opener<Arc<dyn Session>> {
        if self.is_kept { &shared.kept_opener } else { &shared.opener }
    }

    /// Returns the session under which it is taken.
    pub(crate) async fn session(&self, shared: &Shared) -> Result<Arc<dyn Session>> {
        let session = if self.is_kept { shared.kept_session().await } else { shared.session().await };
        session.map_err(|error| error.at(self.queue))
    }

    /// Looks whether the place would be granted at once, and if so returns the session of that look. If all that keeps
    /// it waiting is a place that may be idle, that one is asked to leave, for the next look.
    pub(crate) async fn look(&self, shared: &Shared) -> Result<Option<Arc<dyn Session>>> {
        let session = self.session(shared).await?;
        let view = session
            .view(self.queue, Freshness::Latest, Extent::Around(None))
            .await
            .map_err(|error| error.at(self.queue))?;
        match decide::kind_mismatch(self.mode, &view) {
            Some(found) => Err(kind_mismatch(self.queue, self.mode, found)),
            None if decide::is_free(self.mode, &view) => Ok(Some(session)),
            None => {
                if let Some(kept) = decide::may_be_idle(&view) {
                    let (place, answer) = self.send(shared, session)?;
                    evict_idle_holder(shared, place, answer, kept);
                }
                Ok(None)
            }
        }
    }

    /// Takes a place at the tail.
    pub(crate) async fn join(&self, shared: &Shared, session: Arc<dyn Session>) -> Result<JoinedPlace> {
        let sent = self.send(shared, session)?;
        self.joined(shared, sent).await
    }

    /// Sends the entry.
    pub(crate) fn send(&self, shared: &Shared, session: Arc<dyn Session>) -> Result<SentEntry> {
        Ok(send(shared, session, self.queue, self.entry(shared)?))
    }

    fn entry(&self, shared: &Shared) -> Result<Entry> {
        let ticket = if self.is_kept { Ticket::mint_kept() } else { Ticket::mint() };
        Ok(entry_of(ticket?, shared, self.mode, self.caller))
    }

    /// Waits for the answer to the join.
    pub(crate) async fn joined(&self, shared: &Shared, (place, answer): SentEntry) -> Result<JoinedPlace> {
        self.answered(shared, place, answer.await)
    }

    /// Takes in the answer to the join.
    pub(crate) fn answered(&self, shared: &Shared, place: ArmedPlace, answer: Result<Enqueued>) -> Result<JoinedPlace> {
        let (granted, view) = Granted::answered(place, answer.map_err(|error| error.at(self.queue))?);
        let id = &granted.grant.id;
        let ahead = view.ahead_of(id).unwrap_or(0);
        spans::note_place(id, ahead);
        let lock = self.queue.with_part(Part::Line);
        shared.observers.emit(&Event::Joined { lock, contender: id.clone(), ahead });
        Ok(JoinedPlace { mode: self.mode, granted, view })
    }
}

/// Takes a place right behind one that is held, of a mode that its holder does not exclude, and in its turn.
pub(crate) async fn join_beside(
    shared: &Shared,
    wanted: &OnePlace<'_>,
    session: &Arc<dyn Session>,
    (held, token): (&ContenderId, FencingToken),
) -> Result<Granted> {
    let &OnePlace { queue, mode, caller, .. } = wanted;
    let mut beside = entry(shared, mode, caller)?;
    beside.rank = Rank::With(held.clone());
    let (place, sent) = send(shared, session.clone(), queue, beside);
    let (mut granted, _) = Granted::answered(place, sent.await.map_err(|error| error.at(queue))?);
    let grant = &mut granted.grant;
    check_with_reason(queue, &*grant.standing).await?;
    // The service knows the grant of the place, and not which turn of it this is.
    grant.token = FencingToken::new(grant.token.as_u64(), token.turn()).expect("the service gave out this number");
    Ok(granted)
}

/// An armed place, and the answer to its entry under way.
pub(crate) type SentEntry = (ArmedPlace, BoxFuture<Result<Enqueued>>);

/// Arms a place and sends its entry, in this order.
fn send(shared: &Shared, session: Arc<dyn Session>, queue: &QueueName, entry: Entry) -> SentEntry {
    let place = ArmedPlace::arm(shared, session, queue.clone(), entry.ticket);
    let sent = place.session.enqueue_one(queue, entry);
    (place, sent)
}

/// Makes an entry for the tail of a queue, of this caller.
pub(crate) fn entry(shared: &Shared, mode: Mode, caller: Caller) -> Result<Entry> {
    Ok(entry_of(Ticket::mint()?, shared, mode, caller))
}

fn entry_of(ticket: Ticket, shared: &Shared, mode: Mode, caller: Caller) -> Entry {
    let mut entry = Entry::new(ticket, mode, shared.owner.clone());
    entry.caller = caller;
    entry
}

/// A place in a queue, with the view that came with it.
#[derive(Debug)]
pub(crate) struct JoinedPlace {
    mode: Mode,
    /// What is granted once its turn has come.
    pub(crate) granted: Granted,
    /// The queue at the join; empty once it was used for a wait.
    pub(crate) view: QueueView,
}

impl JoinedPlace {
    fn queue(&self) -> &QueueName {
        self.granted.place.queue()
    }

    fn standing(&self) -> &dyn Standing {
        &*self.granted.grant.standing
    }

    /// Returns the session under which the place was taken.
    pub(crate) fn session(&self) -> &Arc<dyn Session> {
        &self.granted.place.session
    }

    /// How much of the queue decides for this place.
    fn extent(&self) -> Extent<'_> {
        Extent::Around(Some(&self.granted.grant.id))
    }

    fn decide(&self, view: &QueueView) -> Result<Decision> {
        match decide::decide(self.mode, &self.granted.grant.id, view) {
            Decision::KindMismatch { found } => Err(kind_mismatch(self.queue(), self.mode, found)),
            decision => Ok(decision),
        }
    }

    /// Notes the wait of an owner key, if it has to wait.
    pub(crate) fn ask(&self, asking: &KeyCall) -> Result<()> {
        match self.decide(&self.view)? {
            Decision::WaitFor { .. } => asking.waits_in(self.granted.grant.token, &self.granted.grant.standing),
            _ => Ok(()),
        }
    }

    /// Tells whether no wait is needed, as the queue stood at the join.
    pub(crate) fn is_first(&self) -> bool {
        self.view.contenders.first().is_some_and(|first| first.id == self.granted.grant.id)
    }

    /// Tells whether it is granted, as the queue stood at the join, and still stands: for one that does not, it may not
    /// be known yet why, and that is waited for.
    pub(crate) fn is_granted_by_join(&self) -> Result<bool> {
        Ok(self.stands() && self.decide(&self.view)? == Decision::Granted)
    }

    /// Takes the grant if no wait is needed; otherwise leaves the queue.
    pub(crate) async fn granted_at_once(self) -> Result<Option<(Granted, QueueView)>> {
        match self.decide(&self.view)? {
            Decision::Granted => {
                check_with_reason(self.queue(), self.standing()).await?;
                self.grant().map(Some)
            }
            Decision::NotInQueue => Err(removed(self.queue())),
            _ => Ok(None),
        }
    }

    /// Tells whether the place is still in the queue.
    pub(crate) fn stands(&self) -> bool {
        self.standing().liveness(LivenessAt::Now).is_held()
    }

    /// Looks whether it is granted now.
    pub(crate) async fn is_granted_now(&self) -> Result<bool> {
        check_with_reason(self.queue(), self.standing()).await?;
        let view = self
            .granted
            .place
            .session
            .view(self.queue(), Freshness::Latest, self.extent())
            .await
            .map_err(|error| error.at(self.queue()))?;
        match self.decide(&view)? {
            Decision::Granted => Ok(true),
            Decision::NotInQueue => Err(removed(self.queue())),
            _ => Ok(false),
        }
    }

    /// Waits until the place is granted or lost.
    pub(crate) async fn wait(mut self, shared: &Shared) -> Result<Granted> {
        self.until_granted(shared).await?;
        self.grant().map(|(granted, _)| granted)
    }

    /// Waits until the place is granted or lost; it stands if this is dropped, and the wait may begin again.
    pub(crate) async fn until_granted(&mut self, shared: &Shared) -> Result<()> {
        // The first view came with the place; an earlier wait that was dropped may have used it.
        let is_seen = !self.view.contenders.is_empty();
        if !is_seen || self.decide(&self.view)? != Decision::Granted {
            // A waiter keeps no list: ten thousand of them would hold gigabytes.
            let used = QueueView::new(self.view.connection, Arc::default());
            let view = std::mem::replace(&mut self.view, used);
            // A place that is granted at once does not carry what only waiters need.
            Box::pin(self.until_turn(shared, is_seen.then_some(view))).await?;
        }
        // It may be gone, and not be known why yet: that decides whether to join again.
        check_with_reason(self.queue(), self.standing()).await
    }

    /// Waits until the place is granted or lost, given the queue as it stood last.
    async fn until_turn(&self, shared: &Shared, seen: Option<QueueView>) -> Result<()> {
        let session = self.granted.place.session.clone();
        let standing = self.granted.grant.standing.clone();
        let mut view = match seen {
            Some(view) => view,
            None => {
                let look = || session.view(self.queue(), Freshness::Latest, self.extent());
                until_answered(shared, self.queue(), &*standing, None, look).await?
            }
        };
        let mut known: Option<Arc<KnownHead>> = None;
        loop {
            if let Some(head) = &known {
                head.note_view(&view);
            }
            let (ahead, departure_grants) = match self.decide(&view)? {
                Decision::Granted => break,
                Decision::WaitFor { ahead, departure_grants } => (ahead, departure_grants),
                Decision::NotInQueue | Decision::KindMismatch { .. } => {
                    // If the session ended, its contenders are gone too: then the reason is the lost session.
                    check_with_reason(self.queue(), &*standing).await?;
                    return Err(removed(self.queue()));
                }
            };
            let would_grant = departure_grants || decide::departure_of_first_grants(self.mode, &ahead, &view);
            let (seen, before) = (view.connection, view.ahead_of(&self.granted.grant.id).unwrap_or(0));
            let head = known.get_or_insert_with(|| {
                let head = shared.known_heads.of(self.queue(), &session);
                head.note_view(&view);
                head
            });
            let others = self.others_heard_of(&view);
            drop(view);
            let departure = session.departure(self.queue(), Some(&self.granted.grant.id), &ahead, seen);
            // Asked for now, while all of them are there: one that has left by then would have to be looked for.
            let others: Option<Vec<_>> = others.map(|others| {
                others
                    .iter()
                    .map(|other| session.departure(self.queue(), Some(&self.granted.grant.id), other, seen))
                    .collect()
            });
            let prove_it_together = others.is_some();
            let mut departure = spans::while_waiting_for(shared, self.queue(), &ahead, before, departure).await;
            for other in others.into_iter().flatten() {
                if matches!(departure, Ok(Departure::Gone)) {
                    departure = other.await;
                }
            }
            check_with_reason(self.queue(), &*standing).await?;
            let is_proved = departure_grants || prove_it_together || would_grant && head.is_first(seen, &ahead);
            if matches!(departure, Ok(Departure::Gone)) && is_proved {
                if decide::is_alone(self.mode) {
                    // Noted before the lock is held, and so before any waiter can see it given back.
                    head.note(seen, &self.granted.grant.id);
                }
                break;
            }
            let was_told = matches!(departure, Ok(Departure::Gone));
            let freshness = if was_told { Freshness::AfterDeparture } else { Freshness::Latest };
            let look = || session.view(self.queue(), freshness, self.extent());
            view = until_answered(shared, self.queue(), &*standing, departure.err(), look).await?;
        }
        Ok(())
    }

    /// Returns the readers ahead but for the nearest, which comes first, if the departures of all prove our turn, and
    /// are heard of without a request.
    fn others_heard_of(&self, view: &QueueView) -> Option<Vec<ContenderId>> {
        let readers = decide::readers_ahead(self.mode, &self.granted.grant.id, view, READERS_KEPT_MAX)?;
        let (_, others) = readers.split_last()?;
        let are_heard_of = readers.iter().all(|reader| self.granted.place.session.hears_of(&reader.id));
        are_heard_of.then(|| others.iter().rev().map(|reader| reader.id.clone()).collect())
    }

    /// Takes the grant, and the queue as it stood at the join, if it was granted by that.
    pub(crate) fn grant(self) -> Result<(Granted, QueueView)> {
        check_standing(self.queue(), self.standing())?;
        Ok((self.granted, self.view))
    }
}
