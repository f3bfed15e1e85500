//! Watches: on the contender ahead, on a queue or a value, and on our own contenders.
//!
//! A wait watches one key, so that one departure wakes one waiter. A watch is made before the look behind it, so that
//! no change falls between them. Most locks are released soon, and then a watch would cost more than the lock: so a
//! contender of ours is watched only once it has stood for a while, or its owner waits.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::{BoxFuture, Departure, Operation};
use lockkeeper_session::{Departing, Failure, Lookable as _, Watch};
use tokio::sync::watch;

use crate::layout::KeyRecord;
use crate::proto::{KeyValue, RangeRequest};
use crate::queue::state::{Etcd, EtcdPlace, QueueCore, Queues, WaitingContender};
use crate::rpc::{KeyEvent, KeyWatch, WatchRange, key_range};
use crate::session::{EtcdLink, header};

/// Begins to watch, and then looks.
pub(super) fn begin_watch<T: Send + 'static>(
    inner: &Arc<QueueCore>,
    watched: WatchRange,
    look: impl Fn(Arc<QueueCore>, Arc<EtcdLink>) -> BoxFuture<Result<T, Failure>> + Send + Sync + 'static,
) -> Watch<EtcdLink, T> {
    let inner = inner.clone();
    Box::new(move |link| {
        let mut subscription = Subscription::begin(link, watched.clone());
        let (looking, inner, link) = (look(inner.clone(), link.clone()), inner.clone(), link.clone());
        Box::pin(async move {
            let notification = subscription.created().await;
            let seen = looking.await?;
            let told: BoxFuture<()> = Box::pin(async move {
                let (life, timeout) = (&inner.core.life, inner.core.timing.timeout);
                // Where the server refuses the watch, regular looks replace it.
                if notification == Notification::Over {
                    return inner.core.until_other(&link, life.clock.now().saturating_add(WATCH_AGAIN_AFTER)).await;
                }
                // Some servers may skip a change beside a compaction, so that a look is needed anyway.
                tokio::select! {
                    biased;
                    _ = subscription.changed() => {}
                    () = life.clock.sleep_until(life.clock.now().saturating_add(timeout)) => {}
                }
            });
            Ok((seen, told))
        })
    })
}

/// After how many session timeouts a waiter looks whether it was not told of a departure. A server that skips one
/// beside a compaction is rare, and there may be thousands of waiters.
const LOOK_TIMEOUTS: u32 = 2;

/// The pause after the server has ended a watch, before the next one on the same connection.
pub(super) const WATCH_AGAIN_AFTER: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, Default)]
struct SubscriptionState {
    is_created: bool,
    changes: u64,
    revision: i64,
    is_over: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Notification {
    /// All changes from now on are told.
    Created,
    Changed,
    Over,
}

/// A watch under way. Dropping it ends it.
pub(super) struct Subscription {
    _watch: KeyWatch,
    state: watch::Receiver<SubscriptionState>,
    reported: u64,
}

impl Subscription {
    pub(super) fn begin(link: &EtcdLink, watched: WatchRange) -> Self {
        let (tell, state) = watch::channel(SubscriptionState::default());
        let subscriber = move |event: KeyEvent<'_>| {
            tell.send_modify(|state| match event {
                KeyEvent::Created => state.is_created = true,
                KeyEvent::Put(kv) | KeyEvent::Deleted(kv) => {
                    state.changes += 1;
                    state.revision = kv.mod_revision;
                }
                KeyEvent::Over => state.is_over = true,
            });
        };
        Self { _watch: link.watches.watch(watched, Box::new(subscriber)), state, reported: 0 }
    }

    pub(super) fn revision(&self) -> i64 {
        self.state.borrow().revision
    }

    pub(super) async fn created(&mut self) -> Notification {
        self.until(true).await
    }

    /// Waits until there is a change that was not reported yet.
    pub(super) async fn changed(&mut self) -> Notification {
        self.until(false).await
    }

    async fn until(&mut self, creation_counts: bool) -> Notification {
        let reported = self.reported;
        let is_new = |state: &SubscriptionState| {
            state.changes > reported || state.is_over || (creation_counts && state.is_created)
        };
        let Ok(state) = self.state.wait_for(is_new).await.map(|state| *state) else {
            return Notification::Over;
        };
        if state.changes > reported {
            self.reported = state.changes;
            return Notification::Changed;
        }
        if state.is_over { Notification::Over } else { Notification::Created }
    }
}

/// The key of the contender ahead, and the revision at which it was created.
type AheadKey = (Vec<u8>, i64);

/// Sets the watches now: first on our own contender, so that its removal is known before the other's.
pub(super) fn depart(queues: &Arc<Queues>, departing: Departing<Etcd>) -> BoxFuture<Result<Departure, Failure>> {
    let Departing { link, queue, ahead, mine } = departing;
    let inner = queues.service.inner.clone();
    let waiting = mine.map(|mine| {
        if !mine.own.is_watched() {
            watch_place(queues, &link, &mine);
        }
        WaitingContender::begin(&inner, mine.ticket)
    });
    let ahead = inner.core.layout.contender(&queue, &ahead);
    let mut subscription = Subscription::begin(&link, WatchRange::Deletion(ahead.0.clone()));
    Box::pin(async move {
        let _waiting = waiting;
        if let Some(revision) = until_gone(&inner, &link, &ahead, &mut subscription).await? {
            inner.note_told(&link, revision);
            return Ok(Departure::Gone);
        }
        drop(subscription);
        let again = inner.core.life.clock.now().saturating_add(WATCH_AGAIN_AFTER);
        inner.core.until_other(&link, again).await;
        Ok(Departure::Recheck)
    })
}

/// Waits until the contender ahead is gone, and returns a revision by which it is; `None` if nothing more is told
/// before.
async fn until_gone(
    inner: &QueueCore,
    link: &EtcdLink,
    ahead: &AheadKey,
    subscription: &mut Subscription,
) -> Result<Option<i64>, Failure> {
    match subscription.created().await {
        Notification::Changed => return Ok(Some(subscription.revision())),
        Notification::Over => return Ok(None),
        Notification::Created => {}
    }
    // Changes before the watch was made are not reported. Some servers may skip a deletion beside a compaction, so
    // that regular looks are needed too.
    while !link.connection.is_over() {
        tokio::select! {
            biased;
            notification = subscription.changed() => {
                return Ok((notification == Notification::Changed).then(|| subscription.revision()));
            }
            gone_by = look_and_pause(inner, link, ahead) => if let Some(revision) = gone_by? {
                return Ok(Some(revision));
            }
        }
    }
    Ok(None)
}

/// Looks whether the contender ahead is gone, and by which revision: its key may belong to another contender by now. If
/// it is there, waits until the next look is due.
async fn look_and_pause(inner: &QueueCore, link: &EtcdLink, (key, created): &AheadKey) -> Result<Option<i64>, Failure> {
    let life = &inner.core.life;
    let range = RangeRequest { keys_only: true, serializable: true, ..key_range(key.clone()) };
    let answer = inner.core.send(link, range, Operation::Wait, life.deadline()).await?;
    let revision = header(&answer)?.revision;
    if answer.kvs.first().is_none_or(|kv| kv.create_revision != *created) {
        return Ok(Some(revision));
    }
    life.clock.sleep_until(life.clock.now().saturating_add(LOOK_TIMEOUTS * inner.core.timing.timeout)).await;
    Ok(None)
}

pub(super) async fn run_guard(queues: Arc<Queues>) {
    let inner = queues.service.inner.clone();
    while let Some(link) = inner.core.life.next_link().await {
        for place in queues.standing() {
            watch_place(&queues, &link, &place);
        }
        loop {
            tokio::select! {
                biased;
                () = inner.core.life.until_other(&link) => break,
                () = link.watches.first_deleted() => return inner.core.life.expire(),
                place = inner.young.grown(&*inner.core.life.clock) => if !place.own.is_watched() {
                    watch_place(&queues, &link, &place);
                }
            }
        }
    }
}

pub(super) fn watch_place(queues: &Arc<Queues>, link: &Arc<EtcdLink>, place: &Arc<EtcdPlace>) {
    if !place.bond.stands() {
        return;
    }
    // The place has its watch, and the watch must not keep the place.
    let (weak_queues, weak_link, weak_place) = (Arc::downgrade(queues), Arc::downgrade(link), Arc::downgrade(place));
    let on_place = move |event: KeyEvent<'_>| {
        let (Some(queues), Some(place)) = (weak_queues.upgrade(), weak_place.upgrade()) else {
            return;
        };
        let inner = &queues.service.inner;
        match event {
            KeyEvent::Created => {
                if let Some(link) = weak_link.upgrade() {
                    inner.core.life.runtime.spawn(check_place(queues.clone(), link, place));
                }
            }
            KeyEvent::Put(kv) => note_record(&place, kv),
            KeyEvent::Deleted(_) => queues.found_gone(&place),
            // On another connection all that stand are watched anew.
            KeyEvent::Over if weak_link.upgrade().is_some_and(|link| !link.connection.is_over()) => {
                let later = inner.core.life.clock.now().saturating_add(WATCH_AGAIN_AFTER);
                inner.young.add_until(&place, later);
            }
            KeyEvent::Over => {}
        }
    };
    let watch = link.watches.watch(WatchRange::Key(place.own.key.clone()), Box::new(on_place));
    drop(place.own.swap_watch(Some(watch)));
    if place.bond.is_left() {
        drop(place.own.swap_watch(None));
    }
}

async fn check_place(queues: Arc<Queues>, link: Arc<EtcdLink>, place: Arc<EtcdPlace>) {
    let core = &queues.service.inner.core;
    let range = RangeRequest { serializable: true, ..key_range(place.own.key.clone()) };
    // After a failure the next connection begins with another look.
    let Ok(answer) = core.send(&link, range, Operation::View, core.life.deadline()).await else {
        return;
    };
    match answer.kvs.first().filter(|kv| kv.create_revision == place.own.created) {
        Some(kv) => note_record(&place, kv),
        None => queues.found_gone(&place),
    }
}

fn note_record(place: &EtcdPlace, kv: &KeyValue) {
    let record =
        Some(kv).filter(|kv| kv.create_revision == place.own.created).and_then(|kv| KeyRecord::read(&kv.value));
    if let Some(revocation) = record.and_then(|record| record.revocation()) {
        place.bond.revoke(revocation);
    }
}
