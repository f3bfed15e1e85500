//! Our own contenders: what is kept of them, and the watches on them.
//!
//! A task reads a contender's record once that has stood for a while, again after each change, and over each new
//! connection.

use std::pin::pin;
use std::sync::Arc;

use lockkeeper_core::{Operation, QueueView};
use lockkeeper_session::{Failure, Young};
use parking_lot::Mutex;
use redis::Value;
use tokio::task::AbortHandle;

use crate::connection::{Batch, KeyWake, answer, only};
use crate::queue::view::StoredRecord;
use crate::session::Core;

pub(crate) struct Redis {
    pub(super) core: Arc<Core>,
    /// The places that are not watched yet.
    pub(super) young: Young<RedisOwn>,
}

pub(super) type Queues = lockkeeper_session::Queues<Redis>;

pub(super) type RedisPlace = lockkeeper_session::Place<RedisOwn>;

#[derive(Debug, Default)]
pub(crate) struct RedisOwn {
    watcher: Mutex<Option<AbortHandle>>,
    /// The task that watches the plain lock that it took, if it took one.
    plain_watcher: Mutex<Option<AbortHandle>>,
}

impl RedisOwn {
    /// Has this task watch it in place of another one.
    fn watch_by(&self, watcher: Option<AbortHandle>) {
        let before = std::mem::replace(&mut *self.watcher.lock(), watcher);
        if let Some(before) = before {
            before.abort();
        }
    }
}

impl lockkeeper_session::Own for RedisOwn {
    fn withdrawn(&self) {
        self.watch_by(None);
        if let Some(watcher) = self.plain_watcher.lock().take() {
            watcher.abort();
        }
    }
}

/// Takes in which contenders renewals found to be gone, and has those watched that have stood for a while, until the
/// session is over.
pub(super) async fn run_guard(queues: Arc<Queues>) {
    let core = &queues.service.core;
    let mut hearing = pin!(queues.hear_of(&core.contenders));
    loop {
        tokio::select! {
            biased;
            () = &mut hearing => return,
            place = queues.service.young.grown(&*core.life.clock) => watch_place(&queues, &place),
        }
    }
}

/// Has a place watched. The task holds the place, and ends with its withdrawal.
fn watch_place(queues: &Arc<Queues>, place: &Arc<RedisPlace>) {
    let core = &queues.service.core;
    let key = core.layout.contender(place.ticket);
    let watching = core.life.runtime.spawn(watch_key(queues.clone(), place.clone(), key, note_record));
    place.own.watch_by(Some(watching.abort_handle()));
    if place.bond.is_left() {
        place.own.watch_by(None);
    }
}

/// Watches the key of one place until that is gone, or is the place's no more.
async fn watch_key(
    queues: Arc<Queues>,
    place: Arc<RedisPlace>,
    key: String,
    is_there: fn(&Core, &RedisPlace, Value) -> Result<bool, Failure>,
) {
    let core = &queues.service.core;
    while place.bond.stands() {
        let Some(link) = core.life.next_link().await else { return };
        let reading = async {
            let told = link.connection.wait_for(key.as_bytes())?;
            let answers = core.send(&link, Batch::new().tracked("GET", told.key()), Operation::Wait).await?;
            Ok::<_, Failure>(is_there(core, &place, only(answers)?)?.then_some(told))
        };
        match reading.await {
            Ok(Some(told)) => {
                // After the end of a connection all is read over the next one.
                let _: KeyWake = told.await;
            }
            Ok(None) => queues.found_gone(&place),
            Err(failure) => core.life.pause_after(&link, &failure).await,
        }
    }
}

/// Notes what is stored of a place now; returns whether it is there.
fn note_record(_core: &Core, place: &RedisPlace, record: Value) -> Result<bool, Failure> {
    let bytes = match answer(record, "GET")? {
        Value::Nil => return Ok(false),
        Value::BulkString(bytes) => bytes,
        _ => return Err(Failure::unexpected()),
    };
    if let Some(revocation) = StoredRecord::read(&bytes).and_then(|stored| stored.revocation()) {
        place.bond.revoke(revocation);
    }
    Ok(true)
}

/// Has a contender's plain lock watched from the view on that was made for it and shows it first: that view took it.
pub(super) fn note_turn(queues: &Arc<Queues>, place: &Arc<RedisPlace>, view: &QueueView) {
    let core = &queues.service.core;
    let Some(key) = core.layout.plain(&place.queue) else { return };
    if view.contenders.first().is_none_or(|first| first.id != place.id) {
        return;
    }
    let mut watcher = place.own.plain_watcher.lock();
    if place.bond.stands() && watcher.is_none() {
        let watching = watch_key(queues.clone(), place.clone(), key.to_owned(), is_ours);
        *watcher = Some(core.life.runtime.spawn(watching).abort_handle());
    }
}

/// Whether a plain lock is still that of this contender.
fn is_ours(core: &Core, place: &RedisPlace, value: Value) -> Result<bool, Failure> {
    if matches!(&value, Value::ServerError(error) if error.code() == "WRONGTYPE") {
        return Ok(false);
    }
    let ours = core.layout.contender(place.ticket);
    Ok(answer(value, "GET")? == Value::BulkString(ours.into_bytes()))
}
