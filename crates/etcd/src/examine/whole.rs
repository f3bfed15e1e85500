//! The whole examination, for an operator, and the brief one, which each process makes once.

use std::sync::Arc;

use lockkeeper_core::clock::{BootInstant, Clock};
use lockkeeper_core::{Finding, Result, Severity};
use lockkeeper_session::{Failure, FailureKind};

use super::judge::{judge_members, judge_standstill, judge_status, judge_url};
use super::members::Members;
use super::trial::{try_least_timeout, try_offset, try_rights, try_round_trips};
use crate::proto::{MemberListRequest, StatusRequest};
use crate::rpc::Connection;
use crate::url::Config;

/// What an examination needs beside a connection.
#[derive(Clone)]
pub(crate) struct Examination {
    pub(crate) config: Arc<Config>,
    pub(crate) clock: Arc<dyn Clock>,
}

/// Asks one member, once, what weakens locks.
pub(crate) async fn examine_briefly(connection: &Connection, deadline: BootInstant) -> Result<Vec<Finding>, Failure> {
    Ok(judge_status(&connection.call(StatusRequest {}, deadline).await?))
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
pub(crate) async fn examine_cluster(
    examination: &Examination,
    connection: &Connection,
    deadline: BootInstant,
) -> Result<Vec<Finding>, Failure> {
    let Examination { config, clock } = examination;
    let mut findings = judge_cluster(config, connection, deadline).await?;
    findings.extend(try_least_timeout(connection, config, deadline).await?);
    match try_rights(connection, config, deadline).await? {
        // What lies below the base may not even be read.
        Some(refused) => findings.push(refused),
        None => {
            findings.extend(try_offset(connection, &**clock, config, deadline).await?);
            findings.extend(try_round_trips(connection, &**clock, config, deadline).await?);
        }
    }
    Ok(findings)
}

async fn judge_cluster(
    config: &Config,
    connection: &Connection,
    deadline: BootInstant,
) -> Result<Vec<Finding>, Failure> {
    let listed = match connection.call(MemberListRequest {}, deadline).await {
        Ok(listed) => listed,
        Err(failure) if failure.kind == FailureKind::Refused => {
            let what = "this user may not list the members, so their number is not known";
            return Ok(vec![Finding::new(Severity::Note, what, "run the examination as `root` once")]);
        }
        Err(failure) => return Err(failure),
    };
    let count = listed.members.iter().filter(|member| !member.is_learner).count();
    Ok(judge_members(count).into_iter().chain(judge_url(config.servers.len(), count)).collect())
}
