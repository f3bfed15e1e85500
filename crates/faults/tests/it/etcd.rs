//! The harness of etcd against the real thing: each test needs Debian's packages, PyPI or root, and skips by name
//! without.

use std::sync::Arc;

use lockkeeper_faults::etcd::{Cluster, Release, Server, availability, availability_of};
use lockkeeper_faults::namespaces::{self, Network};
use lockkeeper_faults::wait::PATIENCE;

/// `key` and `value`, as etcd's gateway wants them.
const PUT: &str = r#"{"key":"a2V5","value":"dmFsdWU="}"#;
const RANGE: &str = r#"{"key":"a2V5"}"#;

async fn stores_the_key(server: &Server) -> bool {
    Server::ask(server.address(), "/v3/kv/range", RANGE).await.expect("an answer").contains("dmFsdWU=")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_of_each_release_goes_back_to_a_snapshot() {
    for release in Release::ALL {
        if !availability_of(release).or_skip_here() {
            return;
        }
        let mut server = Server::standalone_of(release).await.expect("a server");
        let folder = tempfile::tempdir().expect("a folder");
        let (empty, full) = (folder.path().join("empty"), folder.path().join("full"));
        server.save_snapshot(&empty).expect("saved");
        Server::ask(server.address(), "/v3/kv/put", PUT).await.expect("stored");
        server.save_snapshot(&full).expect("saved");
        server.restore_snapshot(&empty).await.expect("restored");
        assert!(!stores_the_key(&server).await, "{release:?}");
        server.restore_snapshot(&full).await.expect("restored");
        assert!(stores_the_key(&server).await, "{release:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_is_cut_off_from_its_peers_is_replaced_and_still_answers() {
    if !availability().and(namespaces::availability).or_skip_here() {
        return;
    }
    let network = Arc::new(Network::new(3).expect("a network"));
    let mut cluster = Cluster::start_in(&network, Release::Debian).await.expect("a cluster");
    let first = cluster.leader().await.expect("a leader");
    network.isolate(first).expect("cut");
    cluster.other_leader(first, PATIENCE).await.expect("another leader");
    let member = r#"{"key":"a2V5","serializable":true}"#;
    Server::ask(cluster.addresses()[first], "/v3/kv/range", member).await.expect("an answer");
    network.heal(first).expect("healed");
    cluster.serving().await.expect("all serve");
}
