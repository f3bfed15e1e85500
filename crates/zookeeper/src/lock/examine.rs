//! Examination of the service for an operator, with a separate session: what the session tells, what the nodes below
//! the base show, and what the servers say of themselves (`ensemble`).

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::clock::Clock;
use lockkeeper_core::{Error, Finding, Operation, Result, SessionTimeout, Severity};
use lockkeeper_session::Clocks;
use lockkeeper_zk_proto::message::ZkRequest;
use lockkeeper_zk_proto::path::ZnodePath;
use tokio::task::JoinSet;

use crate::client::ClientOpener;
use crate::config::Config;
use crate::dial::Dial;
use crate::error::ClientError;
use crate::layout::{ChildName, ForeignPolicy};
use crate::link::SessionLink;
use crate::lock::census::{Census, CensusNode, count};
use crate::lock::ensemble::{ServerAnswer, ServiceFacts, ask, judge};
use crate::lock::remnants::server_time;
use crate::lock::trial::{examine_rights, require_fit};

/// The node in which an ensemble keeps its configuration; no chroot applies to it.
const CONFIGURATION: &str = "/zookeeper/config";

pub(super) async fn examine(access: ClientOpener) -> Result<Vec<Finding>> {
    let fail = |error: ClientError| -> Error { error.into_core(Operation::Inspect, None) };
    let client = access.open().await.map_err(fail)?;
    let config = &access.config;
    let examined = examine_service(client.link(), config).await;
    // A session whose end does not arrive ends with the session's timeout.
    let _ = client.close().await;
    let (mut findings, voters) = examined.map_err(fail)?;
    let answers = ask_servers(config, &access.dial, &access.clock).await;
    let granted = client.session_timeout();
    findings.extend(judge(ServiceFacts { answers: &answers, voters, tick: config.tick, granted }));
    Ok(findings)
}

/// What a session shows, and how many servers vote, if that is known.
async fn examine_service(
    link: &Arc<SessionLink>,
    config: &Config,
) -> Result<(Vec<Finding>, Option<usize>), ClientError> {
    require_fit(link).await?;
    let timeouts = link.timeouts();
    let granted = || Finding::note(format!("sessions have a timeout of {:?}, as was asked for", timeouts.granted));
    let mut findings = vec![examine_timeout(timeouts).unwrap_or_else(granted)];
    findings.extend(examine_answers(timeouts.granted, slowest_round_trip(link).await?));
    findings.extend(examine_rights(link, config).await?);
    findings.extend(examine_tree(link, config).await?);
    let request = ZkRequest::GetData { path: CONFIGURATION.to_owned(), watch: false };
    // Servers before 3.5 have no such node, and a user may not be allowed to read it.
    let configuration = link.call(&request, CONFIGURATION).data().await.ok();
    let voters = configuration.and_then(|(data, _)| count_voters(&String::from_utf8_lossy(&data)));
    Ok((findings, voters))
}

/// Asks all servers of the URL at the same time, and returns the answers in the URL's order.
async fn ask_servers(config: &Config, dial: &Arc<dyn Dial>, clock: &Arc<dyn Clock>) -> Vec<(String, ServerAnswer)> {
    let mut asking = JoinSet::new();
    for (at, server) in config.servers.iter().cloned().enumerate() {
        let (dial, clock) = (dial.clone(), clock.clone());
        asking.spawn(async move { (at, server.to_string(), ask(&dial, &clock, &server).await) });
    }
    let mut answers = asking.join_all().await;
    answers.sort_by_key(|(at, ..)| *at);
    answers.into_iter().map(|(_, server, answer)| (server, answer)).collect()
}

/// Counts the servers that vote, in an ensemble's configuration: `server.1=zk1:2888:3888:participant;0.0.0.0:2181`.
fn count_voters(configuration: &str) -> Option<usize> {
    let servers = configuration.lines().filter(|line| line.starts_with("server."));
    let voters = servers.filter(|line| !line.contains(":observer")).count();
    (voters > 0).then_some(voters)
}

/// How many round trips are measured: the slowest of a few shows whether the timeout is far too short.
const ROUND_TRIPS: usize = 8;

/// How many of the slowest round trips a session's timeout must last at least. A proof of the session is sent in time
/// if two of them are lost.
const ROUND_TRIPS_MIN: u32 = 4;

async fn slowest_round_trip(link: &Arc<SessionLink>) -> Result<Duration, ClientError> {
    let clock = link.clock.clone();
    let mut slowest = Duration::ZERO;
    for _ in 0..ROUND_TRIPS {
        let start = clock.now();
        link.call(&ZkRequest::Sync { path: "/".to_owned() }, "/").response().await?;
        slowest = slowest.max(clock.now().saturating_duration_since(start));
    }
    Ok(slowest)
}

fn examine_timeout(timeout: SessionTimeout) -> Option<Finding> {
    let SessionTimeout { asked, granted } = timeout;
    timeout.is_clipped().then(|| {
        Finding::new(
            Severity::Warning,
            format!("the server grants a session timeout of {granted:?} instead of {asked:?}"),
            format!("set session_timeout={granted:?}, or the server's minSessionTimeout and maxSessionTimeout"),
        )
    })
}

fn examine_answers(granted: Duration, slowest: Duration) -> Option<Finding> {
    (granted < slowest * ROUND_TRIPS_MIN).then(|| {
        Finding::new(
            Severity::Warning,
            format!("a round trip took {slowest:?}, and the session timeout is {granted:?}"),
            "set a longer session_timeout, or sessions end while nothing is wrong",
        )
    })
}

/// From here on a queue's numbers are told: half of them are used, and joins are refused shortly before 2^31.
const SEQUENCE_MAX: u32 = 1 << 30;

async fn examine_tree(link: &Arc<SessionLink>, config: &Config) -> Result<Vec<Finding>, ClientError> {
    let census = count(link, config).await?;
    let mut findings = judge_census(&census, &config.base, config.foreign);
    let clock = link.clock.clone();
    let before = clock.unix_time();
    let server = server_time(link, config).await?;
    let after = clock.unix_time();
    let server = server.and_then(|time| u64::try_from(time.unix_ms).ok()).map(Duration::from_millis);
    let clocks = server.map(|server| Clocks { server, before, after });
    findings.extend(clocks.and_then(|clocks| clocks.judge("the leader", "; ages that are shown are wrong by it")));
    Ok(findings)
}

fn judge_census(census: &Census, base: &ZnodePath, foreign: ForeignPolicy) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some(first) = census.unreadable.first() {
        let more = and_more(census.unreadable.len());
        let what = format!("this user may not read {first}{more}, so it does not see who stands there");
        let cure = "give the user the right `r` on these nodes (setAcl)";
        findings.push(Finding::new(Severity::Warning, what, cure));
    }
    let queues = || census.locks.iter().flat_map(|lock| &lock.queues);
    // Below the root other programs keep their nodes; which of them are queues is not known.
    let unknown: Vec<&CensusNode> = queues().flat_map(|queue| &queue.foreign).collect();
    if foreign == ForeignPolicy::Refuse && !base.is_root() {
        let (bound, unbound): (Vec<&CensusNode>, Vec<&CensusNode>) =
            unknown.iter().partition(|node| node.stat.ephemeral_owner != 0);
        let cure = "put foreign=wait into the URL if it is one, and foreign=ignore if it is not";
        let what = "may be a contender of a client that is not known, so its lock is refused";
        findings.extend(warning_of(&bound, what, cure));
        let cure = "move it to another path, or put foreign=ignore into the URL";
        let what = "is no session's, and looks like a contender, so its lock is refused";
        findings.extend(warning_of(&unbound, what, cure));
    }
    let numbered = queues().flat_map(|queue| {
        let numbers = queue.contenders.iter().filter_map(|contender| match ChildName::read(&contender.name) {
            ChildName::Contender { sequence, .. } => Some(sequence.cast_unsigned()),
            _ => None,
        });
        numbers.max().map(|greatest| (&queue.node.path, greatest))
    });
    if let Some((path, greatest)) = numbered.filter(|&(_, greatest)| greatest > SEQUENCE_MAX).max_by_key(|last| last.1)
    {
        let what = format!("the numbers of {path} have come to {greatest}; near 2147483647 no contender can join");
        let cure = "let all of its contenders leave once and delete the node: numbers then begin anew";
        findings.push(Finding::new(Severity::Warning, what, cure));
    }
    findings
}

/// Warns of nodes by the first of them, if there are any.
fn warning_of(nodes: &[&CensusNode], what: &str, cure: &'static str) -> Option<Finding> {
    let first = nodes.first()?;
    Some(Finding::new(Severity::Warning, format!("{}{} {what}", first.path, and_more(nodes.len())), cure))
}

fn and_more(count: usize) -> String {
    if count > 1 { format!(" (and {} more)", count - 1) } else { String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_that_vote_are_counted() {
        let configuration = "server.1=zk1:2888:3888:participant;0.0.0.0:2181\nserver.2=zk2:2888:3888:participant\n\
                             server.3=zk3:2888:3888:observer\nversion=0";
        assert_eq!(count_voters(configuration), Some(2));
        assert_eq!(count_voters(""), None);
    }

    fn what(asked_s: u64, granted_s: u64, slowest_ms: u64) -> Vec<String> {
        let [asked, granted] = [asked_s, granted_s].map(Duration::from_secs);
        let clipped = examine_timeout(SessionTimeout { asked, granted });
        let findings: Vec<_> =
            clipped.into_iter().chain(examine_answers(granted, Duration::from_millis(slowest_ms))).collect();
        assert!(findings.iter().all(|finding| finding.severity == Severity::Warning));
        findings.into_iter().map(|finding| finding.what).collect()
    }

    #[test]
    fn a_timeout_that_the_server_changed_or_that_is_too_short_for_its_answers_is_found() {
        assert!(what(20, 20, 5_000).is_empty());
        assert_eq!(what(2, 4, 1), ["the server grants a session timeout of 4s instead of 2s"]);
        assert_eq!(what(4, 4, 1_001), ["a round trip took 1.001s, and the session timeout is 4s"]);
        assert_eq!(what(2, 4, 1_001).len(), 2);
    }
}
