//! Watches our own contenders.
//!
//! Most locks are released soon, and then a watch would cost more than the lock. So a task reads a contender's record
//! once that has stood for a while, again after each change, and over each new connection.

use std::sync::Arc;

use lockkeeper_core::{Operation, QueueView};
use lockkeeper_session::Failure;
use redis::Value;

use crate::connection::{Batch, KeyWake, answer, only};
use crate::queue::state::{Queues, RedisPlace, watch_plain_by};
use crate::queue::view::StoredRecord;
use crate::session::Core;

/// Takes in which contenders renewals found to be gone, and has those watched that have stood for a while, until the
/// session is over.
pub(super) async fn run_guard(queues: Arc<Queues>) {
    let core = &queues.service.core;
    let mut told = core.contenders.told();
    loop {
        tokio::select! {
            biased;
            _ = core.life.ended() => return,
            place = queues.service.young.grown(&*core.life.clock) => watch_place(&queues, &place),
            news = told.recv() => match news {
                Some(news) => queues.hear(news),
                None => return,
            },
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
pub(super) async fn watch_key(
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
    if view.contenders.first().is_some_and(|first| first.id == place.id) {
        watch_plain_by(place, || {
            core.life.runtime.spawn(watch_key(queues.clone(), place.clone(), key.to_owned(), is_ours)).abort_handle()
        });
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
