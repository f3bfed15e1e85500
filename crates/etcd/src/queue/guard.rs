//! Watches our own contenders and the session's key, and finds out why a contender is gone.
//!
//! Most locks are released soon, and then a watch would cost more than the lock. So a contender is watched only once it
//! has stood for a while, or its owner waits.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{LossReason, Operation};
use lockkeeper_session::Failure;

use crate::proto::{KeyValue, Response, ResponseOp};
use crate::queue::inner::Inner;
use crate::queue::place::Place;
use crate::queue::record::Record;
use crate::queue::subscription::WATCH_AGAIN_AFTER;
use crate::rpc::{WatchEvent, Watched, delete, key_range, txn};
use crate::session::Link;

/// How long a contender stands before it is watched, unless its owner waits.
const WATCH_AFTER: Duration = Duration::from_millis(100);

/// Watches for one session, until it is over.
pub(super) async fn run(inner: Arc<Inner>) {
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
        let standing = inner.entries().standing();
        for place in standing {
            watch(&inner, &link, &place);
        }
        loop {
            let due = watch_those_due(&inner, &link);
            let is_other =
                |present: &Option<Arc<Link>>| present.as_ref().is_none_or(|present| present.number != link.number);
            tokio::select! {
                biased;
                // The sender lives in the session that we hold.
                _ = links.wait_for(is_other) => break,
                () = inner.kick.notified() => {}
                () = sleep(&inner, due) => {}
            }
        }
    }
}

async fn sleep(inner: &Inner, until: Option<BootInstant>) {
    match until {
        Some(until) => inner.core.life.clock.sleep_until(until).await,
        None => std::future::pending().await,
    }
}

/// Watches the places that have stood long enough; returns when the next one has.
fn watch_those_due(inner: &Arc<Inner>, link: &Arc<Link>) -> Option<BootInstant> {
    let now = inner.core.life.clock.now();
    loop {
        let place = {
            let mut unwatched = inner.unwatched();
            let (due, place) = unwatched.front()?;
            if *due > now && place.bond.stands() {
                return Some(*due);
            }
            unwatched.pop_front()?.1
        };
        if !place.is_watched() {
            watch(inner, link, &place);
        }
    }
}

/// Watches one place.
fn watch(inner: &Arc<Inner>, link: &Arc<Link>, place: &Arc<Place>) {
    if !place.bond.stands() {
        return;
    }
    // The place has its watch, and the watch must not keep the place.
    let (weak_inner, weak_link, weak_place) = (Arc::downgrade(inner), Arc::downgrade(link), Arc::downgrade(place));
    let on_place = move |event: WatchEvent<'_>| {
        let (Some(inner), Some(place)) = (weak_inner.upgrade(), weak_place.upgrade()) else {
            return;
        };
        match event {
            WatchEvent::Created => {
                if let Some(link) = weak_link.upgrade() {
                    inner.core.life.runtime.clone().spawn(check(inner, link, place));
                }
            }
            WatchEvent::Put(kv) => note(&place, kv),
            WatchEvent::Deleted(_) => inner.found_gone(&place),
            // On another connection all that stand are watched anew.
            WatchEvent::Over if weak_link.upgrade().is_some_and(|link| !link.connection.is_over()) => {
                let later = inner.core.life.clock.now().saturating_add(WATCH_AGAIN_AFTER);
                inner.unwatched().push_back((later, place));
                inner.kick.notify_one();
            }
            WatchEvent::Over => {}
        }
    };
    let watch = link.watches.watch(Watched::Key(place.key.clone()), Box::new(on_place));
    drop(place.swap_watch(Some(watch)));
    if place.bond.is_left() {
        drop(place.swap_watch(None));
    }
}

/// Looks at a place that is watched from now on.
async fn check(inner: Arc<Inner>, link: Arc<Link>, place: Arc<Place>) {
    let range = crate::proto::RangeRequest { serializable: true, ..key_range(place.key.clone()) };
    // After a failure the next connection begins with another look.
    let Ok(answer) = inner.core.send(&link, range, Operation::View, inner.core.life.deadline()).await else {
        return;
    };
    match answer.kvs.first().filter(|kv| kv.create_revision == place.created) {
        Some(kv) => note(&place, kv),
        None => inner.found_gone(&place),
    }
}

/// Notes what is stored of a place now.
fn note(place: &Place, kv: &KeyValue) {
    let record = Some(kv).filter(|kv| kv.create_revision == place.created).and_then(|kv| Record::read(&kv.value));
    if let Some(revocation) = record.and_then(|record| record.revocation()) {
        place.bond.revoke(revocation);
    }
}

impl Inner {
    /// Has a new place watched once it has stood for a while.
    pub(super) fn watch_later(&self, place: Arc<Place>) {
        let due = place.placed_at.saturating_add(WATCH_AFTER);
        let was_empty = {
            let mut unwatched = self.unwatched();
            unwatched.push_back((due, place));
            unwatched.len() == 1
        };
        if was_empty {
            self.kick.notify_one();
        }
    }

    /// Has a place watched now.
    pub(super) fn watch_now(self: &Arc<Self>, place: &Arc<Place>) {
        if let Some(link) = self.core.life.present_link().filter(|_| !place.is_watched()) {
            watch(self, &link, place);
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
    let reason = find_out(&inner, &place).await;
    if reason == LossReason::Expired {
        inner.core.life.expire();
    }
    place.bond.explain(reason);
    #[cfg(feature = "testing")]
    if inner.core.life.check(Operation::Wait).is_ok() {
        inner.core.testing.note_removal();
    }
}

/// Finds out why a contender of ours is gone, or that its session is over.
async fn find_out(inner: &Inner, place: &Place) -> LossReason {
    let core = &inner.core;
    while let Some(link) = core.life.next_link().await {
        match why_gone(inner, &link, place).await {
            Ok(reason) => return reason,
            Err(failure) if failure.is_passing() => core.after(&failure, &link, core.life.deadline()).await,
            Err(failure) => {
                tracing::debug!(target: "lockkeeper", %failure, "the service does not say why a contender is gone");
                // If the session stands after that, at least the contender did not go with it.
                return core.life.until_proven_anew().await.err().unwrap_or(LossReason::Removed);
            }
        }
    }
    core.life.bond().lost().await
}

/// Asks why a contender of ours is gone: it was broken, it went with its session, or it was removed.
async fn why_gone(inner: &Inner, link: &Link, place: &Place) -> Result<LossReason, Failure> {
    let (core, layout) = (&inner.core, &inner.core.layout);
    let mark = layout.broken(place.name.lease, place.name.slot, place.created);
    let questions = vec![delete(mark), key_range(layout.session(core.lease)).into()];
    let request = txn(Vec::new(), questions, Vec::new());
    let answer = core.ask(link, request, Operation::View, core.life.deadline()).await?;
    match &*answer.responses {
        [mark, session] => reason(mark, session).ok_or_else(Failure::unexpected),
        _ => Err(Failure::unexpected()),
    }
}

/// Reads why a contender is gone from the answers to a deletion of the mark that it was broken, and to a look at the
/// session.
pub(super) fn reason(mark: &ResponseOp, session: &ResponseOp) -> Option<LossReason> {
    match (&mark.response, &session.response) {
        (Some(Response::DeleteRange(mark)), Some(Response::Range(session))) => {
            Some(match (mark.deleted, session.kvs.is_empty()) {
                (1.., _) => LossReason::Broken,
                (_, true) => LossReason::Expired,
                (_, false) => LossReason::Removed,
            })
        }
        _ => None,
    }
}
