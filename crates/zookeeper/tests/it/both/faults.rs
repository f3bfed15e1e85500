//! Faults between a holder, a waiter and their server.

use std::time::Duration;

use lockkeeper_conformance::{SOON, granted, is_joined, soon};
use lockkeeper_core::ErrorKind;
use lockkeeper_faults::proxy::{AfterDrop, Operation};
use lockkeeper_recipes::Event;
use lockkeeper_zookeeper::NewNode;

use super::SERVER;
use crate::support::Bench;

fn is_rejoining(event: &Event) -> bool {
    matches!(event, Event::Rejoining { .. })
}

#[tokio::test]
async fn a_restart_of_the_server_costs_neither_holder_nor_waiter_its_place() {
    let Some(mut bench) = Bench::alone(SERVER).await else { return };
    // As long as a server takes to start on a busy machine.
    let (ann, bob) = (bench.party("?session_timeout=40s"), bench.party("?session_timeout=40s"));
    let guard = ann.keeper.mutex("reports").unwrap().lock().await.unwrap();
    let waiting = bob.queue_up("reports").await;
    let mut before = bench.owned_ephemerals().await;
    before.sort();
    assert_eq!(before.len(), 2);
    bench.server.restart().await;
    // Both are back when the proxy carries two connections again.
    let back = async || (bench.proxy.connections() >= 2).then_some(());
    lockkeeper_faults::wait::until("both clients", SOON, back).await.unwrap();
    assert!(guard.hold().is_held());
    let token = guard.fencing_token();
    soon("the release", guard.release()).await.unwrap();
    let next = granted(waiting).await;
    let after = bench.owned_ephemerals().await;
    assert_eq!(after.len(), 1);
    assert!(before.contains(&after[0]), "the same session and the same node: {before:?} {after:?}");
    assert!(next.fencing_token() > token);
    assert_eq!(bob.journal.count(is_rejoining) + ann.journal.count(is_rejoining), 0);
    assert_eq!(bob.journal.count(is_joined), 1);
}

#[tokio::test]
async fn a_waiter_removed_together_with_the_one_ahead_during_an_outage_is_not_granted() {
    let Some(bench) = Bench::start(SERVER).await else { return };
    let (ann, bob) = (bench.party(""), bench.neighbour(""));
    let held = bob.keeper.mutex("reports").unwrap().lock().await.unwrap();
    let waiting = ann.queue_up("reports").await;
    let operator = bench.operator().await;
    let ours = ann.keeper.contenders("reports").await.unwrap()[1].id.clone();
    bench.proxy.cut_and_refuse().await.unwrap();
    operator.delete(&format!("/lockkeeper/reports/{ours}"), None).await.unwrap();
    held.release().await.unwrap();
    bench.proxy.accept_again().await.unwrap();
    let error = soon("the refusal", waiting).await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Removed);
}

#[tokio::test]
async fn a_release_whose_reply_is_lost_is_done_and_answered() {
    let Some(bench) = Bench::start(SERVER).await else { return };
    let (ann, bob) = (bench.party("?session_timeout=40s"), bench.neighbour(""));
    let held = ann.keeper.mutex("reports").unwrap().lock().await.unwrap();
    let waiting = bob.queue_up("reports").await;
    let lost = bench.proxy.drop_next_reply(Operation::DELETE, AfterDrop::Close);
    soon("the release", held.release()).await.expect("the lock was held, and is free");
    lost.happened(SOON).await.expect("a reply was lost");
    let next = granted(waiting).await;
    assert_eq!(bob.contenders("reports").await, 1, "the next one alone");
    soon("the release", next.release()).await.unwrap();
}

#[tokio::test]
async fn a_queues_node_that_the_service_reaps_is_made_again() {
    let Some(bench) = Bench::reaping_every(SERVER, Duration::from_millis(100)).await else { return };
    let ann = bench.party("");
    let mutex = ann.keeper.mutex("reports").unwrap();
    let operator = bench.operator().await;
    let mut tokens = Vec::new();
    for _ in 0..3 {
        let guard = soon("the grant", mutex.lock()).await.unwrap();
        tokens.push(guard.fencing_token());
        guard.release().await.unwrap();
        let reaped = async || operator.exists("/lockkeeper").await.unwrap().is_none().then_some(());
        lockkeeper_faults::wait::until("the reaping", SOON, reaped).await.unwrap();
    }
    assert!(tokens.is_sorted_by(|earlier, later| earlier < later), "{tokens:?}");
}

#[tokio::test]
async fn what_was_asked_for_is_refused_in_one_clear_line() {
    // The root is where the service's own nodes are.
    let Some(bench) = Bench::alone(SERVER).await else { return };
    let operator = bench.operator().await;
    for path in ["/lockkeeper", "/lockkeeper/foreign", "/lockkeeper/kind", "/lockkeeper/closed"] {
        operator.create(NewNode::persistent(path)).await.unwrap();
    }
    operator.create(NewNode::ephemeral_sequential("/lockkeeper/foreign/x-")).await.unwrap();
    operator.create(NewNode::ephemeral_sequential("/lockkeeper/kind/a-latch-")).await.unwrap();
    operator.create(NewNode::persistent("/lockkeeper/kind/junk")).await.unwrap();
    let acl = vec![lockkeeper_zk_proto::message::Acl::readable()];
    operator.set_acl("/lockkeeper/closed", acl, None).await.unwrap();
    let nodes = bench.ephemerals().await.len();
    for (settings, name, kind, word) in [
        ("", "foreign", ErrorKind::ForeignContender, "x-0000000000"),
        ("", "kind", ErrorKind::KindMismatch, "in use as an election"),
        ("", "closed", ErrorKind::Refused, "NoAuth"),
        ("/nowhere/deep", "any", ErrorKind::InvalidConfig, "/nowhere/deep"),
        ("", "/zookeeper/quota", ErrorKind::InvalidName, "/zookeeper/quota"),
    ] {
        let ann = bench.party(settings);
        let error = soon(name, ann.keeper.mutex(name).unwrap().lock()).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        let line = format!("{error:#}");
        assert!(line.contains(word) && !line.contains('\n'), "{line}");
        bench.until_ephemerals(nodes).await;
    }
    let ann = bench.party("?foreign=ignore");
    soon("the grant", ann.keeper.mutex("foreign").unwrap().lock()).await.unwrap().release().await.unwrap();
    let bob = bench.party("?foreign=wait");
    assert!(bob.keeper.mutex("foreign").unwrap().try_lock().await.unwrap().is_none());
}
