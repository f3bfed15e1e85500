//! Findings in the nodes below the base: names of clients that we do not know, numbers near their end, and nodes that
//! this user may not read. And whether the leader's clock is the one of this machine.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::{Finding, Severity};
use lockkeeper_session::Clocks;
use lockkeeper_zk_proto::path::ZnodePath;

use crate::config::Config;
use crate::error::ClientError;
use crate::layout::{ForeignPolicy, Named};
use crate::link::Link;
use crate::lock::remnants::{Census, SeenNode, count, server_time};

/// From here on a queue's numbers are told: half of them are used, and joins are refused shortly before 2^31.
const SEQUENCE_MAX: u32 = 1 << 30;

/// Looks at all nodes, and at the leader's clock.
pub(super) async fn examine_tree(link: &Arc<Link>, config: &Config) -> Result<Vec<Finding>, ClientError> {
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
    let unknown: Vec<&SeenNode> = queues().flat_map(|queue| &queue.foreign).collect();
    if foreign == ForeignPolicy::Refuse && !base.is_root() {
        let (bound, unbound): (Vec<&SeenNode>, Vec<&SeenNode>) =
            unknown.iter().partition(|node| node.stat.ephemeral_owner != 0);
        if let Some(first) = bound.first() {
            let what = format!(
                "{}{} may be a contender of a client that is not known, so its lock is refused",
                first.path,
                and_more(bound.len())
            );
            let cure = "put foreign=wait into the URL if it is one, and foreign=ignore if it is not";
            findings.push(Finding::new(Severity::Warning, what, cure));
        }
        if let Some(first) = unbound.first() {
            let what = format!(
                "{}{} is no session's, and looks like a contender, so its lock is refused",
                first.path,
                and_more(unbound.len())
            );
            let cure = "move it to another path, or put foreign=ignore into the URL";
            findings.push(Finding::new(Severity::Warning, what, cure));
        }
    }
    let numbered = queues().flat_map(|queue| {
        let numbers = queue.contenders.iter().filter_map(|contender| match Named::read(&contender.name) {
            Named::Contender { sequence, .. } => Some(sequence.cast_unsigned()),
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

fn and_more(count: usize) -> String {
    if count > 1 { format!(" (and {} more)", count - 1) } else { String::new() }
}
