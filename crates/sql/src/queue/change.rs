//! Waits until a queue or a value looks otherwise. The wait begins before the look that is compared is made, so that no
//! change falls between them.
//!
//! Where the server tells of changes, it is to know who watches: a session watches a queue from the first wait for a
//! change of it until the last one ends.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lockkeeper_core::{BoxFuture, Operation, QueueName, QueueView, Result, Value, ValueVersion};
use lockkeeper_session::{Coverage, Failure};

use crate::engine::Waking;
use crate::queue::inner::{Inner, named, stale};
use crate::queue::rows::Answer;
use crate::session::{Link, Told};
use crate::statement::{Argument, Statement};

/// The queues of whose changes the session waits to be told.
#[derive(Debug, Default)]
pub(super) struct Watches {
    by_queue: Mutex<BTreeMap<QueueName, Watched>>,
}

#[derive(Debug, Default)]
struct Watched {
    /// How many waits there are.
    count: usize,
    /// Whether the server was asked to tell.
    was_asked: bool,
}

impl Watches {
    /// Nothing panics while it is locked.
    fn by_queue(&self) -> MutexGuard<'_, BTreeMap<QueueName, Watched>> {
        self.by_queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One wait's part in watching a queue.
struct Watching {
    inner: Arc<Inner>,
    queue: QueueName,
}

impl Watching {
    fn begin(inner: &Arc<Inner>, queue: &QueueName) -> Self {
        inner.watches.by_queue().entry(queue.clone()).or_default().count += 1;
        Self { inner: inner.clone(), queue: queue.clone() }
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        // What is called under the lock has its turn before the next watch of this queue.
        let mut by_queue = self.inner.watches.by_queue();
        let Some(watched) = by_queue.get_mut(&self.queue) else { return };
        watched.count -= 1;
        if watched.count > 0 || !by_queue.remove(&self.queue).is_some_and(|watched| watched.was_asked) {
            return;
        }
        let [name, part] = named(&self.queue);
        let statement = Statement::new("unwatch", vec![self.inner.core.id.into(), name, part]);
        // It goes on by itself. If it is lost, what is watched costs the server a message, and ends with the session.
        drop(self.inner.core.life.call(self.inner.run(statement, Operation::Wait)));
    }
}

/// What is waited for.
enum Awaited<T> {
    /// It looks otherwise.
    Changed(T),
    /// It looks the same; this tells when it may have changed.
    Same(Told),
}

type Look<T> = Box<dyn Fn(&Arc<Inner>, &Arc<Link>) -> BoxFuture<Result<Awaited<T>, Failure>> + Send + Sync>;

/// Waits until a queue looks otherwise than `seen`.
pub(super) fn of_queue(inner: &Arc<Inner>, queue: &QueueName, seen: &QueueView) -> BoxFuture<Result<QueueView>> {
    let (name, seen) = (queue.clone(), Arc::new(seen.clone()));
    let look: Look<QueueView> = Box::new(move |inner, link| {
        let asked_at = inner.core.life.clock.now();
        let [text, part] = named(&name);
        let whole = vec![text, part, Argument::OptionalId(None), Argument::Flag(true)];
        let (told, asking) = ask(inner, link, &name, Statement::new("look", whole));
        let (inner, link, name, seen) = (inner.clone(), link.clone(), name.clone(), seen.clone());
        Box::pin(async move {
            let view = asking.await?.view(link.connection_number())?;
            inner.settle(&name, &view, &Coverage::Whole, asked_at).await;
            let is_same = view.connection == seen.connection
                && view.contenders == seen.contenders
                && view.elsewhere == seen.elsewhere;
            Ok(if is_same { Awaited::Same(told) } else { Awaited::Changed(view) })
        })
    });
    begin(inner, queue, look)
}

/// Waits until a value is in another state than `seen`.
pub(super) fn of_value(
    inner: &Arc<Inner>,
    queue: &QueueName,
    seen: Option<ValueVersion>,
) -> BoxFuture<Result<Option<Value>>> {
    let name = queue.clone();
    let look: Look<Option<Value>> = Box::new(move |inner, link| {
        let (told, asking) = ask(inner, link, &name, Statement::new("value", named(&name).into()));
        Box::pin(async move {
            let value = asking.await?.value()?;
            let is_same = value.as_ref().map(|value| value.version) == seen;
            Ok(if is_same { Awaited::Same(told) } else { Awaited::Changed(value) })
        })
    });
    begin(inner, queue, look)
}

/// Begins to wait for a change over a connection, and looks: where the server tells of changes it is to know that
/// first, and its answer has the look.
fn ask(
    inner: &Arc<Inner>,
    link: &Arc<Link>,
    queue: &QueueName,
    look: Statement,
) -> (Told, BoxFuture<Result<Answer, Failure>>) {
    let told = inner.core.waits.change(link, queue);
    let [name, part] = named(queue);
    let statement = match link.waking {
        Waking::Told => {
            if let Some(watched) = inner.watches.by_queue().get_mut(queue) {
                watched.was_asked = true;
            }
            let epoch = Argument::Int(inner.core.epoch(link.number));
            Statement::new("watch", vec![inner.core.id.into(), epoch, name, part])
        }
        Waking::Doors | Waking::Looks => look,
    };
    let (asking, link) = (inner.core.ask(link, statement, Operation::Wait), link.clone());
    let asking = async move {
        let answer = Answer::read(asking.await?)?;
        match answer.word.as_str() {
            "ok" => Ok(answer),
            "gone" => Err(Failure::session_gone()),
            "stale" => Err(stale(&link)),
            _ => Err(Failure::unexpected()),
        }
    };
    (told, Box::pin(asking))
}

/// Looks now, and again after each change.
fn begin<T: Send + 'static>(inner: &Arc<Inner>, queue: &QueueName, look: Look<T>) -> BoxFuture<Result<T>> {
    let watching = Watching::begin(inner, queue);
    let first = inner.core.life.present_link().map(|link| {
        let looking = look(inner, &link);
        (link, looking)
    });
    let (inner, queue) = (inner.clone(), queue.clone());
    Box::pin(async move {
        let _watching = watching;
        let changed = async {
            let mut present = first;
            loop {
                let (link, looking) = match present.take() {
                    Some(present) => present,
                    None => {
                        let link = inner.core.life.next_link().await.ok_or_else(Failure::session_gone)?;
                        let looking = look(&inner, &link);
                        (link, looking)
                    }
                };
                match looking.await {
                    Ok(Awaited::Changed(changed)) => return Ok(changed),
                    // Whichever way it ends, a look tells.
                    Ok(Awaited::Same(told)) => drop(told.await),
                    Err(failure) if failure.is_passing() => inner.core.life.pause_after(&link, &failure).await,
                    Err(failure) => return Err(failure),
                }
            }
        };
        tokio::select! {
            biased;
            _ = inner.core.life.bond().lost() => Err(inner.over(Operation::Wait, &queue)),
            changed = changed => {
                changed.map_err(|failure| inner.fail(failure, Operation::Wait, false, &queue))
            }
        }
    })
}
