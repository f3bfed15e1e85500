//! One attempt at a semaphore: wait to be the first waiter, then take all permits at once.
//!
//! Only the first waiter looks at the permits, so no other one takes a permit between its look and its taking. All
//! requested permits are taken in one transaction, when they fit: no contender holds some of them while it waits for
//! the rest.
//!
//! The queue of waiters orders the contenders that stand in it, but safety does not depend on it. Permits are granted
//! only if, with them taken, there are no more than allowed by the bound that is read after the taking; otherwise they
//! are given back at once.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::{
    BoxFuture, Caller, Enqueued, Error, ErrorKind, Expected, Extent, Freshness, Mode, Operation, Part, QueueName,
    QueueView, Result, Session, Standing, Value,
};

use crate::contend::{
    ArmedPlace, Failures, GrantAttempt, Granted, OnePlace, WaitProgress, check_standing, check_with_reason, entry,
    kind_mismatch, until_answered,
};
use crate::count::Count;
use crate::deadlock::KeyCall;
use crate::decide::{self, PermitsDecision};
use crate::shared::Shared;

/// The pause of a contender that was overtaken twice in a row, so that two which keep giving way to each other do not
/// ask the service in a busy loop.
const OVERTAKEN_PAUSE: Duration = Duration::from_millis(100);

/// How many permits there are.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum PermitBound {
    /// As many as all holders of a permit say.
    Agreed(u32),
    /// As many as a counter says, now.
    Counted(QueueName),
}

/// Asks for permits of a semaphore, all at once.
#[derive(Debug)]
pub(crate) struct SomePermits<'a> {
    pub(crate) lock: &'a QueueName,
    pub(crate) wanted: u32,
    pub(crate) bound: &'a PermitBound,
    pub(crate) caller: Caller,
    /// The call of an owner key that is refused if its wait closes a circle.
    pub(crate) asking: Option<&'a KeyCall>,
}

impl GrantAttempt for SomePermits<'_> {
    type Granted = Vec<Granted>;

    async fn wait(&mut self, shared: &Shared, progress: &mut WaitProgress) -> Result<Vec<Granted>> {
        let session = shared.session().await.map_err(|error| error.at(self.lock))?;
        let queue = self.lock.with_part(Part::Waiters);
        let waiter = OnePlace::new(&queue, Mode::Acquire, self.caller);
        let sent = waiter.send(shared, session.clone())?;
        let first_look = self.questions(&session);
        let joined = waiter.joined(shared, sent).await?;
        *progress = WaitProgress::Placed;
        let hint = if joined.is_first() {
            self.hint(first_look).await
        } else {
            // It is of no use by the time that we are; and what is asked for is read, or given up.
            drop(first_look);
            None
        };
        if let Some(asking) = self.asking.filter(|_| !joined.is_first()) {
            let grant = &joined.granted.grant;
            asking.waits_in(grant.token, &grant.standing)?;
        }
        let first = joined.wait(shared).await?;
        self.wait_as_first(shared, &session, &first, hint).await
    }

    /// It looks before it joins, so that a semaphore without free permits costs the service no write.
    async fn try_once(&mut self, shared: &Shared) -> Result<Option<Vec<Granted>>> {
        let session = shared.session().await.map_err(|error| error.at(self.lock))?;
        let queue = self.lock.with_part(Part::Waiters);
        let waiter = OnePlace::new(&queue, Mode::Acquire, self.caller);
        let waiters = session.view(&queue, Freshness::Latest, Extent::Around(None));
        let permits = self.questions(&session);
        let waiters = waiters.await.map_err(|error| error.at(self.lock))?;
        let permits = self.answers(permits).await?;
        if !waiters.contenders.is_empty() || self.decide(&permits)? != PermitsDecision::Fit {
            return Ok(None);
        }
        let sent = waiter.send(shared, session.clone())?;
        let permits = self.questions(&session);
        let Some((first, _)) = waiter.joined(shared, sent).await?.granted_at_once().await? else {
            return Ok(None);
        };
        let seen = match self.hint(permits).await {
            Some(seen) => seen,
            None => self.answers(self.questions(&session)).await?,
        };
        match self.decide(&seen)? {
            PermitsDecision::Fit => self.take(shared, &session, &*first.grant.standing, &seen).await,
            _ => Ok(None),
        }
    }
}

/// The permits as they were seen, and the bound.
#[derive(Debug)]
struct SeenPermits {
    view: QueueView,
    /// The value with the bound, as it was read.
    value: Option<Value>,
    bound: u32,
}

/// A look at the permits and at the bound, sent together.
type Questions = (BoxFuture<Result<QueueView>>, BoxFuture<Result<Option<Value>>>);

impl SomePermits<'_> {
    fn permits(&self) -> QueueName {
        self.lock.with_part(Part::Permits)
    }

    /// Names the queue whose value has the bound.
    fn bound_lies_at(&self) -> QueueName {
        match self.bound {
            PermitBound::Agreed(_) => self.permits(),
            PermitBound::Counted(counter) => counter.clone(),
        }
    }

    fn questions(&self, session: &Arc<dyn Session>) -> Questions {
        (session.view(&self.permits(), Freshness::Latest, Extent::Whole), session.values().get(&self.bound_lies_at()))
    }

    async fn answers(&self, (view, value): Questions) -> Result<SeenPermits> {
        let view = view.await.map_err(|error| error.at(self.lock))?;
        let value = value.await.map_err(|error| error.at(self.lock))?;
        self.seen(view, value)
    }

    fn seen(&self, view: QueueView, value: Option<Value>) -> Result<SeenPermits> {
        let bound = match self.bound {
            PermitBound::Agreed(bound) => *bound,
            PermitBound::Counted(counter) => read_counter(counter, value.as_ref())?,
        };
        Ok(SeenPermits { view, value, bound })
    }

    /// Reads a look that was sent right after our entry among the waiters, so that the first of them needs no
    /// second round trip.
    ///
    /// Where the entry was sent again, the look is older than our place: other contenders may have come and gone in
    /// between. So it may tell that permits fit, which their taking proves or refutes, or that they do not, and then a
    /// change is awaited. It causes no error, and no bound is noted by it.
    async fn hint(&self, first_look: Questions) -> Option<SeenPermits> {
        let seen = self.answers(first_look).await.ok()?;
        let is_harmless = self.decide(&seen).is_ok() && self.unnoted(seen.value.as_ref()).is_none();
        is_harmless.then_some(seen)
    }

    /// Waits until the permits fit, and takes them. A failure that may pass does not cost the place among the waiters.
    async fn wait_as_first(
        &self,
        shared: &Shared,
        session: &Arc<dyn Session>,
        first: &Granted,
        mut hint: Option<SeenPermits>,
    ) -> Result<Vec<Granted>> {
        let place = &*first.grant.standing;
        let mut failures = Failures::default();
        let mut was_overtaken = false;
        loop {
            let seen = match hint.take() {
                Some(seen) => seen,
                None => self.look(shared, session, place).await?,
            };
            let failure = if self.decide(&seen)? == PermitsDecision::Fit {
                match self.take(shared, session, place, &seen).await {
                    Ok(Some(granted)) => return Ok(granted),
                    Ok(None) => {
                        if was_overtaken {
                            shared.clock.sleep_until(shared.clock.now().saturating_add(OVERTAKEN_PAUSE)).await;
                        }
                        was_overtaken = true;
                        None
                    }
                    Err(error) => Some(error),
                }
            } else {
                was_overtaken = false;
                if let Some(asking) = self.asking {
                    asking.waits_in(first.grant.token, &first.grant.standing)?;
                }
                let change = self.change(session, place, seen).await;
                if change.is_ok() {
                    failures = Failures::default();
                }
                change.err()
            };
            if let Some(error) = failure {
                failures.pause(shared, self.lock, place, error).await?;
            }
        }
    }

    /// Looks while we are the first waiter; a failure that may pass does not cost that place.
    async fn look(&self, shared: &Shared, session: &Arc<dyn Session>, place: &dyn Standing) -> Result<SeenPermits> {
        let look = || -> BoxFuture<Result<_>> {
            let (view, value) = self.questions(session);
            Box::pin(async move { Ok((view.await?, value.await?)) })
        };
        let (view, value) = until_answered(shared, self.lock, place, None, look).await?;
        self.seen(view, value)
    }

    fn decide(&self, seen: &SeenPermits) -> Result<PermitsDecision> {
        let decision = decide::permits(self.wanted, seen.bound, &seen.view);
        if let PermitsDecision::KindMismatch { found } = decision {
            return Err(kind_mismatch(self.lock, Mode::Permit, found));
        }
        if let (PermitBound::Agreed(ours), Some(theirs)) = (self.bound, agreed(seen.value.as_ref()))
            && theirs != *ours
            && !seen.view.contenders.is_empty()
        {
            let message = format!(
                "asked for with {ours} permits, but the present holders use it with {theirs}; a number that changes \
                 while permits are held is one that a counter says (`Permits::Counter`, `run --counter`)"
            );
            return Err(Error::permanent(ErrorKind::BoundMismatch, Operation::Join, message).at(self.lock));
        }
        Ok(decision)
    }

    /// Waits for a change of the permits or of the bound, or for the loss of the place.
    async fn change(&self, session: &Arc<dyn Session>, place: &dyn Standing, seen: SeenPermits) -> Result<()> {
        let permits = session.changed(&self.permits(), &seen.view);
        let bound = async {
            match self.bound {
                // While too many permits are taken, the holders' bound cannot change.
                PermitBound::Agreed(_) => std::future::pending().await,
                PermitBound::Counted(counter) => session
                    .values()
                    .until_changed(counter, seen.value.as_ref().map(|value| value.version))
                    .await
                    .map(drop),
            }
        };
        tokio::select! {
            biased;
            // The next look reports it.
            _ = place.lost() => Ok(()),
            change = permits => change.map(drop),
            change = bound => change,
        }
    }

    /// Takes the permits; `None`, with nothing taken, if the look is out of date.
    async fn take(
        &self,
        shared: &Shared,
        session: &Arc<dyn Session>,
        place: &dyn Standing,
        seen: &SeenPermits,
    ) -> Result<Option<Vec<Granted>>> {
        if !self.agree(session, seen).await? {
            return Ok(None);
        }
        let queue = self.permits();
        // They are granted at once, so there is no wait to give up.
        let mut caller = self.caller;
        caller.until_unix = None;
        let mut places = Vec::new();
        let mut entries = Vec::new();
        for _ in 0..self.wanted {
            let entry = entry(shared, Mode::Permit, caller)?;
            places.push(ArmedPlace::arm(shared, session.clone(), queue.clone(), entry.ticket));
            entries.push(entry);
        }
        let taken = session.enqueue(&queue, entries);
        // Sent after the taking, so that it shows the bound under which the permits were taken.
        let value = session.values().get(&self.bound_lies_at());
        let taken = taken.await.map_err(|error| error.at(self.lock))?;
        let value = value.await.map_err(|error| error.at(self.lock))?;
        check_with_reason(self.lock, place).await?;
        // The service may have removed the value with the empty queue it belonged to.
        if self.unnoted(value.as_ref()).is_some() {
            return Ok(None);
        }
        let Some(view) = taken.last().map(|last| last.view.clone()) else {
            return Ok(None);
        };
        let seen = self.seen(view, value)?;
        if decide::permits(0, seen.bound, &seen.view) != PermitsDecision::Fit {
            return Ok(None);
        }
        for taken in &taken {
            check_with_reason(self.lock, &*taken.standing).await?;
        }
        let grant = |(place, taken): (ArmedPlace, Enqueued)| {
            check_standing(self.lock, &*taken.standing)?;
            Ok(Granted::answered(place, taken).0)
        };
        places.into_iter().zip(taken).map(grant).collect::<Result<_>>().map(Some)
    }

    /// Notes the bound, if needed; `false` if another client wrote meanwhile.
    async fn agree(&self, session: &Arc<dyn Session>, seen: &SeenPermits) -> Result<bool> {
        let Some((bound, expected)) = self.unnoted(seen.value.as_ref()) else {
            return Ok(true);
        };
        let text: Arc<[u8]> = bound.to_string().into_bytes().into();
        let written = session.values().set(&self.permits(), expected, Some(text)).await;
        written.map(|written| written.is_some()).map_err(|error| error.at(self.lock))
    }

    /// Returns our bound and the state expected for noting it; `None` if it is noted already, or the value is not a
    /// bound: a value of another kind is left alone.
    fn unnoted(&self, value: Option<&Value>) -> Option<(u32, Expected)> {
        let PermitBound::Agreed(ours) = *self.bound else {
            return None;
        };
        let Some(value) = value else {
            return Some((ours, Expected::Absent));
        };
        let is_to_be_noted = value.bytes.is_empty() || agreed(Some(value)).is_some_and(|theirs| theirs != ours);
        is_to_be_noted.then_some((ours, Expected::Version(value.version)))
    }
}

/// Reads the bound that was agreed; `None` if there is none yet, or the value is of another kind.
pub(crate) fn agreed(value: Option<&Value>) -> Option<u32> {
    std::str::from_utf8(&value?.bytes).ok()?.parse().ok()
}

/// Reads a bound from a counter; a negative one allows nothing.
fn read_counter(counter: &QueueName, value: Option<&Value>) -> Result<u32> {
    Ok(u32::try_from(Count::read(counter, value)?.number()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockkeeper_core::{ConnectionNumber, Contender, ContenderId, ValueVersion};

    fn questions(taken: usize, noted: Option<&str>) -> Questions {
        let permit =
            |number: usize| Contender { id: ContenderId::new(number.to_string()), ticket: None, mode: Mode::Permit };
        let view = QueueView::new(ConnectionNumber(1), (0..taken).map(permit).collect::<Vec<_>>());
        let value = noted.map(|noted| Value { bytes: noted.as_bytes().into(), version: ValueVersion(1) });
        (Box::pin(std::future::ready(Ok(view))), Box::pin(std::future::ready(Ok(value))))
    }

    /// The look may be older than our place, so others may have noted their bound, taken permits and left since.
    #[tokio::test]
    async fn by_a_look_that_was_sent_with_the_join_no_bound_is_noted_and_no_request_is_refused() {
        let lock = QueueName::new("door").unwrap();
        let (bound, counted) = (PermitBound::Agreed(2), PermitBound::Counted(QueueName::new("how-many").unwrap()));
        let permits = SomePermits { lock: &lock, wanted: 1, bound: &bound, caller: Caller::default(), asking: None };
        assert!(permits.hint(questions(0, None)).await.is_none(), "nothing is noted");
        assert!(permits.hint(questions(0, Some(""))).await.is_none(), "nothing is noted");
        assert!(permits.hint(questions(0, Some("3"))).await.is_none(), "another one is noted");
        assert!(permits.hint(questions(1, Some("3"))).await.is_none(), "it would be refused");
        assert!(permits.hint(questions(1, Some("2"))).await.is_some());
        assert!(permits.hint(questions(2, Some("2"))).await.is_some(), "it is worth waiting for a change");
        assert!(permits.hint(questions(0, Some("10.0.0.1"))).await.is_some(), "it is of another kind, and left alone");
        let permits = SomePermits { lock: &lock, wanted: 1, bound: &counted, caller: Caller::default(), asking: None };
        assert!(permits.hint(questions(0, Some("2"))).await.is_none(), "it is no counter");
        assert!(permits.hint(questions(0, Some("\0\0\0\u{2}"))).await.is_some());
    }
}
