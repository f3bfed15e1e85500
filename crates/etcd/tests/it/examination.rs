//! Findings of an examination on real servers, and that it leaves nothing.

use std::net::SocketAddr;

use lockkeeper_conformance::soon;
use lockkeeper_core::{Backend, Exclusion, Finding, Scrutiny, Severity};
use lockkeeper_faults::etcd::Server;
use lockkeeper_recipes::Keeper;
use serde_json::json;

use crate::access::{as_ann, guarded};
use crate::operator::Operator;
use crate::{backend, keeper, open};

/// Where it is written where tokens begin.
const TOKENS_BEGIN: &str = "/lockkeeper/e";

async fn found(backend: &dyn Backend, scrutiny: Scrutiny) -> Vec<Finding> {
    soon("the findings", backend.admin().examine(scrutiny)).await.expect("the service can be examined")
}

fn severity_of(findings: &[Finding], word: &str) -> Option<Severity> {
    findings.iter().find(|finding| finding.what.contains(word)).map(|finding| finding.severity)
}

/// Counts all keys and all leases of a server.
async fn stored(address: SocketAddr) -> (usize, usize) {
    let operator = Operator(address);
    (operator.keys("").await.expect("all keys").len(), operator.leases().await.expect("all leases").len())
}

#[tokio::test]
async fn a_server_in_order_is_described_and_nothing_is_left_on_it() {
    let Some(server) = Server::standalone_or_skip().await else { return };
    let backend = backend(server.address(), "");
    let findings = found(&backend, Scrutiny::Full).await;
    assert_eq!(severity_of(&findings, "runs etcd 3."), Some(Severity::Note), "{findings:?}");
    assert_eq!(severity_of(&findings, "one member"), Some(Severity::Note), "{findings:?}");
    assert!(findings.iter().all(|finding| finding.severity < Severity::Error), "{findings:?}");
    assert_eq!(stored(server.address()).await, (0, 0));

    // Whether the server at hand has the fault, its version says.
    let faults = found(&backend, Scrutiny::Brief).await;
    assert!(faults.iter().all(|fault| findings.contains(fault)), "{faults:?}");
    let left = backend.capabilities().weakened_by(&findings).exclusion;
    assert_eq!(left, if faults.is_empty() { Exclusion::Timed } else { Exclusion::BestEffort });
}

#[tokio::test]
async fn a_full_database_is_an_error_in_brief_too() {
    let Some(server) = Server::standalone_or_skip().await else { return };
    let alarm = json!({ "action": "ACTIVATE", "alarm": "NOSPACE" });
    Operator(server.address()).ask("/v3/maintenance/alarm", alarm).await.expect("an alarm");
    let backend = backend(server.address(), "");
    for scrutiny in [Scrutiny::Brief, Scrutiny::Full] {
        let findings = found(&backend, scrutiny).await;
        assert_eq!(severity_of(&findings, "is full"), Some(Severity::Error), "{findings:?}");
    }
}

#[tokio::test]
async fn a_cluster_without_a_quorum_is_an_error_beside_what_its_members_say() {
    let Some(server) = Server::standalone_or_skip().await else { return };
    // A second member that never comes: from now on two are needed.
    let member = json!({ "peerURLs": ["http://127.0.0.1:9"] });
    Operator(server.address()).ask("/v3/cluster/member/add", member).await.expect("a member");
    let backend = backend(server.address(), "?connect_timeout=2s&operation_timeout=2s");
    let findings = found(&backend, Scrutiny::Full).await;
    assert_eq!(severity_of(&findings, "no lock can be had now"), Some(Severity::Error), "{findings:?}");
    // It may know for a second yet how it is.
    let address = server.address().to_string();
    let of_member = findings.iter().find(|finding| finding.what.contains(&address)).expect("the member is told");
    assert!(of_member.severity < Severity::Error, "{findings:?}");
}

#[tokio::test]
async fn a_user_without_the_rights_is_told_the_command_that_grants_them() {
    let Some(server) = guarded().await else { return };
    let address = server.address();
    let rightful = found(&as_ann(address, ""), Scrutiny::Full).await;
    assert_eq!(severity_of(&rightful, "cannot lock"), None, "{rightful:?}");
    let elsewhere = found(&as_ann(address, "/elsewhere"), Scrutiny::Full).await;
    let refused = elsewhere.iter().find(|finding| finding.severity == Severity::Error).expect("an error");
    assert!(refused.what.contains("/elsewhere/"), "{refused}");
    assert!(refused.cure.contains("--prefix readwrite /elsewhere/"), "{refused}");
}

#[tokio::test]
async fn members_that_do_not_answer_or_are_of_another_cluster_are_found() {
    let Some(one) = Server::standalone_or_skip().await else { return };
    let mut other = Server::standalone().await.expect("a server");
    let url = format!("etcd://{},{}", one.address(), other.address());
    let backend = open(&url);
    let findings = found(&backend, Scrutiny::Full).await;
    assert_eq!(severity_of(&findings, "several clusters"), Some(Severity::Error), "{findings:?}");
    other.stop().await;
    let findings = found(&backend, Scrutiny::Full).await;
    assert_eq!(severity_of(&findings, &other.address().to_string()), Some(Severity::Warning), "{findings:?}");
    assert_eq!(severity_of(&findings, "several clusters"), None, "{findings:?}");
}

#[tokio::test]
async fn a_beginning_of_tokens_that_cannot_be_is_found() {
    let Some(server) = Server::standalone_or_skip().await else { return };
    let backend = backend(server.address(), "");
    Operator(server.address()).put(TOKENS_BEGIN, "soon").await.expect("written");
    let findings = found(&backend, Scrutiny::Full).await;
    assert_eq!(severity_of(&findings, "`/lockkeeper/e` is no number"), Some(Severity::Error), "{findings:?}");
    Operator(server.address()).put(TOKENS_BEGIN, &u64::MAX.to_string()).await.expect("written");
    let findings = found(&backend, Scrutiny::Full).await;
    assert_eq!(severity_of(&findings, "a clock that was ahead"), Some(Severity::Warning), "{findings:?}");
    soon("the answer", backend.admin().after_restore()).await.expect_err("the clock is behind the tokens");
}

#[tokio::test]
async fn tokens_that_are_counted_anew_grow_for_new_clients_and_for_those_that_live() {
    let Some(server) = Server::standalone_or_skip().await else { return };
    let keepers = [(); 2].map(|()| keeper(server.address(), ""));
    soon("the answer", keepers[0].admin().after_restore())
        .await
        .expect("there is nothing to do before the first session");
    let token = async |keeper: &Keeper| {
        let guard = soon("the grant", keeper.mutex("door").expect("a name").lock()).await.expect("the lock");
        let token = guard.fencing_token();
        soon("the release", guard.release()).await.expect("it is given back");
        token
    };
    let before = token(&keepers[0]).await;
    soon("the answer", keepers[1].admin().after_restore()).await.expect("tokens are counted anew");
    let living = token(&keepers[0]).await;
    let new = token(&keepers[1]).await;
    // As many as the clock has gone on by, and not one more as without it.
    assert!(living.as_u64() > before.as_u64() + (1 << 20), "{living} after {before}");
    assert!(new > living, "{new} after {living}");
}
