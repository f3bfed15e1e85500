//! The whole examination, for an operator: with a separate session, and with what the servers say of themselves.

use std::sync::Arc;

use lockkeeper_core::clock::Clock;
use lockkeeper_core::{Error, Finding, Operation, Result};
use lockkeeper_zk_proto::message::Request;
use tokio::task::JoinSet;

use super::ensemble::{Known, judge};
use super::rights::examine_rights;
use super::session::{examine_answers, examine_timeout, slowest_round_trip};
use super::tree::examine_tree;
use super::words::{Said, ask};
use crate::client::Access;
use crate::config::Config;
use crate::dial::Dial;
use crate::error::ClientError;
use crate::link::Link;
use crate::lock::fitness::require_fit;

/// The node in which an ensemble keeps its configuration; no chroot applies to it.
const CONFIGURATION: &str = "/zookeeper/config";

/// Examines the service.
pub(in crate::lock) async fn examine(access: Access) -> Result<Vec<Finding>> {
    let fail = |error: ClientError| -> Error { error.into_core(Operation::Inspect, None) };
    let client = access.open().await.map_err(fail)?;
    let config = &access.config;
    let told = told(client.link(), config).await;
    // What could not be told ends with the session's timeout.
    let _ = client.close().await;
    let (mut findings, voters) = told.map_err(fail)?;
    let said = ask_all(config, &access.dial, &access.clock).await;
    let granted = client.session_timeout();
    findings.extend(judge(Known { said: &said, voters, tick: config.tick, granted }));
    Ok(findings)
}

/// What a session tells, and how many servers vote, if that is known.
async fn told(link: &Arc<Link>, config: &Config) -> Result<(Vec<Finding>, Option<usize>), ClientError> {
    require_fit(link).await?;
    let timeouts = link.timeouts();
    let granted = || Finding::note(format!("sessions have a timeout of {:?}, as was asked for", timeouts.granted));
    let mut findings = vec![examine_timeout(timeouts).unwrap_or_else(granted)];
    findings.extend(examine_answers(timeouts.granted, slowest_round_trip(link).await?));
    findings.extend(examine_rights(link, config).await?);
    findings.extend(examine_tree(link, config).await?);
    let request = Request::GetData { path: CONFIGURATION.to_owned(), watch: false };
    // Servers before 3.5 have no such node, and a user may not be allowed to read it.
    let configuration = link.call(&request, CONFIGURATION).data().await.ok();
    let voters = configuration.and_then(|(data, _)| count_voters(&String::from_utf8_lossy(&data)));
    Ok((findings, voters))
}

/// Asks all servers of the URL at the same time, and returns the answers in the URL's order.
async fn ask_all(config: &Config, dial: &Arc<dyn Dial>, clock: &Arc<dyn Clock>) -> Vec<(String, Said)> {
    let mut asking = JoinSet::new();
    for (at, server) in config.servers.iter().cloned().enumerate() {
        let (dial, clock) = (dial.clone(), clock.clone());
        asking.spawn(async move { (at, server.to_string(), ask(&dial, &clock, &server).await) });
    }
    let mut said = asking.join_all().await;
    said.sort_by_key(|(at, ..)| *at);
    said.into_iter().map(|(_, server, said)| (server, said)).collect()
}

/// Counts the servers that vote, in an ensemble's configuration: `server.1=zk1:2888:3888:participant;0.0.0.0:2181`.
fn count_voters(configuration: &str) -> Option<usize> {
    let servers = configuration.lines().filter(|line| line.starts_with("server."));
    let voters = servers.filter(|line| !line.contains(":observer")).count();
    (voters > 0).then_some(voters)
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
}
