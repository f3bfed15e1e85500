//! Tries what locks need of the service, without changing anything that stays.

use std::time::Duration;

use lockkeeper_core::clock::{BootInstant, Clock};
use lockkeeper_core::{Finding, Severity};
use lockkeeper_session::{Failure, FailureKind};

use super::judge::{Offset, judge_least, judge_offset, judge_round_trip};
use crate::proto::{LeaseGrantRequest, LeaseRevokeRequest, RangeRequest, Response, ResponseOp};
use crate::rpc::{Connection, created_at, delete, key_range, prefix_range, put, txn};
use crate::session::{Epoch, first_offset};
use crate::url::Config;

/// For how many operations a server takes our largest request, that for a thousand permits: 32 groups of 32, and two
/// looks. It adds those of a group to what stands beside it.
const OPERATIONS: usize = 66;

/// How many round trips are measured.
const ROUND_TRIPS: usize = 20;

/// No key was ever created at this revision.
const NEVER: i64 = -1;

/// Makes a transaction that does nothing, since its condition never holds; the server checks its length and the rights
/// to all of it all the same.
pub(super) async fn try_rights(
    connection: &Connection,
    config: &Config,
    deadline: BootInstant,
) -> Result<Option<Finding>, Failure> {
    let base = format!("{}/", config.base);
    let key = format!("{base}examined");
    let mut operations =
        vec![put(key.clone(), "", 0), delete(format!("{base}examined too")), prefix_range(base.clone()).into()];
    operations.resize_with(OPERATIONS, || key_range(key.clone()).into());
    match connection.call(txn(vec![created_at(key.clone(), NEVER)], operations, Vec::new()), deadline).await {
        Ok(_) => Ok(None),
        Err(failure) if failure.kind == FailureKind::Refused => {
            let what = format!("this user cannot lock: {failure} (keys that begin with `{base}`)");
            let cure =
                format!("grant it a role that may: etcdctl role grant-permission ROLE --prefix readwrite {base}");
            Ok(Some(Finding::new(Severity::Error, what, cure)))
        }
        // That is told of the member.
        Err(failure) if failure.kind == FailureKind::Full => Ok(None),
        Err(failure) if failure.to_string().contains(TOO_MANY) => {
            let what = format!("the members refuse a request of {OPERATIONS} operations, as a thousand permits take");
            let cure = "start the members with --max-txn-ops=128, which is the default";
            Ok(Some(Finding::new(Severity::Error, what, cure)))
        }
        Err(failure) => Err(failure),
    }
}

/// What etcd says of a transaction that is too long for it.
const TOO_MANY: &str = "too many operations";

/// Measures requests that go through the quorum, as a holder's proofs do.
pub(super) async fn try_round_trips(
    connection: &Connection,
    clock: &dyn Clock,
    config: &Config,
    deadline: BootInstant,
) -> Result<Option<Finding>, Failure> {
    let mut took = Vec::with_capacity(ROUND_TRIPS);
    for _ in 0..ROUND_TRIPS {
        let start = clock.now();
        connection.call(read_offset(config), deadline).await?;
        took.push(clock.now().saturating_duration_since(start));
    }
    took.sort_unstable();
    Ok(judge_round_trip(config.session_timeout(), took[ROUND_TRIPS / 2]))
}

/// Asks for the shortest lease, and gives it back.
pub(super) async fn try_least_timeout(
    connection: &Connection,
    config: &Config,
    deadline: BootInstant,
) -> Result<Option<Finding>, Failure> {
    let granted = match connection.call(LeaseGrantRequest { ttl: 1 }, deadline).await {
        Ok(granted) => granted,
        // That is told of the member.
        Err(failure) if failure.kind == FailureKind::Full => return Ok(None),
        Err(failure) => return Err(failure),
    };
    // One that cannot be given back runs out.
    let _ = connection.call(LeaseRevokeRequest { id: granted.id }, deadline).await;
    let least = Duration::from_secs(granted.ttl.try_into().map_err(|_| Failure::unexpected())?);
    Ok(judge_least(config.session_timeout(), least))
}

/// Looks where tokens begin.
pub(super) async fn try_offset(
    connection: &Connection,
    clock: &dyn Clock,
    config: &Config,
    deadline: BootInstant,
) -> Result<Option<Finding>, Failure> {
    let layout = config.layout();
    let (offset, _) = offset(connection, config, deadline).await?;
    let key = String::from_utf8_lossy(&layout.offset()).into_owned();
    Ok(judge_offset(&key, offset, first_offset(clock.unix_time())))
}

/// Reads where tokens begin, and the service's revision.
pub(super) async fn offset(
    connection: &Connection,
    config: &Config,
    deadline: BootInstant,
) -> Result<(Offset, i64), Failure> {
    let answer = connection.call(read_offset(config), deadline).await?;
    let revision = answer.header.ok_or_else(Failure::unexpected)?.revision;
    if answer.kvs.is_empty() {
        return Ok((Offset::Absent, revision));
    }
    let epoch = Epoch::of(ResponseOp { response: Some(Response::Range(answer)) });
    Ok((epoch.map_or(Offset::Unreadable, Offset::Present), revision))
}

fn read_offset(config: &Config) -> RangeRequest {
    key_range(config.layout().offset())
}
