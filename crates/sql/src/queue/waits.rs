//! Waits for the contender ahead, and for a change of a queue or a value.
//!
//! The contender ahead is gone for good once the server told so over the connection on which it was seen, or answered
//! there that it is not stored: what is removed never comes back. All else is a reason to look again. A wait for a
//! change begins before its look. Where the server tells of changes, it is to know who watches: a session watches a
//! queue from the first wait for a change of it until the last one ends.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lockkeeper_core::{BoxFuture, Departure, Extent, QueueName, Ticket};
use lockkeeper_session::{Effect, Failure, Link as _, Place, Watch};
use parking_lot::Mutex;

use crate::answer::SqlAnswer;
use crate::engine::WakeMethod;
use crate::look::SqlLink;
use crate::session::{Core, WaitEnd, WaitHandle};
use crate::statement::{Statement, looking, named};

/// What is kept of a contender of ours.
#[derive(Debug, Default)]
pub(crate) struct AheadCount {
    /// How many stood ahead of it when it was seen last.
    ahead: AtomicUsize,
}

impl AheadCount {
    /// Notes how many stand ahead of it, if a look has shown it.
    pub(super) fn note(&self, ahead: Option<usize>) {
        if let Some(ahead) = ahead {
            self.ahead.store(ahead, Ordering::Relaxed);
        }
    }

    /// How many stood ahead of it when it was seen last.
    pub(super) fn ahead(&self) -> usize {
        self.ahead.load(Ordering::Relaxed)
    }
}

impl lockkeeper_session::Own for AheadCount {}

/// Begins to wait for a departure, now.
pub(super) fn depart(
    core: Arc<Core>,
    link: Arc<SqlLink>,
    ahead: Ticket,
    mine: Option<Arc<Place<AheadCount>>>,
) -> BoxFuture<Result<Departure, Failure>> {
    let mut told = wait(&core, &link, ahead, mine.as_deref());
    Box::pin(async move {
        loop {
            match told.await {
                WaitEnd::Departed => return Ok(Departure::Gone),
                WaitEnd::ConnectionOver => return Err(Failure::broken(Effect::None)),
                WaitEnd::Look | WaitEnd::Stays => {}
            }
            if let Some(mine) = &mine
                && let Err(failure) = find_place(&core, &link, mine).await
            {
                core.life.pause_after(&link, &failure).await;
            }
            told = wait(&core, &link, ahead, mine.as_deref());
        }
    })
}

fn wait(core: &Core, link: &Arc<SqlLink>, ahead: Ticket, mine: Option<&Place<AheadCount>>) -> WaitHandle {
    // An onlooker looks as the next in line does.
    let nearness = mine.map_or(0, |mine| mine.own.ahead().saturating_sub(1));
    let line = mine.map(|mine| (mine.queue.clone(), mine.token));
    core.waits.departure(link, ahead, nearness, line)
}

/// Finds out how near our own contender is to its turn.
async fn find_place(core: &Core, link: &Arc<SqlLink>, mine: &Place<AheadCount>) -> Result<(), Failure> {
    let rows = core.ask(link, looking(&mine.queue, Extent::Around(Some(&mine.id)))).await?;
    mine.own.note(SqlAnswer::read_ok(rows)?.view(link.connection_number())?.ahead_of(&mine.id));
    Ok(())
}

/// The queues of whose changes a session waits to be told.
pub(super) struct QueueWatches {
    core: Arc<Core>,
    by_queue: Mutex<BTreeMap<QueueName, RowsWatch>>,
}

#[derive(Debug, Default)]
struct RowsWatch {
    /// How many waits there are.
    count: usize,
    /// Whether the server was asked to tell.
    was_asked: bool,
}

/// One wait's part in watching a queue.
struct WatchPart {
    watches: Arc<QueueWatches>,
    queue: QueueName,
}

impl QueueWatches {
    pub(super) fn new(core: Arc<Core>) -> Arc<Self> {
        Arc::new(Self { core, by_queue: Mutex::default() })
    }

    /// Looks at a queue by this statement. Where the server tells of changes it is to know that first, and its answer
    /// has the look.
    pub(super) fn begin<T: Send + 'static>(
        self: &Arc<Self>,
        queue: &QueueName,
        look: Statement,
        read: fn(&SqlLink, SqlAnswer) -> Result<T, Failure>,
    ) -> Watch<SqlLink, T> {
        self.by_queue.lock().entry(queue.clone()).or_default().count += 1;
        let part = WatchPart { watches: self.clone(), queue: queue.clone() };
        Box::new(move |link| {
            let WatchPart { watches, queue } = &part;
            let core = &watches.core;
            let told = core.waits.change(link, queue);
            let statement = match link.connection.wake_method {
                WakeMethod::Notified => {
                    if let Some(watched) = watches.by_queue.lock().get_mut(queue) {
                        watched.was_asked = true;
                    }
                    core.of_epoch(link, "watch", &named(queue))
                }
                WakeMethod::NamedLocks | WakeMethod::Polled => look.clone(),
            };
            let (asking, link) = (core.ask(link, statement), link.clone());
            Box::pin(async move {
                let answer = SqlAnswer::read(asking.await?)?;
                if answer.word != "ok" {
                    return Err(Failure::refused(&answer.word, &*link));
                }
                let told = async move {
                    // Whichever way the wait ends, a look tells.
                    let _: WaitEnd = told.await;
                };
                Ok((read(&link, answer)?, Box::pin(told) as _))
            })
        })
    }
}

impl Drop for WatchPart {
    fn drop(&mut self) {
        let core = self.watches.core.clone();
        // What is called under the lock has its turn before the next watch of this queue.
        let mut by_queue = self.watches.by_queue.lock();
        let Some(watched) = by_queue.get_mut(&self.queue) else { return };
        watched.count -= 1;
        if watched.count > 0 || !by_queue.remove(&self.queue).is_some_and(|watched| watched.was_asked) {
            return;
        }
        let [name, part] = named(&self.queue);
        let statement = Statement::new("unwatch", vec![core.id.into(), name, part]);
        let asking = core.clone();
        // It goes on by itself. If it is lost, what is watched costs the server a message, and ends with the session.
        drop(core.life.call::<()>(Arc::new(move |link: &Arc<SqlLink>| {
            let asked = asking.ask(link, statement.clone());
            Box::pin(async move { asked.await.map(drop) })
        })));
    }
}
