//! One attempt at a semaphore: wait at the gate, then take all permits at once.
//!
//! Whoever is first at the gate looks at the permits, alone; so nobody takes one between its look and its taking. All
//! permits that were asked for are taken in one transaction, when they fit: nobody holds some of them while waiting for
//! the rest.

use std::sync::Arc;

use super::line::OnePlace;
use super::persist::{Attempt, Progress, until_answered};
use super::place::{Granted, Place};
use super::refusal::{check_standing, kind_mismatch, refused};
use crate::contender::{Enqueued, Entry, Expected, Mode, QueueView, Ticket, Value};
use crate::decide::{self, Permits};
use crate::keeper::Shared;
use crate::name::Part;
use crate::{BoxFuture, Error, ErrorKind, Operation, QueueName, Result, Session, Standing};

/// How many permits there are.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Bound {
    /// As many as everybody says who holds one.
    Agreed(u32),
    /// As many as a counter says, now.
    Counted(QueueName),
}

/// Wants permits of a semaphore, all at once.
#[derive(Debug)]
pub(crate) struct SomePermits<'a> {
    pub(crate) lock: &'a QueueName,
    pub(crate) wanted: u32,
    pub(crate) bound: &'a Bound,
}

impl Attempt for SomePermits<'_> {
    type Granted = Vec<Granted>;

    fn queue(&self) -> &QueueName {
        self.lock
    }

    async fn wait(&self, shared: &Shared, progress: &mut Progress) -> Result<Vec<Granted>> {
        let session = shared.session().await.map_err(|error| error.at(self.lock))?;
        let queue = self.lock.with_part(Part::Gate);
        let gate = OnePlace { queue: &queue, mode: Mode::Gate };
        let sent = gate.send(shared, session.clone())?;
        // Sent behind the join, so it holds if nobody stands before us at the gate: then there is no second round trip.
        let first_look = self.questions(&session);
        let joined = gate.joined(shared, sent).await?;
        *progress = Progress::Placed;
        let mut first_look = if joined.is_first() { self.answers(first_look).await.ok() } else { None };
        let gate = joined.wait(shared).await?;
        loop {
            let permits = match first_look.take() {
                Some(permits) => permits,
                None => self.look(shared, &session, &*gate.standing).await?,
            };
            match self.decide(&permits)? {
                Permits::Fit => match self.take(shared, &session, &*gate.standing, &permits).await? {
                    Some(granted) => return Ok(granted),
                    None => continue,
                },
                _ => self.change(shared, &session, &*gate.standing, permits).await?,
            }
        }
    }

    /// It looks before it joins, so that a semaphore without free permits costs the service no write.
    async fn try_once(&self, shared: &Shared) -> Result<Option<Vec<Granted>>> {
        let session = shared.session().await.map_err(|error| error.at(self.lock))?;
        let queue = self.lock.with_part(Part::Gate);
        let gate = OnePlace { queue: &queue, mode: Mode::Gate };
        let waiters = session.view(&queue);
        let permits = self.questions(&session);
        let waiters = waiters.await.map_err(|error| error.at(self.lock))?;
        let permits = self.answers(permits).await?;
        if !waiters.contenders.is_empty() || self.decide(&permits)? != Permits::Fit {
            return Ok(None);
        }
        let sent = gate.send(shared, session.clone())?;
        let permits = self.questions(&session);
        let Some(gate) = gate.joined(shared, sent).await?.granted_at_once()? else {
            return Ok(None);
        };
        let permits = self.answers(permits).await?;
        match self.decide(&permits)? {
            Permits::Fit => self.take(shared, &session, &*gate.standing, &permits).await,
            _ => Ok(None),
        }
    }
}

/// The permits as they were seen, and the bound.
#[derive(Debug)]
struct Seen {
    view: QueueView,
    /// The value that says the bound, as it was read.
    value: Option<Value>,
    bound: u32,
}

/// A look at the permits and at the bound, sent together.
type Questions = (BoxFuture<Result<QueueView>>, BoxFuture<Result<Option<Value>>>);

impl SomePermits<'_> {
    fn permits(&self) -> QueueName {
        self.lock.with_part(Part::Permits)
    }

    /// Names the queue whose value says the bound.
    fn bound_lies_at(&self) -> QueueName {
        match self.bound {
            Bound::Agreed(_) => self.permits(),
            Bound::Counted(counter) => counter.clone(),
        }
    }

    fn questions(&self, session: &Arc<dyn Session>) -> Questions {
        (session.view(&self.permits()), session.value(&self.bound_lies_at()))
    }

    async fn answers(&self, (view, value): Questions) -> Result<Seen> {
        let view = view.await.map_err(|error| error.at(self.lock))?;
        let value = value.await.map_err(|error| error.at(self.lock))?;
        let bound = match self.bound {
            Bound::Agreed(bound) => *bound,
            Bound::Counted(counter) => read_counter(counter, value.as_ref())?,
        };
        Ok(Seen { view, value, bound })
    }

    /// Looks while the gate is ours; a failure that may pass costs nothing.
    async fn look(&self, shared: &Shared, session: &Arc<dyn Session>, gate: &dyn Standing) -> Result<Seen> {
        let look = || -> BoxFuture<Result<_>> {
            let (view, value) = self.questions(session);
            Box::pin(async move { Ok((view.await?, value.await?)) })
        };
        let (view, value) = until_answered(shared, self.lock, gate, None, look).await?;
        self.answers((Box::pin(std::future::ready(Ok(view))), Box::pin(std::future::ready(Ok(value))))).await
    }

    fn decide(&self, seen: &Seen) -> Result<Permits> {
        let decision = decide::permits(self.wanted, seen.bound, &seen.view);
        if let Permits::KindMismatch { found } = decision {
            return Err(kind_mismatch(self.lock, Mode::Permit, found));
        }
        if let (Bound::Agreed(ours), Some(theirs)) = (self.bound, agreed(seen.value.as_ref()))
            && theirs != *ours
            && !seen.view.contenders.is_empty()
        {
            let message = format!("asked for with {ours} permits, but those who hold some have agreed on {theirs}");
            return Err(Error::permanent(ErrorKind::BoundMismatch, Operation::Join, message).at(self.lock));
        }
        Ok(decision)
    }

    /// Waits for a change of the permits or of the bound.
    async fn change(&self, shared: &Shared, session: &Arc<dyn Session>, gate: &dyn Standing, seen: Seen) -> Result<()> {
        let permits = session.changed(&self.permits(), &seen.view);
        let bound = async {
            match self.bound {
                Bound::Agreed(_) => std::future::pending().await,
                Bound::Counted(counter) => {
                    session.value_changed(counter, seen.value.as_ref().map(|value| value.version)).await.map(drop)
                }
            }
        };
        let change = tokio::select! {
            biased;
            // Whoever loses the gate must not go on waiting.
            _ = gate.lost() => Ok(()),
            change = permits => change.map(drop),
            change = bound => change,
        };
        check_standing(self.lock, gate)?;
        match change {
            Ok(()) => Ok(()),
            // The next look says whether it has passed.
            Err(error) => {
                until_answered(shared, self.lock, gate, Some(error), || {
                    let view = session.view(&self.permits());
                    Box::pin(async move { view.await.map(drop) })
                })
                .await
            }
        }
    }

    /// Takes the permits; `None` if somebody has taken some who does not keep to the gate.
    async fn take(
        &self,
        shared: &Shared,
        session: &Arc<dyn Session>,
        gate: &dyn Standing,
        seen: &Seen,
    ) -> Result<Option<Vec<Granted>>> {
        if !self.agree(session, seen).await? {
            return Ok(None);
        }
        let queue = self.permits();
        let mut places = Vec::new();
        let mut entries = Vec::new();
        for _ in 0..self.wanted {
            let ticket = Ticket::mint()?;
            places.push(Place::arm(session.clone(), queue.clone(), ticket));
            entries.push(Entry::new(ticket, Mode::Permit, shared.owner.clone()));
        }
        let taken = session.enqueue_all(&queue, entries).await.map_err(|error| error.at(self.lock))?;
        check_standing(self.lock, gate)?;
        let overfull = taken.iter().any(|taken| match decide::permits(0, seen.bound, &taken.view) {
            Permits::Fit => false,
            Permits::WaitForChange | Permits::KindMismatch { .. } => true,
        });
        if overfull {
            return Ok(None);
        }
        let grant = |(place, taken): (Place, Enqueued)| {
            check_standing(self.lock, &*taken.standing)?;
            Ok(Granted { place, id: taken.id, token: taken.token, standing: taken.standing })
        };
        places.into_iter().zip(taken).map(grant).collect::<Result<_>>().map(Some)
    }

    /// Notes how many permits there are, if nobody has or nobody holds one who has; `false` if somebody was quicker who
    /// does not keep to the gate.
    async fn agree(&self, session: &Arc<dyn Session>, seen: &Seen) -> Result<bool> {
        let Bound::Agreed(bound) = *self.bound else {
            return Ok(true);
        };
        let expected = match &seen.value {
            None => Expected::Absent,
            Some(value) if value.bytes.is_empty() => Expected::Version(value.version),
            Some(value) => match agreed(Some(value)) {
                Some(theirs) if theirs != bound => Expected::Version(value.version),
                // Said already; or something of somebody else's, which is left alone.
                _ => return Ok(true),
            },
        };
        let text: Arc<[u8]> = bound.to_string().into_bytes().into();
        let written = session.set_value(&self.permits(), expected, Some(text)).await;
        written.map(|written| written.is_some()).map_err(|error| error.at(self.lock))
    }
}

/// Reads the bound that was agreed; `None` if nobody has said one, or the value is somebody else's.
fn agreed(value: Option<&Value>) -> Option<u32> {
    std::str::from_utf8(&value?.bytes).ok()?.parse().ok()
}

/// Reads a bound from a counter; a negative one allows nothing.
fn read_counter(counter: &QueueName, value: Option<&Value>) -> Result<u32> {
    let Some(value) = value else {
        return Ok(0);
    };
    let bytes: [u8; 4] = value
        .bytes
        .as_ref()
        .try_into()
        .map_err(|_| refused(counter, format!("its value has {} bytes, and a counter has 4", value.bytes.len())))?;
    Ok(u32::try_from(i32::from_be_bytes(bytes)).unwrap_or(0))
}
