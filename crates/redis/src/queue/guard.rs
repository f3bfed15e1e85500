//! Watches our own contenders.
//!
//! Most locks are released soon, and then a watch would cost more than the lock. So a task reads a contender's record
//! once that has stood for a while, again after each change, and over each new connection.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::Duration;

use lockkeeper_core::Operation;
use lockkeeper_core::clock::Clock;
use lockkeeper_session::{Failure, Mutex};
use redis::Value;
use tokio::sync::Notify;

use crate::answers::only;
use crate::connection::{Batch, Wake, answer};
use crate::queue::place::Place;
use crate::queue::record::Stored;
use crate::queue::service::Queues;
use crate::session::Core;

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
    pub(super) fn add(&self, place: &Arc<Place>) {
        let mut places = self.places.lock();
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
                self.places.lock().pop_front();
                return place;
            }
            drop(place);
            clock.sleep_until(due_at).await;
        }
    }

    /// Returns the oldest that stands, and forgets those before it.
    fn oldest(&self) -> Option<Arc<Place>> {
        let mut places = self.places.lock();
        loop {
            match places.front()?.upgrade().filter(|place| place.bond.stands()) {
                Some(place) => return Some(place),
                None => drop(places.pop_front()),
            }
        }
    }
}

/// Takes in which contenders renewals found to be gone, and has those watched that have stood for a while, until the
/// session is over.
pub(super) async fn run(queues: Arc<Queues>) {
    let core = &queues.service.core;
    let mut told = core.contenders.told();
    loop {
        tokio::select! {
            biased;
            _ = core.life.ended() => return,
            place = queues.service.young.grown(&*core.life.clock) => begin(&queues, &place),
            news = told.recv() => match news {
                Some(news) => queues.hear(news),
                None => return,
            },
        }
    }
}

/// Has a place watched. The task holds the place, and ends with its withdrawal.
fn begin(queues: &Arc<Queues>, place: &Arc<Place>) {
    let core = &queues.service.core;
    let key = core.layout.contender(place.ticket);
    let watching = core.life.runtime.spawn(watch(queues.clone(), place.clone(), key, note));
    place.own.watch_by(Some(watching.abort_handle()));
    if place.bond.is_left() {
        place.own.watch_by(None);
    }
}

/// Watches the key of one place until that is gone, or is the place's no more.
pub(super) async fn watch(
    queues: Arc<Queues>,
    place: Arc<Place>,
    key: String,
    is_there: fn(&Core, &Place, Value) -> Result<bool, Failure>,
) {
    let core = &queues.service.core;
    while place.bond.stands() {
        let Some(link) = core.life.next_link().await else { return };
        let reading = async {
            let told = link.connection.wait_for(key.as_bytes())?;
            let answers = core.send(&link, Batch::new().tracked_get(&told), Operation::Wait).await?;
            Ok::<_, Failure>(is_there(core, &place, only(answers)?)?.then_some(told))
        };
        match reading.await {
            Ok(Some(told)) => {
                // After the end of a connection all is read over the next one.
                let _: Wake = told.await;
            }
            Ok(None) => queues.found_gone(&place),
            Err(failure) => core.life.pause_after(&link, &failure).await,
        }
    }
}

/// Notes what is stored of a place now; returns whether it is there.
fn note(_core: &Core, place: &Place, record: Value) -> Result<bool, Failure> {
    let bytes = match answer(record, "GET")? {
        Value::Nil => return Ok(false),
        Value::BulkString(bytes) => bytes,
        _ => return Err(Failure::unexpected()),
    };
    if let Some(revocation) = Stored::read(&bytes).and_then(|stored| stored.revocation()) {
        place.bond.revoke(revocation);
    }
    Ok(true)
}
