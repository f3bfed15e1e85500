//! The typed client on a real server.

use lockkeeper_conformance::{SOON, soon};
use lockkeeper_core::Advice;
use lockkeeper_zk_proto::message::{Acl, CreateMode, ErrorCode, WatchEventKind};
use lockkeeper_zookeeper::{ClientErrorKind, NewNode, TransactionResult};

use super::SERVER;
use crate::support::Bench;
use crate::support::way::client;

#[tokio::test]
async fn nodes_are_made_read_changed_listed_and_deleted() {
    let Some(bench) = Bench::start(SERVER).await else { return };
    let client = bench.operator().await;
    let made = client.create(NewNode::persistent("/a").with_data("one")).await.unwrap();
    assert_eq!((made.path.as_str(), made.stat.version), ("/a", 0));
    let numbered = client.create(NewNode::ephemeral_sequential("/a/n-")).await.unwrap();
    assert_eq!(numbered.path, "/a/n-0000000000");
    assert_eq!(numbered.stat.ephemeral_owner, client.session_id());
    let (data, stat) = client.get_data("/a").await.unwrap();
    assert_eq!((&data[..], stat.czxid), (&b"one"[..], made.stat.czxid));
    assert_eq!(client.set_data("/a", "two", Some(0)).await.unwrap().version, 1);
    let stale = client.set_data("/a", "three", Some(0)).await.unwrap_err();
    assert_eq!((stale.code(), stale.advice()), (Some(ErrorCode::BadVersion), Advice::Permanent));
    assert_eq!(client.get_children("/a").await.unwrap().0, ["n-0000000000"]);
    client.sync("/a").await.unwrap();
    assert_eq!(client.get_acl("/a").await.unwrap().0, [Acl::open()]);
    assert_eq!(client.set_acl("/a", vec![Acl::open()], None).await.unwrap().aversion, 1);
    assert!(client.delete("/a", None).await.unwrap_err().code() == Some(ErrorCode::NotEmpty));
    client.delete(&numbered.path, None).await.unwrap();
    client.delete("/a", Some(1)).await.unwrap();
    assert_eq!(client.exists("/a").await.unwrap(), None);
    let missing = client.get_data("/a").await.unwrap_err();
    assert_eq!(missing.to_string(), "getData /a: the server answered NoNode (-101)");
    let invalid = client.create(NewNode::new("/a/", CreateMode::Persistent)).await.unwrap_err();
    assert_eq!((invalid.kind(), invalid.path()), (ClientErrorKind::InvalidPath, "/a/"));
    soon("the end", client.close()).await.unwrap();
    assert_eq!(client.exists("/a").await.unwrap_err().kind(), ClientErrorKind::SessionLost);
}

#[tokio::test]
async fn a_transaction_is_done_whole_or_not_at_all_and_says_what_is_to_blame() {
    let Some(bench) = Bench::start(SERVER).await else { return };
    let client = bench.operator().await;
    client.create(NewNode::persistent("/a")).await.unwrap();
    let results = client
        .transaction()
        .check("/a", Some(0))
        .create(NewNode::persistent("/a/b"))
        .set_data("/a", "x", None)
        .commit()
        .await
        .unwrap();
    assert_eq!(results[..2], [TransactionResult::Checked, TransactionResult::Created("/a/b".to_owned())]);
    assert!(matches!(results[2], TransactionResult::DataSet(stat) if stat.version == 1));
    let refused = client.transaction().delete("/a/b", None).check("/a/c", None).delete("/a", None).commit().await;
    let refused = refused.unwrap_err();
    assert_eq!((refused.code(), refused.path()), (Some(ErrorCode::NoNode), "/a/c"));
    assert!(client.exists("/a/b").await.unwrap().is_some());
}

#[tokio::test]
async fn a_watch_tells_of_one_event_and_is_gone_when_it_is_dropped() {
    let Some(bench) = Bench::alone(SERVER).await else { return };
    let (ann, bob) = (client(bench.proxied(), "").await, bench.operator().await);
    let (absent, created) = ann.exists_and_watch("/a").await.unwrap();
    assert_eq!(absent, None);
    bob.create(NewNode::persistent("/a")).await.unwrap();
    let event = soon("the creation", created).await.unwrap();
    assert_eq!((event.path.as_str(), event.kind), ("/a", WatchEventKind::NodeCreated));
    let (children, _, changed) = ann.get_children_and_watch("/a").await.unwrap();
    assert!(children.is_empty());
    // What happens while there is no connection is told after the next one is made.
    bench.proxy.cut_and_refuse().await.unwrap();
    bob.create(NewNode::persistent("/a/b")).await.unwrap();
    bench.proxy.accept_again().await.unwrap();
    assert_eq!(soon("the change", changed).await.unwrap().kind, WatchEventKind::NodeChildrenChanged);
    let (_, _, dropped) = ann.get_data_and_watch("/a").await.unwrap();
    assert_eq!(bench.server.watches().await, 1);
    drop(dropped);
    let none = async || (bench.server.watches().await == 0).then_some(());
    lockkeeper_faults::wait::until("the end of the watch", SOON, none).await.unwrap();
    let (_, _, orphaned) = ann.get_data_and_watch("/a").await.unwrap();
    ann.close().await.unwrap();
    assert_eq!(soon("the end", orphaned).await.unwrap_err().kind(), ClientErrorKind::SessionLost);
}

#[tokio::test]
async fn a_chroot_is_all_that_a_client_sees() {
    let Some(bench) = Bench::start(SERVER).await else { return };
    let outer = bench.operator().await;
    outer.create(NewNode::persistent("/app")).await.unwrap();
    let inner = client(bench.servers(), "/app").await;
    let made = inner.create(NewNode::ephemeral_sequential("/n-")).await.unwrap();
    assert_eq!(made.path, "/n-0000000000");
    assert!(outer.exists("/app/n-0000000000").await.unwrap().is_some());
    assert_eq!(inner.get_children("/").await.unwrap().0, ["n-0000000000"]);
}
