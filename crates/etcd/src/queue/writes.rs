//! Writes that may be taken in late: requests to a contender of any client, and the values of queues. Each names the
//! revision that it is meant for.

use std::sync::Arc;

use lockkeeper_core::{Expected, FencingToken, Operation, QueueName, Revocation, Value, ValueVersion};
use lockkeeper_session::{Effect, Failure, FailureKind, Lookable as _};

use crate::layout::{KeyRecord, Name};
use crate::proto::{self, KeyValue, PutRequest, RangeRequest};
use crate::queue::state::QueueCore;
use crate::queue::view::ReadSource;
use crate::rpc::{absent, created_at, delete, key_range, modified_at, no_room, operation, put, range_of};
use crate::session::{EtcdLink, header};

/// How often a contender's record is read again because another request was written meanwhile.
const REWRITES_MAX: u32 = 16;

/// The contender that a request is meant for.
pub(super) struct RequestTarget {
    pub(super) inner: Arc<QueueCore>,
    /// `None` of another client's contender.
    pub(super) name: Option<Name>,
    pub(super) key: Vec<u8>,
    pub(super) created: i64,
}

impl RequestTarget {
    /// Writes the request into the contender's record; its owner watches it.
    pub(super) async fn ask_to_yield(&self, link: &EtcdLink, revocation: &Revocation) -> Result<bool, Failure> {
        let core = &self.inner.core;
        let deadline = core.life.deadline();
        for _ in 0..REWRITES_MAX {
            let read = core.ask(link, key_range(self.key.clone()), Operation::Request, deadline).await?;
            let Some(found) = read.kvs.into_iter().next().filter(|found| found.create_revision == self.created) else {
                return Ok(false);
            };
            let mut record = KeyRecord::read(&found.value).unwrap_or_default();
            record.ask_to_yield(revocation);
            let (key, value) = (self.key.clone(), record.to_bytes());
            let write = operation(proto::OpRequest::Put(PutRequest { key, value, lease: 0, ignore_lease: true }));
            let conditions = vec![modified_at(self.key.clone(), found.mod_revision)];
            let request = core.meant(conditions, vec![write], Vec::new());
            if core.ask(link, request, Operation::Request, deadline).await?.succeeded {
                return Ok(true);
            }
        }
        Err(Failure::unexpected())
    }

    /// Removes the contender, with a mark for its owner that ends with the owner's session.
    pub(super) async fn break_it(&self, link: &EtcdLink, token: FencingToken) -> Result<bool, Failure> {
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

/// The state of a value is where tokens begin and the revision at which it was written: a service that begins anew uses
/// its revisions again.
fn version(offset: u64, revision: i64) -> ValueVersion {
    ValueVersion(u128::from(offset) + u128::from(revision.cast_unsigned()))
}

/// Returns the revision of a state, if it is one of this service.
fn revision(offset: u64, version: ValueVersion) -> Option<i64> {
    i64::try_from(version.0.checked_sub(u128::from(offset))?).ok()
}

/// Reads the value of a queue: as the service has it, or as the member behind this connection does.
pub(super) async fn value(
    inner: &QueueCore,
    link: &EtcdLink,
    queue: &QueueName,
    by: ReadSource,
) -> Result<Option<Value>, Failure> {
    let (core, deadline) = (&inner.core, inner.core.life.deadline());
    let range = key_range(core.layout.value(queue));
    let answer = match by {
        ReadSource::Quorum => core.ask(link, range, Operation::Value, deadline).await?,
        ReadSource::Member => {
            let range = RangeRequest { serializable: true, ..range };
            core.send(link, range, Operation::Wait, deadline).await?
        }
    };
    let offset = core.epoch().offset;
    let value = |kv: KeyValue| Value { version: version(offset, kv.mod_revision), bytes: kv.value.into() };
    Ok(answer.kvs.into_iter().next().map(value))
}

/// Writes under the stamp of the connection, as a join does: a write that was not answered never takes effect behind
/// one that comes after it over the next connection. Without a stamp only a write on a state that was read does so: no
/// state comes twice, but a value can be absent again.
pub(super) async fn write(
    inner: &QueueCore,
    link: &EtcdLink,
    queue: &QueueName,
    expected: Expected,
    value: Option<Arc<[u8]>>,
) -> Result<Option<ValueVersion>, Failure> {
    let core = &inner.core;
    let (key, offset) = (core.layout.value(queue), core.epoch().offset);
    let is_on_state = matches!(expected, Expected::Version(_));
    let mut conditions = match expected {
        Expected::Any => Vec::new(),
        Expected::Absent => vec![absent(key.clone())],
        Expected::Version(version) => match revision(offset, version) {
            Some(revision) => vec![modified_at(key.clone(), revision)],
            None => return Ok(None),
        },
    };
    let change = match value {
        Some(value) => put(key, &*value, 0),
        None => delete(key),
    };
    let deadline = core.life.deadline();
    if link.stamp.is_none() && !is_on_state {
        // The next connection may find room for one.
        link.connection.shut();
        return Err(no_room());
    }
    let session = core.layout.session(core.lease);
    conditions.extend(link.stamp.map(|stamp| modified_at(session.clone(), stamp)));
    let request = core.meant(conditions, vec![change], vec![key_range(session).into()]);
    let answer = core.ask(link, request, Operation::Value, deadline).await?;
    if answer.succeeded {
        return Ok(Some(version(offset, header(&answer)?.revision)));
    }
    let session = range_of(answer.responses.first().ok_or_else(Failure::unexpected)?)?;
    match session.kvs.first().map(|kv| kv.mod_revision) {
        None => Err(Failure::session_gone()),
        Some(stamp) if link.stamp.is_some_and(|written| written != stamp) => {
            // Another connection of the session has taken over.
            link.connection.shut();
            Err(Failure::broken(Effect::None))
        }
        Some(_) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_of_a_service_that_began_anew_is_another_one() {
        assert_eq!(revision(1_000, version(1_000, 7)), Some(7));
        assert_ne!(version(1_000, 7), version(2_000, 7));
        assert_eq!(revision(2_000, version(1_000, 7)), None);
    }
}
