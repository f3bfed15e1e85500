//! The whole examination, for an operator, and the brief one, which each process makes once.

use lockkeeper_core::{Finding, Result, Severity};
use lockkeeper_session::{Failure, FailureKind};

use super::judge::{judge_members, judge_standstill, judge_status, judge_url};
use super::members::Members;
use super::trial::{try_least_timeout, try_offset, try_rights, try_round_trips, try_watch};
use crate::proto::{MemberListRequest, StatusRequest};
use crate::queue::Onlooking;
use crate::url::Site;

/// Asks one member, once, what weakens locks.
pub(crate) async fn examine_briefly(looking: &Onlooking<'_>) -> Result<Vec<Finding>, Failure> {
    Ok(judge_status(&looking.connection.call(StatusRequest {}, looking.deadline).await?))
}

/// Adds what was found of the cluster to what its members say, or that it serves no requests.
pub(crate) fn together(members: Members, of_cluster: Result<Vec<Finding>>) -> Result<Vec<Finding>> {
    let Members { mut findings, is_any_there } = members;
    match of_cluster {
        Ok(found) => findings.extend(found),
        Err(error) => findings.push(judge_standstill(is_any_there, error)?),
    }
    Ok(findings)
}

/// Examines the cluster over one of its members.
pub(crate) async fn examine_cluster(looking: &Onlooking<'_>, site: &Site) -> Result<Vec<Finding>, Failure> {
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

async fn judge_cluster(looking: &Onlooking<'_>, site: &Site) -> Result<Vec<Finding>, Failure> {
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
