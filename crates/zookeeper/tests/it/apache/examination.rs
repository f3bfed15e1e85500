//! What an examination of Apache's server finds, and that it leaves nothing.

use std::time::Duration;

use lockkeeper_conformance::soon;
use lockkeeper_core::{Backend, ErrorKind, Exclusion, Finding, Scrutiny, Severity};
use lockkeeper_faults::zookeeper::{Ensemble, Server, Setup};
use lockkeeper_zk_proto::message::Acl;
use lockkeeper_zookeeper::{NewNode, ZooKeeperBackend};

use super::SERVER;
use super::remnants::{findings_of, severity_of};
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
            match backend.examine(Scrutiny::Full).await {
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
async fn a_word_that_a_server_does_not_answer_is_a_note_that_says_how_to_allow_it() {
    if !SERVER.can_start() {
        return;
    }
    let server = Server::standalone(Setup::new().entry("4lw.commands.whitelist", "srvr")).await.unwrap();
    let findings = found(&server.address().to_string(), "").await;
    let told = findings.iter().find(|finding| finding.what.contains("does not answer `conf`")).expect("it is told");
    assert!(told.severity == Severity::Note && told.cure.contains("4lw.commands.whitelist"), "{told}");
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

#[tokio::test]
async fn an_ensemble_is_told_from_servers_that_stand_alone() {
    if !SERVER.can_start() {
        return;
    }
    let setup = || Setup::new().tick(Duration::from_millis(500));
    let ensemble = Ensemble::start(3, setup()).await.unwrap();
    let all = ensemble.connect_string();
    let worse_than_a_note = |findings: &[Finding]| -> Vec<String> {
        let told = findings.iter().filter(|finding| finding.severity > Severity::Note);
        told.map(ToString::to_string).collect()
    };
    let findings = found(&all, "?session_timeout=10s&tick=500ms").await;
    assert_eq!(worse_than_a_note(&findings), [""; 0]);
    assert_eq!(severity_of(&findings, "(leader)"), Some(Severity::Note), "{findings:?}");
    let one = all.split(',').next().unwrap();
    let findings = found(one, "?session_timeout=10s&tick=500ms").await;
    assert_eq!(severity_of(&findings, "one server of an ensemble of 3"), Some(Severity::Warning), "{findings:?}");

    let alone = Server::standalone(setup()).await.unwrap();
    let findings = found(&format!("{all},{}", alone.address()), "?session_timeout=10s&tick=500ms").await;
    assert_eq!(severity_of(&findings, "one lock several times"), Some(Severity::Error), "{findings:?}");
    let findings = found(&format!("{all},127.0.0.1:1"), "?session_timeout=10s&tick=500ms").await;
    assert_eq!(severity_of(&findings, "127.0.0.1:1 cannot be reached"), Some(Severity::Warning), "{findings:?}");
}
