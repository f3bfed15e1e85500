//! Looks at a queue or a value, and hears when it may have changed. The wait begins before the look.
//!
//! Where the server tells of changes, it is to know who watches: a session watches a queue from the first wait for a
//! change of it until the last one ends.

use std::collections::BTreeMap;
use std::sync::Arc;

use lockkeeper_core::QueueName;
use lockkeeper_session::{Failure, Mutex, Watch};

use crate::engine::WakeMethod;
use crate::queue::rows::Answer;
use crate::queue::service::{Queues, named, of_epoch};
use crate::session::{Link, Wake};
use crate::statement::Statement;

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

impl Watches {}

/// One wait's part in watching a queue.
struct Watching {
    queues: Arc<Queues>,
    queue: QueueName,
}

impl Watching {
    fn begin(queues: &Arc<Queues>, queue: &QueueName) -> Self {
        queues.service.watches.by_queue.lock().entry(queue.clone()).or_default().count += 1;
        Self { queues: queues.clone(), queue: queue.clone() }
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let service = &self.queues.service;
        // What is called under the lock has its turn before the next watch of this queue.
        let mut by_queue = service.watches.by_queue.lock();
        let Some(watched) = by_queue.get_mut(&self.queue) else { return };
        watched.count -= 1;
        if watched.count > 0 || !by_queue.remove(&self.queue).is_some_and(|watched| watched.was_asked) {
            return;
        }
        let [name, part] = named(&self.queue);
        let statement = Statement::new("unwatch", vec![service.core.id.into(), name, part]);
        // It goes on by itself. If it is lost, what is watched costs the server a message, and ends with the session.
        let unwatching = service.run(move |_| statement.clone(), |_, _| Ok(()));
        drop(service.core.life.call(unwatching));
    }
}

/// Looks at a queue by this statement. Where the server tells of changes it is to know that first, and its answer has
/// the look.
pub(super) fn begin<T: Send + 'static>(
    queues: &Arc<Queues>,
    queue: &QueueName,
    look: Statement,
    read: fn(&Link, Answer) -> Result<T, Failure>,
) -> Watch<Link, T> {
    let watching = Watching::begin(queues, queue);
    Box::new(move |link| {
        let Watching { queues, queue } = &watching;
        let core = &queues.service.core;
        let told = core.waits.change(link, queue);
        let statement = match link.connection.wake_method {
            WakeMethod::Notified => {
                if let Some(watched) = queues.service.watches.by_queue.lock().get_mut(queue) {
                    watched.was_asked = true;
                }
                of_epoch(core, link, "watch", &named(queue))
            }
            WakeMethod::NamedLocks | WakeMethod::Polled => look.clone(),
        };
        let (asking, link) = (core.ask(link, statement), link.clone());
        Box::pin(async move {
            let answer = Answer::read(asking.await?)?;
            if answer.word != "ok" {
                return Err(Failure::refused(&answer.word, &*link));
            }
            let told = async move {
                // Whichever way the wait ends, a look tells.
                let _: Wake = told.await;
            };
            Ok((read(&link, answer)?, Box::pin(told) as _))
        })
    })
}
