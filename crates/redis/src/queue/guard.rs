//! Watches our own contenders, and finds out why one is gone.
//!
//! Most locks are released soon, and then a watch would cost more than the lock. So a task reads a contender's record
//! once that has stood for a while, again after each change, and over each new connection.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use lockkeeper_core::clock::Clock;
use lockkeeper_core::{LossReason, Operation};
use lockkeeper_session::Failure;
use redis::Value;
use tokio::sync::Notify;

use crate::answers::{only, text};
use crate::connection::{Flight, Told, Wake, answer};
use crate::queue::inner::Inner;
use crate::queue::place::Place;
use crate::queue::record::Stored;
use crate::queue::withdraw;
use crate::script::Script;
use crate::session::Link;

/// How long a contender stands before it is watched.
const WATCH_AFTER: Duration = Duration::from_millis(100);

/// The places that have not stood for long. Each costs its join a note here, and no task.
#[derive(Debug, Default)]
pub(super) struct Young {
    /// In the order in which they were placed. The joins of a tenth of a second are their limit.
    places: Mutex<VecDeque<Weak<Place>>>,
    /// Tells that there is one again.
    first: Notify,
}

impl Young {
    fn add(&self, place: &Arc<Place>) {
        let mut places = self.places();
        places.push_back(Arc::downgrade(place));
        if places.len() == 1 {
            self.first.notify_one();
        }
    }

    /// Waits until one has stood for long enough, and returns it. Dropping the future loses none.
    async fn grown(&self, clock: &dyn Clock) -> Arc<Place> {
        loop {
            let Some(place) = self.oldest() else {
                self.first.notified().await;
                continue;
            };
            let due_at = place.placed_at.saturating_add(WATCH_AFTER);
            if clock.now() >= due_at {
                self.places().pop_front();
                return place;
            }
            drop(place);
            clock.sleep_until(due_at).await;
        }
    }

    /// Returns the oldest that stands, and forgets those before it.
    fn oldest(&self) -> Option<Arc<Place>> {
        let mut places = self.places();
        loop {
            match places.front()?.upgrade().filter(|place| place.bond.stands()) {
                Some(place) => return Some(place),
                None => drop(places.pop_front()),
            }
        }
    }

    /// Nothing panics while it is locked.
    fn places(&self) -> MutexGuard<'_, VecDeque<Weak<Place>>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes in which contenders renewals found to be gone, and has those watched that have stood for a while, until the
/// session is over.
pub(super) async fn run(inner: Arc<Inner>) {
    let mut told = inner.core.roll.told();
    loop {
        let gone = tokio::select! {
            biased;
            _ = inner.core.life.ended() => return,
            place = inner.young.grown(&*inner.core.life.clock) => {
                inner.watch(&place);
                continue;
            }
            gone = told.recv() => gone,
        };
        let Some(ticket) = gone else { return };
        let place = inner.entries().of_ticket(ticket).cloned();
        if let Some(place) = place {
            inner.found_gone(&place);
        }
    }
}

/// Watches one place until it is gone.
async fn watch(inner: Arc<Inner>, place: Arc<Place>) {
    while place.bond.stands() {
        let Some(link) = inner.core.life.next_link().await else { return };
        match read(&inner, &link, &place).await {
            Ok(Some(told)) => {
                // After the end of a connection all is read over the next one.
                let _: Wake = told.await;
            }
            Ok(None) => inner.found_gone(&place),
            Err(failure) => inner.core.life.pause_after(&link, &failure).await,
        }
    }
}

/// Reads a place's record; `None` if that is gone.
async fn read(inner: &Inner, link: &Arc<Link>, place: &Place) -> Result<Option<Told>, Failure> {
    let told = link.connection.wait_for(inner.core.layout.contender(place.member.ticket).as_bytes())?;
    let answers = inner.core.fly(link, Flight::new().tracked_get(&told), Operation::Wait).await?;
    Ok(note(place, answer(only(answers)?, "GET")?)?.then_some(told))
}

/// Notes what is stored of a place now; returns whether it is there.
fn note(place: &Place, record: Value) -> Result<bool, Failure> {
    let bytes = match record {
        Value::Nil => return Ok(false),
        Value::BulkString(bytes) => bytes,
        _ => return Err(Failure::unexpected()),
    };
    if let Some(revocation) = Stored::read(&bytes).and_then(|stored| stored.revocation()) {
        place.bond.revoke(revocation);
    }
    Ok(true)
}

impl Inner {
    /// Has a place watched, once it has stood for a while.
    pub(super) fn watch_later(&self, place: &Arc<Place>) {
        self.young.add(place);
    }

    fn watch(self: &Arc<Self>, place: &Arc<Place>) {
        // The task holds the place, and ends with its withdrawal.
        let watching = self.core.life.runtime.spawn(watch(self.clone(), place.clone()));
        place.watch_by(Some(watching.abort_handle()));
        if place.bond.is_left() {
            place.watch_by(None);
        }
    }

    /// Notes that a contender of ours is gone, and finds out why.
    pub(super) fn found_gone(self: &Arc<Self>, place: &Arc<Place>) {
        if place.bond.remove() {
            self.core.life.runtime.spawn(explain(self.clone(), place.clone()));
        }
    }
}

async fn explain(inner: Arc<Inner>, place: Arc<Place>) {
    let reason = tokio::select! {
        biased;
        reason = inner.core.life.bond().lost() => reason,
        reason = find_out(&inner, &place) => reason,
    };
    inner.core.roll.remove(place.member.ticket);
    if reason == LossReason::Expired {
        inner.core.life.expire();
    }
    place.bond.explain(reason);
    #[cfg(feature = "testing")]
    if inner.core.life.check(Operation::Wait).is_ok() {
        inner.core.testing.note_removal();
    }
}

/// Removes what is left of a contender of ours, and asks why it is gone: it was broken, it went with its session, or it
/// was removed.
async fn find_out(inner: &Arc<Inner>, place: &Place) -> LossReason {
    let leaving = withdraw::leaving(inner, Script::LeaveJudged, &place.queue, place.member.ticket, Some(&place.id));
    let mut call = inner.core.life.call(leaving);
    loop {
        let failure = match call.answer().await.and_then(|(_, answer)| text(answer)) {
            Ok(why) => return reason(&why),
            Err(failure) => failure,
        };
        if !failure.is_passing() {
            tracing::debug!(target: "lockkeeper", %failure, "the service does not say why a contender is gone");
            return LossReason::Removed;
        }
        inner.core.life.again(&mut call, &failure).await;
    }
}

/// Reads the word of a script for why a contender is gone. One that is there in part was deleted by hand.
pub(super) fn reason(why: &str) -> LossReason {
    match why {
        "broken" => LossReason::Broken,
        "gone" => LossReason::Expired,
        _ => LossReason::Removed,
    }
}
