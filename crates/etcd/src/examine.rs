//! Examination of the service: findings that its users should know. `judge` has the rules, pure.
//!
//! Each member of the URL is asked for its status, and trials over one of them check what locks need; they leave
//! nothing behind. Here tokens begin anew after a restored snapshot too, which no examination can find.

mod judge;

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::clock::Clock;
use lockkeeper_core::{Finding, Operation, Result, Severity};
use lockkeeper_session::{Effect, Failure, FailureKind, Finder, Order, Server, judge_round_trip, median_round_trip};
use tokio::task::JoinSet;

use crate::examine::judge::{
    Offset, judge_least, judge_members, judge_offset, judge_silence, judge_standstill, judge_status, judge_unity,
    judge_url,
};
use crate::look::EtcdLook;
use crate::proto::{
    LeaseGrantRequest, LeaseRevokeRequest, MemberListRequest, RangeRequest, StatusRequest, StatusResponse,
};
use crate::rpc::{
    Connection, KeepAlive, KeyWatches, created_at, delete, is_turned_away, key_range, modified_at, prefix_range, put,
    txn,
};
use crate::session::{TokenEpoch, first_offset};
use crate::url::{Config, EtcdSite};

/// Asks one member once for what weakens locks.
pub(crate) async fn examine_briefly(looking: EtcdLook<'_>) -> Result<Vec<Finding>, Failure> {
    Ok(judge_status(&looking.connection.call(StatusRequest {}, looking.deadline).await?))
}

/// Adds the findings on the cluster to those on its members, or that it serves no requests.
pub(crate) fn together(members: Members, of_cluster: Result<Vec<Finding>>) -> Result<Vec<Finding>> {
    let Members { mut findings, is_any_there } = members;
    match of_cluster {
        Ok(found) => findings.extend(found),
        Err(error) => findings.push(judge_standstill(is_any_there, error)?),
    }
    Ok(findings)
}

pub(crate) async fn examine_cluster(looking: EtcdLook<'_>, site: &EtcdSite) -> Result<Vec<Finding>, Failure> {
    if let Some(refused) = try_watch(looking, site).await? {
        return Ok(vec![refused]);
    }
    let mut findings = judge_cluster(looking, site).await?;
    findings.extend(try_least_timeout(looking, site).await?);
    match try_rights(looking, site).await? {
        // What lies below the base may not even be read.
        Some(refused) => findings.push(refused),
        None => {
            findings.extend(try_offset(looking, site).await?);
            findings.extend(try_round_trips(looking, site).await?);
        }
    }
    Ok(findings)
}

async fn judge_cluster(looking: EtcdLook<'_>, site: &EtcdSite) -> Result<Vec<Finding>, Failure> {
    let listed = match looking.connection.call(MemberListRequest {}, looking.deadline).await {
        Ok(listed) => listed,
        Err(failure) if failure.kind == FailureKind::Refused => {
            let what = "this user may not list the members, so their number is not known";
            return Ok(vec![Finding::new(Severity::Note, what, "run the examination as `root` once")]);
        }
        Err(failure) => return Err(failure),
    };
    let count = listed.members.iter().filter(|member| !member.is_learner).count();
    Ok(judge_members(count).into_iter().chain(judge_url(site.config.servers.len(), count)).collect())
}

/// The time in which a member must answer with its status, for which it needs no quorum.
const ANSWERED_WITHIN: Duration = Duration::from_secs(3);

#[derive(Debug)]
pub(crate) struct Members {
    findings: Vec<Finding>,
    /// Whether any member runs, with or without the others.
    is_any_there: bool,
}

/// Asks all members at the same time; a finding of several members is reported once.
pub(crate) async fn examine_members(config: &Arc<Config>, clock: &Arc<dyn Clock>) -> Members {
    let mut asking = JoinSet::new();
    for at in 0..config.servers.len() {
        let (config, clock) = (config.clone(), clock.clone());
        asking.spawn(async move { (at, ask(&config, &clock, at).await) });
    }
    let mut answers = asking.join_all().await;
    answers.sort_by_key(|(at, _)| *at);
    let mut findings = Vec::new();
    let mut clusters = Vec::new();
    let mut is_any_there = false;
    for (at, answer) in answers {
        let server = &config.servers[at];
        match answer {
            Ok(status) => {
                is_any_there = true;
                findings.push(Finding::note(format!("{server} runs etcd {}", status.version)));
                clusters.extend(status.header.map(|header| header.cluster_id));
                findings.extend(judge_status(&status));
            }
            Err(failure) => {
                let is_there = is_turned_away(&failure);
                is_any_there |= is_there;
                findings.push(judge_silence(is_there, &failure.into_core(Operation::Connect, false)));
            }
        }
    }
    findings.extend(judge_unity(&clusters));
    let mut told: Vec<Finding> = Vec::new();
    for finding in findings {
        if !told.contains(&finding) {
            told.push(finding);
        }
    }
    Members { findings: told, is_any_there }
}

async fn ask(config: &Config, clock: &Arc<dyn Clock>, at: usize) -> Result<StatusResponse, Failure> {
    let mut finder = Finder::new(&config.names, vec![config.servers[at].clone()], Order::Listed, clock.clone());
    let asking = |way: Server, attempt_ends| async move {
        let connection = Connection::open(&way, &config.access, clock, attempt_ends).await?;
        connection.call(StatusRequest {}, attempt_ends).await
    };
    finder.round(clock.now().saturating_add(ANSWERED_WITHIN), asking).await
}

/// For how many operations a server takes our largest request, that for a thousand permits: 32 groups of 32, and two
/// looks. It adds those of a group to what stands beside it.
const OPERATIONS: usize = 66;

/// No key was ever created at this revision.
const NEVER: i64 = -1;

/// Makes a transaction that does nothing, since its condition never holds; the server checks its length and the rights
/// to all of it all the same.
async fn try_rights(looking: EtcdLook<'_>, site: &EtcdSite) -> Result<Option<Finding>, Failure> {
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
        // The member's own status reports it.
        Err(failure) if failure.kind == FailureKind::Full => Ok(None),
        Err(failure) if failure.to_string().contains(TOO_MANY) => {
            let what = format!("the members refuse a request of {OPERATIONS} operations, as a thousand permits take");
            let cure = "start the members with --max-txn-ops=128, which is the default";
            Ok(Some(Finding::new(Severity::Error, what, cure)))
        }
        Err(failure) => Err(failure),
    }
}

/// etcd's message for a transaction that is too long.
const TOO_MANY: &str = "too many operations";

/// Measures requests that go through the quorum, as a holder's proofs do.
async fn try_round_trips(looking: EtcdLook<'_>, site: &EtcdSite) -> Result<Option<Finding>, Failure> {
    let ask = || async { looking.connection.call(read_offset(site), looking.deadline).await.map(drop) };
    let median = median_round_trip(&*site.clock, Duration::MAX, ask).await?;
    Ok(judge_round_trip(site.config.session_timeout(), median, "a holder proves its session"))
}

/// Watches a key, as waiters do. A proxy, which answers otherwise than a member, is reported by its name.
async fn try_watch(looking: EtcdLook<'_>, site: &EtcdSite) -> Result<Option<Finding>, Failure> {
    match KeyWatches::open(looking.connection, site.layout.offset(), looking.deadline).await {
        Ok(_) => Ok(None),
        Err(failure) if failure.kind == FailureKind::Settings => {
            let cure = "name the members of the cluster in the URL";
            Ok(Some(Finding::new(Severity::Error, format!("no lock can be had: {failure}"), cure)))
        }
        Err(failure) => Err(failure),
    }
}

/// Asks for the shortest lease, renews it, and gives it back.
async fn try_least_timeout(looking: EtcdLook<'_>, site: &EtcdSite) -> Result<Option<Finding>, Failure> {
    let granted = match looking.connection.call(LeaseGrantRequest { ttl: 1, id: 0 }, looking.deadline).await {
        Ok(granted) => granted,
        // The member's own status reports it.
        Err(failure) if failure.kind == FailureKind::Full => return Ok(None),
        Err(failure) => return Err(failure),
    };
    let renewed = KeepAlive::open(looking.connection, granted.id, looking.deadline).await;
    // A lease that cannot be given back expires.
    let _ = looking.connection.call(LeaseRevokeRequest { id: granted.id }, looking.deadline).await;
    renewed?;
    let least = Duration::from_secs(granted.ttl.try_into().map_err(|_| Failure::unexpected())?);
    Ok(judge_least(site.config.session_timeout(), least))
}

async fn try_offset(looking: EtcdLook<'_>, site: &EtcdSite) -> Result<Option<Finding>, Failure> {
    let (offset, _) = offset(looking, site).await?;
    let key = String::from_utf8_lossy(&site.layout.offset()).into_owned();
    Ok(judge_offset(&key, offset, first_offset(site.clock.unix_time())))
}

/// Reads the offset of tokens and the service's revision.
async fn offset(looking: EtcdLook<'_>, site: &EtcdSite) -> Result<(Offset, i64), Failure> {
    let answer = looking.connection.call(read_offset(site), looking.deadline).await?;
    let revision = answer.header.ok_or_else(Failure::unexpected)?.revision;
    let offset = match answer.kvs.first() {
        None => Offset::Absent,
        Some(kv) => TokenEpoch::read(kv).map_or(Offset::Unreadable, Offset::Present),
    };
    Ok((offset, revision))
}

fn read_offset(site: &EtcdSite) -> RangeRequest {
    key_range(site.layout.offset())
}

/// What an operator is told who has put back older data.
const COUNTED_ANEW: &str = "tokens are counted anew from the clock";

/// Writes a new offset of tokens, from the clock, unless another client does so meanwhile.
pub(crate) async fn renew_tokens(looking: EtcdLook<'_>, site: &EtcdSite) -> Result<Finding, Failure> {
    let (found, revision) = offset(looking, site).await?;
    let refuse = |message: &str| Failure::new(FailureKind::Other, Effect::None, message);
    let seen = match found {
        // The first session does it.
        Offset::Absent => return Ok(Finding::note(COUNTED_ANEW)),
        Offset::Unreadable => return Err(refuse("where tokens begin is no number; see `lockkeeper doctor`")),
        Offset::Present(seen) => seen,
    };
    let next = next_offset(seen, revision, site.clock.unix_time())
        .ok_or_else(|| refuse("this machine's clock is behind the tokens; set it, then try again"))?;
    let key = site.layout.offset();
    let write = txn(vec![modified_at(key.clone(), seen.written)], vec![put(key, next.to_string(), 0)], Vec::new());
    match looking.connection.call(write, looking.deadline).await?.succeeded {
        true => Ok(Finding::note(COUNTED_ANEW)),
        false => Err(refuse("another client has written where tokens begin at the same moment; try again")),
    }
}

/// The new offset: behind all tokens that this service can have granted, unless the clock was set back.
fn next_offset(seen: TokenEpoch, revision: i64, unix_time: Duration) -> Option<u64> {
    let next = first_offset(unix_time);
    (next > seen.offset.saturating_add(revision.cast_unsigned())).then_some(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_begin_behind_all_that_were_granted_or_not_at_all() {
        let epoch = |offset| TokenEpoch { offset, written: 3 };
        let now = Duration::from_secs(1_000);
        let offset = first_offset(now);
        assert_eq!(next_offset(epoch(first_offset(Duration::from_secs(10))), 500, now), Some(offset));
        assert_eq!(next_offset(epoch(offset), 500, now), None);
        assert_eq!(next_offset(epoch(offset - 400), 500, now), None, "tokens have grown beyond the clock");
    }
}
