//! Values on nodes: how other clients see them, and what becomes of them.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_conformance::{soon, until};
use lockkeeper_core::{Expected, Mode, Part, QueueName, Value, ValueVersion};
use lockkeeper_recipes::once::{Slot, SlotClaim};
use lockkeeper_zookeeper::NewNode;

use super::SERVER;
use crate::support::Bench;
use crate::support::waist::{Waist, line, queue};

async fn set(waist: &Waist, queue: &QueueName, expected: Expected, value: Option<&[u8]>) -> Option<ValueVersion> {
    let value = value.map(Arc::from);
    soon("the write", waist.session.values().set(queue, expected, value)).await.expect("it is written or not")
}

async fn get(waist: &Waist, queue: &QueueName) -> Option<Value> {
    soon("the read", waist.session.values().get(queue)).await.expect("it is read")
}

#[tokio::test]
async fn a_value_is_the_nodes_data_as_other_clients_write_and_read_it() {
    let Some(bench) = Bench::start(SERVER).await else { return };
    let (ann, operator) = (bench.neighbouring_waist("").await, bench.operator().await);
    let count = line("count");
    set(&ann, &count, Expected::Absent, Some(&[0, 0, 0, 7])).await.expect("there is none");
    let (data, stat) = operator.get_data("/lockkeeper/count").await.unwrap();
    assert_eq!(&data[..], [0, 0, 0, 7], "as Curator's SharedCount has it");
    assert_eq!(stat.ephemeral_owner, 0);
    let seen = get(&ann, &count).await.unwrap();
    operator.set_data("/lockkeeper/count", vec![0, 0, 0, 8], Some(stat.version)).await.unwrap();
    assert_eq!(set(&ann, &count, Expected::Version(seen.version), Some(b"9")).await, None);
    assert_eq!(&get(&ann, &count).await.unwrap().bytes[..], [0, 0, 0, 8]);
    let permits = queue("pool", Part::Permits);
    set(&ann, &permits, Expected::Any, Some(b"5")).await;
    assert_eq!(&operator.get_data("/lockkeeper/pool/leases").await.unwrap().0[..], b"5");
    let kazoo = bench.neighbouring_waist("?layout=kazoo").await;
    set(&kazoo, &permits, Expected::Any, Some(b"6")).await;
    assert_eq!(&operator.get_data("/lockkeeper/pool").await.unwrap().0[..], b"6", "as kazoo has max_leases");
}

#[tokio::test]
async fn a_value_stays_though_the_containers_of_its_queue_are_reaped() {
    let Some(bench) = Bench::reaping_every(SERVER, Duration::from_millis(100)).await else { return };
    let (ann, operator) = (bench.neighbouring_waist("").await, bench.operator().await);
    // A leftover of a queue, which the service would delete once a contender has stood there.
    operator.create(NewNode::container("/lockkeeper")).await.unwrap();
    operator.create(NewNode::container("/lockkeeper/count")).await.unwrap();
    set(&ann, &line("count"), Expected::Any, Some(b"7")).await.expect("with any value before");
    let (ticket, _) = ann.take(&line("count"), Mode::Member).await;
    ann.leave(&line("count"), ticket).await;
    // Other queues come and go after it, and their containers with them: the second one in a later round.
    for other in ["other", "another"] {
        let (ticket, _) = ann.take(&line(other), Mode::Mutex).await;
        ann.leave(&line(other), ticket).await;
        let node = format!("/lockkeeper/{other}");
        until("the reaping", async || operator.exists(&node).await.unwrap().is_none()).await;
    }
    assert_eq!(&get(&ann, &line("count")).await.unwrap().bytes[..], b"7");
}

#[tokio::test]
async fn a_slot_stays_used_up_though_the_node_of_its_lock_is_reaped() {
    let Some(bench) = Bench::reaping_every(SERVER, Duration::from_millis(100)).await else { return };
    let (ann, operator) = (bench.party(""), bench.operator().await);
    let (report, today) = (ann.keeper.once("report").unwrap(), Slot::named("2026-11-29").unwrap());
    let SlotClaim::Granted(guard) = soon("the slot", report.claim(&today)).await.unwrap() else { panic!("it is free") };
    soon("the release", guard.release()).await.unwrap();
    until("the reaping", async || operator.exists("/lockkeeper/report").await.unwrap().is_none()).await;
    let late = soon("an answer", report.claim(&today)).await.unwrap();
    assert!(matches!(late, SlotClaim::Taken), "{late:?}");
}

#[tokio::test]
async fn waits_that_are_dropped_leave_no_watch_at_the_server() {
    let Some(bench) = Bench::alone(SERVER).await else { return };
    let ann = bench.neighbouring_waist("").await;
    let (there, nowhere) = (queue("pool", Part::Permits), queue("nowhere", Part::Permits));
    let (ticket, _) = ann.take(&there, Mode::Permit).await;
    set(&ann, &there, Expected::Any, Some(b"5")).await;
    let value = get(&ann, &there).await.unwrap();
    let waits = async {
        for queue in [&there, &nowhere] {
            let (view, seen) = (ann.view(queue).await, (queue == &there).then_some(value.version));
            let (mut queue_wait, mut value_wait) =
                (ann.session.changed(queue, &view), ann.session.values().until_changed(queue, seen));
            until("the watches", async || bench.server.watches().await >= 2).await;
            tokio::select! {
                biased;
                _ = &mut queue_wait => panic!("the queue has not changed"),
                _ = &mut value_wait => panic!("the value has not changed"),
                // An answer of the service later than those of the waits.
                _ = ann.view(queue) => {}
            }
        }
    };
    waits.await;
    ann.leave(&there, ticket).await;
    until("the end of the watches", async || bench.server.watches().await == 0).await;
}
