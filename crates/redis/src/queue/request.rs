//! Requests to a contender of any client: to give up, or to be removed.

use std::sync::Arc;

use lockkeeper_core::{BoxFuture, ContenderId, Error, ErrorKind, Operation, QueueName, Request, Result};
use lockkeeper_session::{Ask, refuse};

use crate::answers::number;
use crate::layout::{Member, part_letter};
use crate::queue::inner::{Inner, arguments};
use crate::queue::plain::is_foreign;
use crate::script::Script;

/// Sends a request, behind the earlier calls.
pub(super) fn begin(
    inner: &Arc<Inner>,
    queue: &QueueName,
    contender: &ContenderId,
    request: &Request,
) -> BoxFuture<Result<bool>> {
    if let Err(error) = inner.check(Operation::Request, queue) {
        return refuse(error);
    }
    if is_foreign(contender) {
        let message = "the lock is another client's plain key, which hears no request";
        return refuse(Error::permanent(ErrorKind::Unsupported, Operation::Request, message).at(queue));
    }
    let Some(member) = Member::of(contender) else {
        return Box::pin(std::future::ready(Ok(false)));
    };
    let (what, text) = match request {
        Request::Yield(revocation) => ("yield", Ask::of(revocation).to_text()),
        Request::Break { token } if Some(*token) == member.token() => ("break", String::new()),
        Request::Break { .. } => return Box::pin(std::future::ready(Ok(false))),
        _ => {
            let message = "there is no such request on Redis";
            return refuse(Error::permanent(ErrorKind::Unsupported, Operation::Request, message).at(queue));
        }
    };
    let (part, name) = (part_letter(queue.part()), queue.encoded());
    let arguments = arguments([part, &name, contender.as_str(), what, &text]);
    let asking = inner.core.life.write(inner.run(Script::Request, arguments, Operation::Request));
    let (inner, queue) = (inner.clone(), queue.clone());
    Box::pin(async move {
        let asked = asking.await.and_then(|(_, answer)| number(&answer));
        asked.map(|count| count == 1).map_err(|failure| inner.fail(failure, Operation::Request, true, &queue))
    })
}
