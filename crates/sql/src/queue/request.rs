//! Requests to a contender of any client: to give up, or to be removed.

use std::sync::Arc;

use lockkeeper_core::{BoxFuture, ContenderId, Error, ErrorKind, Operation, QueueName, Request, Result};
use lockkeeper_session::{Ask, refuse};

use crate::queue::inner::{Inner, named};
use crate::queue::rows::ticket_of;
use crate::statement::{Argument, Statement};

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
    let Some(ticket) = ticket_of(contender) else {
        return Box::pin(std::future::ready(Ok(false)));
    };
    let (token, ask) = match request {
        Request::Yield(revocation) => (None, Some(Ask::of(revocation).to_text())),
        Request::Break { token } if token.turn() == 0 => (Some(token.as_i64()), None),
        // Only a process knows its turns.
        Request::Break { .. } => return Box::pin(std::future::ready(Ok(false))),
        _ => {
            let message = "there is no such request on a database";
            return refuse(Error::permanent(ErrorKind::Unsupported, Operation::Request, message).at(queue));
        }
    };
    let [name, part] = named(queue);
    let arguments = vec![name, part, ticket.into(), Argument::OptionalInt(token), Argument::OptionalText(ask)];
    let asking = inner.core.life.write(inner.run(Statement::new("request", arguments), Operation::Request));
    let (inner, queue) = (inner.clone(), queue.clone());
    Box::pin(async move {
        let asked = asking.await.and_then(|(_, answer)| answer.number());
        asked.map(|count| count == 1).map_err(|failure| inner.fail(failure, Operation::Request, true, &queue))
    })
}
