//! Findings of an examination of Apache's server, and that it leaves nothing.

use std::time::Duration;

use lockkeeper_conformance::soon;
use lockkeeper_core::{Backend, ErrorKind, Exclusion, Finding, Scrutiny, Severity};
use lockkeeper_faults::zookeeper::{Server, Setup};
use lockkeeper_zk_proto::message::Acl;
use lockkeeper_zookeeper::{NewNode, ZooKeeperBackend};

use super::SERVER;
use super::both::remnants::{findings_of, severity_of};
use crate::support::{Bench, way};

fn backend(servers: &str, settings: &str) -> ZooKeeperBackend {
    ZooKeeperBackend::open(&way::url(servers, settings)).unwrap()
}

async fn found(servers: &str, settings: &str) -> Vec<Finding> {
    findings_of(&backend(servers, settings)).await
}

#[tokio::test]
async fn a_server_in_order_is_described_and_nothing_is_left_on_it() {
    let Some(bench) = Bench::alone(SERVER).await else { return };
    let servers = bench.servers();
    let findings = found(&servers, "?tick=2s").await;
    for word in ["runs ZooKeeper 3.", "with a tick of 2s", "a timeout of 20s", "stands alone"] {
        assert_eq!(severity_of(&findings, word), Some(Severity::Note), "{findings:?}");
    }
    assert_eq!(findings.len(), 3, "{findings:?}");
    let without_tick = found(&servers, "").await;
    assert_eq!(severity_of(&without_tick, "half of the session timeout stands for it"), Some(Severity::Note));
    assert_eq!(bench.operator().await.get_children("/").await.unwrap().0, ["zookeeper"]);
    assert!(bench.ephemerals().await.is_empty());
}

#[tokio::test]
async fn a_timeout_that_was_clipped_and_a_tick_that_is_greater_than_believed_are_found() {
    if !SERVER.can_start() {
        return;
    }
    let server = Server::standalone(Setup::new().tick(Duration::from_secs(1))).await.unwrap();
    let backend = backend(&server.address().to_string(), "?session_timeout=1s&tick=500ms");
    // The session is so short that a busy machine may end it.
    let examined = async {
        loop {
            match backend.admin().examine(Scrutiny::Full).await {
                Ok(findings) => return findings,
                Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionLost, "{error}"),
            }
        }
    };
    let findings = soon("the findings", examined).await;
    assert_eq!(severity_of(&findings, "2s instead of 1s"), Some(Severity::Warning), "{findings:?}");
    assert_eq!(severity_of(&findings, "the URL says tick=500ms"), Some(Severity::Error), "{findings:?}");
    assert_eq!(backend.capabilities().weakened_by(&findings).exclusion, Exclusion::BestEffort);
}

#[tokio::test]
async fn a_user_without_the_rights_is_told_where_they_are_missing() {
    let Some(bench) = Bench::alone(SERVER).await else { return };
    let servers = bench.servers();
    let node = NewNode::persistent("/closed").with_acl(vec![Acl::readable()]);
    bench.operator().await.create(node).await.unwrap();
    for base in ["/closed", "/closed/deeper/still"] {
        let findings = found(&servers, &format!("?base={base}")).await;
        assert_eq!(severity_of(&findings, "below /closed (NoAuth)"), Some(Severity::Error), "{findings:?}");
    }
    assert_eq!(severity_of(&found(&servers, "").await, "NoAuth"), None);
}
