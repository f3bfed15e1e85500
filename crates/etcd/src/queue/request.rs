//! Requests to a contender of any client: to give up, or to be removed.

use std::sync::Arc;

use lockkeeper_core::{ContenderId, ErrorKind, FencingToken, Operation, QueueName, Request, Revocation};
use lockkeeper_session::{Failure, FailureKind, Refusal};

use crate::layout::Name;
use crate::proto::{self, PutRequest};
use crate::queue::inner::Inner;
use crate::queue::record::Record;
use crate::queue::service::Make;
use crate::rpc::{created_at, delete, key_range, modified_at, operation, put};
use crate::session::Link;

/// How often a contender's record is read again because another request was written meanwhile.
const REWRITES_MAX: u32 = 16;

/// Makes the call that sends a request.
pub(super) fn make(
    inner: &Arc<Inner>,
    queue: &QueueName,
    contender: &ContenderId,
    request: &Request,
) -> Result<Option<Make<bool>>, Refusal> {
    let refuse = |message: &str| Err((ErrorKind::Unsupported, message.to_owned()));
    let name = inner.core.layout.name(contender);
    match request {
        Request::Yield(_) if name.is_none() => {
            return refuse("it was made by another client, which hears no requests");
        }
        Request::Yield(_) | Request::Break { .. } => {}
        _ => return refuse("there is no such request on etcd"),
    }
    let (key, created) = inner.core.layout.contender(queue, contender);
    let (inner, queue, request) = (inner.clone(), queue.clone(), request.clone());
    let asking = Arc::new(Asking { inner: inner.clone(), name, key, created });
    Ok(Some(Arc::new(move |link| {
        let (asking, request, over) = (asking.clone(), request.clone(), link.clone());
        inner.run(&queue, async move {
            match &request {
                Request::Yield(revocation) => asking.ask_to_yield(&over, revocation).await,
                Request::Break { token } => asking.break_it(&over, *token).await,
                _ => Ok(false),
            }
        })
    })))
}

struct Asking {
    inner: Arc<Inner>,
    /// `None` of another client's contender.
    name: Option<Name>,
    key: Vec<u8>,
    /// The revision at which it was created.
    created: i64,
}

impl Asking {
    /// Writes the request into the contender's record; its owner watches it.
    async fn ask_to_yield(&self, link: &Link, revocation: &Revocation) -> Result<bool, Failure> {
        let core = &self.inner.core;
        let deadline = core.life.deadline();
        for _ in 0..REWRITES_MAX {
            let read = core.ask(link, key_range(self.key.clone()), Operation::Request, deadline).await?;
            let Some(found) = read.kvs.into_iter().next().filter(|found| found.create_revision == self.created) else {
                return Ok(false);
            };
            let mut record = Record::read(&found.value).unwrap_or_default();
            record.ask_to_yield(revocation);
            let (key, value) = (self.key.clone(), record.to_bytes());
            let write = operation(proto::Request::Put(PutRequest { key, value, lease: 0, ignore_lease: true }));
            let conditions = vec![modified_at(self.key.clone(), found.mod_revision)];
            let request = core.meant(conditions, vec![write], Vec::new());
            if core.ask(link, request, Operation::Request, deadline).await?.succeeded {
                return Ok(true);
            }
        }
        Err(Failure::unexpected())
    }

    /// Removes the contender, with a mark for its owner that ends with the owner's session.
    async fn break_it(&self, link: &Link, token: FencingToken) -> Result<bool, Failure> {
        let core = &self.inner.core;
        let grant = token
            .as_u64()
            .checked_sub(core.layout.first_token(core.epoch().offset))
            .and_then(|grant| i64::try_from(grant).ok());
        let Some(grant) = grant else {
            return Ok(false);
        };
        let position = Name::position_of(self.name.as_ref(), self.created);
        if (position.revision, position.turn) != (grant, token.turn()) || self.created == 0 {
            return Ok(false);
        }
        let is_it = created_at(self.key.clone(), self.created);
        let mark = |name: &Name| core.layout.broken(name.lease, name.slot, self.created);
        let marks = self.name.iter().map(|name| put(mark(name), "broken", name.lease));
        let changes = std::iter::once(delete(self.key.clone())).chain(marks).collect();
        let deadline = core.life.deadline();
        let request = core.meant(vec![is_it.clone()], changes, Vec::new());
        match core.ask(link, request, Operation::Request, deadline).await {
            Ok(answer) => Ok(answer.succeeded),
            // The owner's session is over; a contender that outlives it is there all the same.
            Err(failure) if failure.kind == FailureKind::SessionGone => {
                let request = core.meant(vec![is_it], vec![delete(self.key.clone())], Vec::new());
                Ok(core.ask(link, request, Operation::Request, deadline).await?.succeeded)
            }
            Err(failure) => Err(failure),
        }
    }
}
