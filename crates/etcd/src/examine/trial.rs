//! Tries what locks need of the service, without changing anything that stays.

use std::time::Duration;

use lockkeeper_core::{Finding, Severity};
use lockkeeper_session::{Failure, FailureKind, judge_round_trip, median_round_trip};

use super::judge::{Offset, judge_least, judge_offset};
use crate::proto::{LeaseGrantRequest, LeaseRevokeRequest, RangeRequest, Response, ResponseOp};
use crate::queue::Onlooking;
use crate::rpc::{KeepAlive, Watches, created_at, delete, key_range, prefix_range, put, txn};
use crate::session::{Epoch, Timing, first_offset};
use crate::url::Site;

/// For how many operations a server takes our largest request, that for a thousand permits: 32 groups of 32, and two
/// looks. It adds those of a group to what stands beside it.
const OPERATIONS: usize = 66;

/// No key was ever created at this revision.
const NEVER: i64 = -1;

/// Makes a transaction that does nothing, since its condition never holds; the server checks its length and the rights
/// to all of it all the same.
pub(super) async fn try_rights(looking: &Onlooking<'_>, site: &Site) -> Result<Option<Finding>, Failure> {
    let base = format!("{}/", site.config.base);
    let key = format!("{base}examined");
    let mut operations =
        vec![put(key.clone(), "", 0), delete(format!("{base}examined too")), prefix_range(base.clone()).into()];
    operations.resize_with(OPERATIONS, || key_range(key.clone()).into());
    let request = txn(vec![created_at(key.clone(), NEVER)], operations, Vec::new());
    match looking.connection.call(request, looking.deadline).await {
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
pub(super) async fn try_round_trips(looking: &Onlooking<'_>, site: &Site) -> Result<Option<Finding>, Failure> {
    let ask = || async { looking.connection.call(read_offset(site), looking.deadline).await.map(drop) };
    let median = median_round_trip(&*site.clock, Duration::MAX, ask).await?;
    let interval = Timing { timeout: site.config.session_timeout() }.holding_interval();
    Ok(judge_round_trip(interval, median, "a holder proves its session"))
}

/// Watches, as waiters do. What gives it another answer than a member is refused by its name.
pub(super) async fn try_watch(looking: &Onlooking<'_>, site: &Site) -> Result<Option<Finding>, Failure> {
    match Watches::open(looking.connection, site.layout.offset(), looking.deadline).await {
        Ok(_) => Ok(None),
        Err(failure) if failure.kind == FailureKind::Settings => {
            let cure = "name the members of the cluster in the URL";
            Ok(Some(Finding::new(Severity::Error, format!("no lock can be had: {failure}"), cure)))
        }
        Err(failure) => Err(failure),
    }
}

/// Asks for the shortest lease, renews it, and gives it back.
pub(super) async fn try_least_timeout(looking: &Onlooking<'_>, site: &Site) -> Result<Option<Finding>, Failure> {
    let granted = match looking.connection.call(LeaseGrantRequest { ttl: 1 }, looking.deadline).await {
        Ok(granted) => granted,
        // That is told of the member.
        Err(failure) if failure.kind == FailureKind::Full => return Ok(None),
        Err(failure) => return Err(failure),
    };
    let renewed = KeepAlive::open(looking.connection, granted.id, looking.deadline).await;
    // One that cannot be given back runs out.
    let _ = looking.connection.call(LeaseRevokeRequest { id: granted.id }, looking.deadline).await;
    renewed?;
    let least = Duration::from_secs(granted.ttl.try_into().map_err(|_| Failure::unexpected())?);
    Ok(judge_least(site.config.session_timeout(), least))
}

/// Looks where tokens begin.
pub(super) async fn try_offset(looking: &Onlooking<'_>, site: &Site) -> Result<Option<Finding>, Failure> {
    let (offset, _) = offset(looking, site).await?;
    let key = String::from_utf8_lossy(&site.layout.offset()).into_owned();
    Ok(judge_offset(&key, offset, first_offset(site.clock.unix_time())))
}

/// Reads where tokens begin, and the service's revision.
pub(super) async fn offset(looking: &Onlooking<'_>, site: &Site) -> Result<(Offset, i64), Failure> {
    let answer = looking.connection.call(read_offset(site), looking.deadline).await?;
    let revision = answer.header.ok_or_else(Failure::unexpected)?.revision;
    if answer.kvs.is_empty() {
        return Ok((Offset::Absent, revision));
    }
    let epoch = Epoch::of(ResponseOp { response: Some(Response::Range(answer)) });
    Ok((epoch.map_or(Offset::Unreadable, Offset::Present), revision))
}

fn read_offset(site: &Site) -> RangeRequest {
    key_range(site.layout.offset())
}
