//! One connection of a session, and what was read when it began.

use std::time::Duration;

use lockkeeper_session::Failure;

use crate::proto::{KeyValue, Response, ResponseHeader, ResponseOp};
use crate::rpc::{Answer, Connection, Watches};

/// Where the tokens of a service begin, and when that was written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Epoch {
    pub(crate) offset: u64,
    /// The revision at which it was written.
    pub(crate) written: i64,
}

/// A connection of a session. It is used once the session's stamp was written over it.
pub(crate) type Link = lockkeeper_session::Linked<Connection, Begun>;

/// What a connection begins with.
pub(crate) struct Begun {
    pub(crate) watches: Watches,
    /// The revision at which the session's key was written when this connection began. A join names it, so that none of
    /// an older connection takes effect any more. `None` if the service had no room for that: then nothing joins.
    pub(crate) stamp: Option<i64>,
}

/// How far tokens may run ahead of a service's revisions: so many revisions a millisecond leave room for a service that
/// begins anew.
const OFFSET_SHIFT: u32 = 20;

/// Where tokens begin in a service that is used from now on.
pub(crate) fn first_offset(unix_time: Duration) -> u64 {
    u64::try_from(unix_time.as_millis()).unwrap_or(u64::MAX).saturating_mul(1 << OFFSET_SHIFT)
}

pub(crate) fn header(answer: &impl Answer) -> Result<ResponseHeader, Failure> {
    answer.header().ok_or_else(Failure::unexpected)
}

impl Epoch {
    /// Reads the offset of tokens from the answer to a range of its key.
    pub(crate) fn of(answer: ResponseOp) -> Option<Self> {
        let Some(Response::Range(range)) = answer.response else {
            return None;
        };
        Self::read(range.kvs.first()?)
    }

    /// Reads it from its key.
    pub(crate) fn read(kv: &KeyValue) -> Option<Self> {
        let offset = str::from_utf8(&kv.value).ok()?.parse().ok()?;
        Some(Self { offset, written: kv.mod_revision })
    }
}
