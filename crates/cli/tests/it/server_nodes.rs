//! `server` beside Curator as it comes: nodes that the server removes by itself.

use std::time::Duration;

use lockkeeper_faults::peers::{Kind, Peer, curator};

use crate::server::Server;
use crate::support::{PATIENCE, Place, can_run};

const SESSION_TIMEOUT: Duration = Duration::from_secs(40);
/// How long a node of these tests lives untouched: longer than a machine stands still.
const TIME_TO_LIVE: Duration = Duration::from_secs(4);
/// When a node is gone that was left untouched from the beginning.
const LONGER: Duration = Duration::from_secs(6);

/// A server that looks every 10 ms for nodes to remove, and Curator; `None` where Curator cannot run.
async fn curator_on_our_server(place: &Place) -> Option<(Server, Peer)> {
    if !can_run(curator::availability()) {
        return None;
    }
    let server = Server::start(place, &["--container-check", "10ms"]);
    let address = server.url().strip_prefix("zk://").expect("its URL").to_owned();
    let curator = curator::start(&address, SESSION_TIMEOUT).await.expect("Curator");
    Some((server, curator))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_containers_of_curators_locks_disappear_when_they_are_no_longer_in_use() {
    let place = Place::new();
    let Some((server, mut curator)) = curator_on_our_server(&place).await else { return };
    // Of each lock the parent of the holder's node comes first; a semaphore's gate is free again, and may be gone.
    for (kind, nodes) in [
        (Kind::Mutex, &["/mutex"][..]),
        (Kind::Read, &["/read"]),
        (Kind::Write, &["/write"]),
        (Kind::Semaphore { permits: 2 }, &["/semaphore/leases", "/semaphore/locks", "/semaphore"]),
    ] {
        let path = nodes.last().expect("a path");
        assert!(curator.lock(kind, path, PATIENCE).await.unwrap(), "{path}");
        assert!(curator.exists(nodes[0]).await.unwrap(), "{} is there while the lock is held", nodes[0]);
        curator.release(kind, path).await.unwrap();
        for node in nodes {
            assert!(curator.is_gone(node, PATIENCE).await.unwrap(), "{node} is left");
        }
        // Curator makes the containers again.
        assert!(curator.lock(kind, path, PATIENCE).await.unwrap(), "{path}");
        curator.release(kind, path).await.unwrap();
    }
    assert_eq!(server.stop(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_with_a_time_to_live_is_there_while_curator_keeps_it_and_tells_its_parents_watchers_nothing() {
    let place = Place::new();
    let Some((server, mut curator)) = curator_on_our_server(&place).await else { return };
    curator.keep_ttl_node("/kept", TIME_TO_LIVE).await.unwrap();
    curator.count_updates("/").await.unwrap();
    assert!(!curator.is_gone("/kept", LONGER).await.unwrap(), "it went while it was kept");
    assert_eq!(curator.updates("/").await.unwrap(), 0);
    curator.leave_ttl_node("/kept").await.unwrap();
    assert!(curator.is_gone("/kept", PATIENCE).await.unwrap(), "it stays though it was left");
    assert_eq!(server.stop(), Some(0));
}
