//! Looks at a queue or a value, and hears when it may have changed: the server is to tell of changes before it looks.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use lockkeeper_core::{BoxFuture, Operation, QueueName, QueueView, Value};
use lockkeeper_session::{Failure, Link as _, Watch};
use redis::Value as Answer;

use crate::connection::{Batch, Told, answer};
use crate::layout::part_letter;
use crate::queue::{value, view};
use crate::script::Script;
use crate::session::{Core, Link};

/// Looks at a queue whose keys are watched.
pub(super) fn of_queue(core: &Arc<Core>, queue: &QueueName) -> Watch<Link, QueueView> {
    let mut keys = core.layout.queues(queue);
    keys.extend(core.layout.plain(queue).map(str::to_owned));
    let look = [part_letter(queue.part()).to_owned(), queue.encoded(), String::new(), "whole".to_owned()];
    let of_script = core.clone();
    let looking =
        move |batch: Batch| batch.script(of_script.layout.script(Script::Look), &[of_script.layout.base()], &look[..]);
    begin(core, keys, looking, |link, shown| view::read(link.connection_number(), answer(shown, "look")?))
}

/// Reads a value whose key is watched.
pub(super) fn of_value(core: &Arc<Core>, queue: &QueueName) -> Watch<Link, Option<Value>> {
    let key = core.layout.value(queue);
    let keys = vec![key.clone()];
    let reading = move |batch: Batch| batch.command(value::get(&key));
    begin(core, keys, reading, |_, read| value::read_answer(answer(read, "HMGET")?))
}

/// Watches keys, and looks behind that, all in one batch.
fn begin<T: Send + 'static>(
    core: &Arc<Core>,
    keys: Vec<String>,
    look: impl Fn(Batch) -> Batch + Send + Sync + 'static,
    read: fn(&Link, Answer) -> Result<T, Failure>,
) -> Watch<Link, T> {
    let core = core.clone();
    Box::new(move |link| {
        let tolds: Result<Vec<_>, _> = keys.iter().map(|key| link.connection.wait_for(key.as_bytes())).collect();
        let tolds = match tolds {
            Ok(tolds) => tolds,
            Err(failure) => return Box::pin(std::future::ready(Err(failure))),
        };
        let tracked = tolds.iter().fold(Batch::new(), |batch, told| batch.tracked_read("EXISTS", told));
        let (asking, link) = (core.send(link, look(tracked), Operation::Wait), link.clone());
        Box::pin(async move {
            let mut answers = asking.await?;
            let shown = answers.pop().ok_or_else(Failure::unexpected)?;
            answers.into_iter().try_for_each(|tracked| answer(tracked, "EXISTS").map(|_| ()))?;
            Ok((read(&link, shown)?, first_of(tolds)))
        })
    })
}

/// Waits until the first of them is told.
fn first_of(mut tolds: Vec<Told>) -> BoxFuture<()> {
    Box::pin(poll_fn(move |context| {
        let is_told = tolds.iter_mut().any(|told| Pin::new(told).poll(context).is_ready());
        if is_told { Poll::Ready(()) } else { Poll::Pending }
    }))
}
