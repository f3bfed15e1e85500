//! Requests to a contender of any client: to give up, or to be removed.

use std::sync::Arc;

use lockkeeper_core::{
    BoxFuture, ContenderId, Error, ErrorKind, FencingToken, Operation, QueueName, Request, Result, Revocation,
};
use lockkeeper_session::{Failure, FailureKind, refuse};

use crate::layout::Name;
use crate::proto::{self, KeyValue, PutRequest};
use crate::queue::inner::{Inner, Look};
use crate::queue::record::Record;
use crate::rpc::{created_at, delete, key_range, modified_at, operation, put};
use crate::session::Link;

/// How often a contender's record is read again because another request was written meanwhile.
const REWRITES_MAX: u32 = 16;

/// Sends a request, behind the earlier calls on the lock.
pub(super) fn begin(
    inner: &Arc<Inner>,
    queue: &QueueName,
    contender: &ContenderId,
    request: Request,
) -> BoxFuture<Result<bool>> {
    if let Err(error) = inner.check(Operation::Request, queue) {
        return refuse(error);
    }
    let name = inner.core.layout.name(contender);
    let (key, created) = inner.core.layout.contender(queue, contender);
    let asking = Asking { inner: inner.clone(), name, key, created };
    let (work, place) = (inner.clone(), queue.clone());
    inner.run(Operation::Request, queue, async move {
        let asked = match request {
            Request::Yield(_) if asking.name.is_none() => {
                let message = "it was made by another client, which hears no requests";
                return Err(Error::permanent(ErrorKind::Unsupported, Operation::Request, message).at(&place));
            }
            Request::Yield(revocation) => asking.ask_to_yield(&revocation).await,
            Request::Break { token } => asking.break_it(token).await,
            _ => {
                let message = "there is no such request on etcd";
                return Err(Error::permanent(ErrorKind::Unsupported, Operation::Request, message).at(&place));
            }
        };
        asked.map_err(|failure| work.fail(failure, Operation::Request, true, &place))
    })
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
    async fn ask_to_yield(&self, revocation: &Revocation) -> Result<bool, Failure> {
        for _ in 0..REWRITES_MAX {
            let Some(found) = self.read().await?.filter(|found| found.create_revision == self.created) else {
                return Ok(false);
            };
            let mut record = Record::read(&found.value).unwrap_or_default();
            record.ask_to_yield(revocation);
            let (key, value) = (self.key.clone(), record.to_bytes());
            let write = operation(proto::Request::Put(PutRequest { key, value, lease: 0, ignore_lease: true }));
            let conditions = vec![modified_at(self.key.clone(), found.mod_revision)];
            let deadline = self.inner.core.life.deadline();
            let link = self.inner.core.life.next_link_until(deadline).await?;
            let request = self.inner.core.meant(conditions, vec![write], Vec::new());
            if self.inner.core.ask(&link, request, Operation::Request, deadline).await?.succeeded {
                return Ok(true);
            }
        }
        Err(Failure::unexpected())
    }

    /// Removes the contender, with a mark for its owner that ends with the owner's session.
    async fn break_it(&self, token: FencingToken) -> Result<bool, Failure> {
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
        let link = core.life.next_link_until(deadline).await?;
        let request = core.meant(vec![is_it.clone()], changes, Vec::new());
        match core.ask(&link, request, Operation::Request, deadline).await {
            Ok(answer) => Ok(answer.succeeded),
            // The owner's session is over; a contender that outlives it is there all the same.
            Err(failure) if failure.kind == FailureKind::SessionGone => {
                let request = core.meant(vec![is_it], vec![delete(self.key.clone())], Vec::new());
                Ok(core.ask(&link, request, Operation::Request, deadline).await?.succeeded)
            }
            Err(failure) => Err(failure),
        }
    }

    async fn read(&self) -> Result<Option<KeyValue>, Failure> {
        let request = |_: &Link| Look::Quorum(key_range(self.key.clone()));
        let (_, answer) = self.inner.look(Operation::Request, request).await?;
        Ok(answer.kvs.into_iter().next())
    }
}
