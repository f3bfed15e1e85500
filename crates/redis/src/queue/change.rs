//! Waits until a queue or a value looks otherwise. The server is to tell of changes before the look that is compared is
//! made, so that no change falls between them.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use lockkeeper_core::{BoxFuture, Operation, QueueName, QueueView, Result, Value, ValueVersion};
use lockkeeper_session::{Coverage, Failure};
use redis::Value as Answer;

use crate::connection::{Flight, Told, answer};
use crate::layout::part_letter;
use crate::queue::inner::Inner;
use crate::queue::{value, view};
use crate::script::Script;
use crate::session::Link;

/// What is waited for.
enum Awaited<T> {
    /// It looks otherwise.
    Changed(T),
    /// It looks the same; these tell when it may have changed.
    Same(Vec<Told>),
}

type Look<T> = Box<dyn Fn(&Arc<Inner>, &Arc<Link>) -> BoxFuture<Result<Awaited<T>, Failure>> + Send + Sync>;

/// Waits until a queue looks otherwise than `seen`.
pub(super) fn of_queue(inner: &Arc<Inner>, queue: &QueueName, seen: &QueueView) -> BoxFuture<Result<QueueView>> {
    let (name, seen) = (queue.clone(), seen.clone());
    let is_awaited = move |view: &QueueView| {
        view.connection != seen.connection || view.contenders != seen.contenders || view.elsewhere != seen.elsewhere
    };
    let is_awaited = Arc::new(is_awaited);
    let look: Look<QueueView> = Box::new(move |inner, link| {
        let mut keys = inner.core.layout.queues(&name);
        keys.extend(inner.core.layout.plain(&name).map(str::to_owned));
        let asked_at = inner.core.life.clock.now();
        let tolds = match wait_for(link, &keys) {
            Ok(tolds) => tolds,
            Err(failure) => return Box::pin(std::future::ready(Err(failure))),
        };
        let flight = tracked(&tolds);
        let look = [part_letter(name.part()), &name.encoded(), "", "whole"];
        let flight = flight.script(inner.core.layout.script(Script::Look), &[inner.core.layout.base()], &look[..]);
        let asking = inner.core.fly(link, flight, Operation::Wait);
        let (inner, link, name, is_awaited) = (inner.clone(), link.clone(), name.clone(), is_awaited.clone());
        Box::pin(async move {
            let view = view::read(link.connection_number(), answer(last(asking.await?)?, "look")?)?;
            inner.settle(&name, &view, &Coverage::Whole, asked_at).await;
            Ok(if is_awaited(&view) { Awaited::Changed(view) } else { Awaited::Same(tolds) })
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
        let tolds = match wait_for(link, &[inner.core.layout.value(&name)]) {
            Ok(tolds) => tolds,
            Err(failure) => return Box::pin(std::future::ready(Err(failure))),
        };
        let flight = tracked(&tolds).command(value::get(&inner.core.layout.value(&name)));
        let asking = inner.core.fly(link, flight, Operation::Wait);
        Box::pin(async move {
            let value = value::read_answer(answer(last(asking.await?)?, "HMGET")?)?;
            let is_awaited = value.as_ref().map(|value| value.version) != seen;
            Ok(if is_awaited { Awaited::Changed(value) } else { Awaited::Same(tolds) })
        })
    });
    begin(inner, queue, look)
}

fn wait_for(link: &Link, keys: &[String]) -> Result<Vec<Told>, Failure> {
    keys.iter().map(|key| link.connection.wait_for(key.as_bytes())).collect()
}

/// Begins a flight after which changes of the keys are told.
fn tracked(tolds: &[Told]) -> Flight {
    tolds.iter().fold(Flight::new(), |flight, told| flight.tracked_read("EXISTS", told))
}

/// Returns what stands behind the tracked reads.
fn last(mut answers: Vec<Answer>) -> Result<Answer, Failure> {
    let last = answers.pop().ok_or_else(Failure::unexpected)?;
    answers.into_iter().try_for_each(|tracked| answer(tracked, "EXISTS").map(|_| ()))?;
    Ok(last)
}

/// Looks now, and again after each change.
fn begin<T: Send + 'static>(inner: &Arc<Inner>, queue: &QueueName, look: Look<T>) -> BoxFuture<Result<T>> {
    let first = inner.core.life.present_link().map(|link| {
        let looking = look(inner, &link);
        (link, looking)
    });
    let (inner, queue) = (inner.clone(), queue.clone());
    Box::pin(async move {
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
                    Ok(Awaited::Same(tolds)) => first_of(tolds).await,
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

/// Waits until the first of them is told.
async fn first_of(mut tolds: Vec<Told>) {
    poll_fn(|context| {
        let is_told = tolds.iter_mut().any(|told| Pin::new(told).poll(context).is_ready());
        if is_told { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}
