//! Asks each member that the URL names how it is.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::clock::Clock;
use lockkeeper_core::{Finding, Operation};
use lockkeeper_session::{Failure, FailureKind, Finder, Order, Server};
use tokio::task::JoinSet;

use super::judge::{judge_silence, judge_status, judge_unity};
use crate::proto::{StatusRequest, StatusResponse};
use crate::rpc::Connection;
use crate::url::Config;

/// How long a member may take to say how it is. It needs no quorum for that.
const ANSWERED_WITHIN: Duration = Duration::from_secs(3);

/// What the members say.
#[derive(Debug)]
pub(crate) struct Members {
    pub(super) findings: Vec<Finding>,
    /// Whether any of them runs, if only without the others.
    pub(super) is_any_there: bool,
}

/// Asks all members at the same time; what several of them say is told once.
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
                let is_there = failure.kind == FailureKind::Unavailable;
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
