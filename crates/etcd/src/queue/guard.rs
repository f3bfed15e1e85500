//! Watches our own contenders and the session's key.
//!
//! Most locks are released soon, and then a watch would cost more than the lock. So a contender is watched only once it
//! has stood for a while, or its owner waits.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::Operation;
use lockkeeper_core::clock::BootInstant;
use lockkeeper_session::{Lookable as _, or_never};

use crate::proto::{KeyValue, RangeRequest};
use crate::queue::inner::Inner;
use crate::queue::place::Place;
use crate::queue::record::Record;
use crate::queue::service::Queues;
use crate::queue::subscription::WATCH_AGAIN_AFTER;
use crate::rpc::{WatchEvent, Watched, key_range};
use crate::session::Link;

/// How long a contender stands before it is watched, unless its owner waits.
const WATCH_AFTER: Duration = Duration::from_millis(100);

/// Watches for one session, until it is over.
pub(super) async fn run(queues: Arc<Queues>) {
    let inner = queues.service.inner.clone();
    while let Some(link) = inner.core.life.next_link().await {
        let mut links = inner.core.life.links();
        let expiring = inner.clone();
        let on_session = move |event: WatchEvent<'_>| {
            if matches!(event, WatchEvent::Deleted(_)) {
                expiring.core.life.expire();
            }
        };
        let session = inner.core.layout.session(inner.core.lease);
        let _session_watch = link.watches.watch(Watched::Deletion(session), Box::new(on_session));
        for place in queues.standing() {
            watch(&queues, &link, &place);
        }
        loop {
            let due = watch_those_due(&queues, &link);
            let is_other =
                |present: &Option<Arc<Link>>| present.as_ref().is_none_or(|present| present.number != link.number);
            tokio::select! {
                biased;
                // The sender lives in the session that we hold.
                _ = links.wait_for(is_other) => break,
                () = inner.kick.notified() => {}
                () = or_never(due.map(|due| inner.core.life.clock.sleep_until(due))) => {}
            }
        }
    }
}

/// Watches the places that have stood long enough; returns when the next one has.
fn watch_those_due(queues: &Arc<Queues>, link: &Arc<Link>) -> Option<BootInstant> {
    let inner = &queues.service.inner;
    let now = inner.core.life.clock.now();
    loop {
        let place = {
            let mut unwatched = inner.unwatched.lock();
            let (due, place) = unwatched.front()?;
            if *due > now && place.bond.stands() {
                return Some(*due);
            }
            unwatched.pop_front()?.1
        };
        if !place.own.is_watched() {
            watch(queues, link, &place);
        }
    }
}

/// Watches one place.
pub(super) fn watch(queues: &Arc<Queues>, link: &Arc<Link>, place: &Arc<Place>) {
    if !place.bond.stands() {
        return;
    }
    // The place has its watch, and the watch must not keep the place.
    let (weak_queues, weak_link, weak_place) = (Arc::downgrade(queues), Arc::downgrade(link), Arc::downgrade(place));
    let on_place = move |event: WatchEvent<'_>| {
        let (Some(queues), Some(place)) = (weak_queues.upgrade(), weak_place.upgrade()) else {
            return;
        };
        let inner = &queues.service.inner;
        match event {
            WatchEvent::Created => {
                if let Some(link) = weak_link.upgrade() {
                    inner.core.life.runtime.spawn(check(queues.clone(), link, place));
                }
            }
            WatchEvent::Put(kv) => note(&place, kv),
            WatchEvent::Deleted(_) => queues.found_gone(&place),
            // On another connection all that stand are watched anew.
            WatchEvent::Over if weak_link.upgrade().is_some_and(|link| !link.connection.is_over()) => {
                let later = inner.core.life.clock.now().saturating_add(WATCH_AGAIN_AFTER);
                inner.unwatched.lock().push_back((later, place));
                inner.kick.notify_one();
            }
            WatchEvent::Over => {}
        }
    };
    let watch = link.watches.watch(Watched::Key(place.own.key.clone()), Box::new(on_place));
    drop(place.own.swap_watch(Some(watch)));
    if place.bond.is_left() {
        drop(place.own.swap_watch(None));
    }
}

/// Looks at a place that is watched from now on.
async fn check(queues: Arc<Queues>, link: Arc<Link>, place: Arc<Place>) {
    let core = &queues.service.inner.core;
    let range = RangeRequest { serializable: true, ..key_range(place.own.key.clone()) };
    // After a failure the next connection begins with another look.
    let Ok(answer) = core.send(&link, range, Operation::View, core.life.deadline()).await else {
        return;
    };
    match answer.kvs.first().filter(|kv| kv.create_revision == place.own.created) {
        Some(kv) => note(&place, kv),
        None => queues.found_gone(&place),
    }
}

/// Notes what is stored of a place now.
fn note(place: &Place, kv: &KeyValue) {
    let record = Some(kv).filter(|kv| kv.create_revision == place.own.created).and_then(|kv| Record::read(&kv.value));
    if let Some(revocation) = record.and_then(|record| record.revocation()) {
        place.bond.revoke(revocation);
    }
}

impl Inner {
    /// Has a new place watched once it has stood for a while.
    pub(super) fn watch_later(&self, place: Arc<Place>) {
        let due = place.placed_at.saturating_add(WATCH_AFTER);
        let was_empty = {
            let mut unwatched = self.unwatched.lock();
            unwatched.push_back((due, place));
            unwatched.len() == 1
        };
        if was_empty {
            self.kick.notify_one();
        }
    }
}
