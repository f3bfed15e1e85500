//! The end of a connection: every batch ends, and says truly whether it may have had an effect.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_faults::redis::Server;
use lockkeeper_session::{Effect, FailureKind, Lookable as _};
use redis::cmd;

use crate::connection::tests::support::{NOTHING, SOON, ask, deadline, open, soon, words};
use crate::connection::{Batch, Connection, LoadedScript};

/// How many batches wait when the connection is lost, and how long each is: more than the machine's buffers take.
const FLIGHTS: usize = 2_000;
const FLIGHT_BYTES: usize = 16 << 10;

fn add(number: usize) -> Batch {
    let mut command = cmd("SADD");
    command.arg("set").arg(format!("{number:0>FLIGHT_BYTES$}"));
    Batch::new().command(command)
}

/// Waits until the machine's buffers take no more.
async fn stalled(connection: &Connection) {
    let mut before = connection.meter.written();
    loop {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let written = connection.meter.written();
        if written == before && written > 0 {
            return;
        }
        before = written;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flight_that_never_left_had_no_effect_and_one_that_was_executed_may_have_had_one() {
    let Some(mut server) = Server::standalone_or_skip().await else { return };
    let connection = open(server.address()).await;
    for number in 0..10 {
        soon("an answer", connection.send(add(number))).await.expect("an answer");
    }
    server.pause().expect("it stands still");
    let batches: Vec<_> = (10..FLIGHTS).map(|number| (number, connection.send(add(number)))).collect();
    soon("full buffers", stalled(&connection)).await;
    connection.shut();
    let mut harmless = BTreeSet::new();
    for (number, batch) in batches {
        let failure = soon("the failure", batch).await.expect_err("the connection is lost");
        assert_eq!(failure.kind, FailureKind::Broken, "{failure}");
        if failure.effect == Effect::None {
            harmless.insert(number);
        }
    }
    soon("the end of the connection", connection.over()).await;
    assert!(!harmless.is_empty() && harmless.len() < FLIGHTS - 10, "{} of {FLIGHTS} had no effect", harmless.len());
    let after = soon("a late batch", connection.send(add(FLIGHTS))).await.expect_err("the connection is over");
    assert_eq!(after.effect, Effect::None);
    server.resume().expect("it goes on");
    let onlooker = open(server.address()).await;
    // It executes what had come in, until it finds that the connection has ended.
    let ended = async || {
        let list: String = redis::from_redis_value(ask(&onlooker, "CLIENT LIST").await).expect("a text");
        (list.lines().count() == 1).then_some(())
    };
    lockkeeper_faults::wait::until("the end of the other connection", SOON, ended).await.expect("it ends");
    let executed: Vec<String> = redis::from_redis_value(ask(&onlooker, "SMEMBERS set").await).expect("texts");
    let executed: BTreeSet<usize> = executed.iter().map(|number| number.parse().expect("a number")).collect();
    let false_ones: Vec<_> = executed.intersection(&harmless).collect();
    assert!(false_ones.is_empty(), "they are said to have had no effect, and were executed: {false_ones:?}");
    eprintln!("{} without effect, {} executed of {FLIGHTS}", harmless.len(), executed.len());
}

/// How often a connection is shut while batches are queued: of some dozens one would have a batch without an end.
const SHUT: usize = 200;

/// A driver that ends empties its queue, and what is queued at that moment may stay in it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flight_that_is_queued_while_its_connection_ends_is_not_left_without_an_answer() {
    let Some(server) = Server::standalone_or_skip().await else { return };
    for _ in 0..SHUT {
        let connection = Arc::new(open(server.address()).await);
        let queueing = connection.clone();
        let batches = tokio::spawn(async move {
            let mut batches = Vec::new();
            while !queueing.is_over() {
                batches.push(queueing.send(Batch::new().command(words("PING"))));
                tokio::task::yield_now().await;
            }
            batches
        });
        tokio::task::yield_now().await;
        connection.shut();
        for batch in soon("the batches", batches).await.expect("it does not panic") {
            let _ = soon("an answer or a failure", batch).await;
        }
    }
}

#[tokio::test]
async fn a_flight_with_a_deadline_is_late_and_goes_on() {
    let Some(mut server) = Server::standalone_or_skip().await else { return };
    let connection = open(server.address()).await;
    server.pause().expect("it stands still");
    let soon_late = lockkeeper_session::share(deadline().saturating_sub(SOON), deadline(), 500);
    let batch = connection.send_until(Batch::new().command(words("INCR key")), soon_late);
    let failure = soon("the deadline", batch).await.expect_err("it is late");
    assert_eq!((failure.kind, failure.effect), (FailureKind::Deadline, Effect::Unknown));
    server.resume().expect("it goes on");
    assert_eq!(ask(&connection, "GET key").await, redis::Value::BulkString(b"1".to_vec()));
}

#[tokio::test]
async fn a_server_that_lost_the_scripts_ends_the_connection_and_nothing_has_happened() {
    let Some(server) = Server::standalone_or_skip().await else { return };
    let (connection, other) = (open(server.address()).await, open(server.address()).await);
    let [kept, lost] =
        ["kept", "lost"].map(|name| LoadedScript::new(name, format!("return redis.call('INCR', '{name}')")));
    let loaded = Batch::new().load(&kept).load(&lost);
    soon("the load", connection.send(loaded)).await.expect("the scripts are there");
    ask(&other, "SCRIPT FLUSH").await;
    let told = connection.wait_for(b"lost").expect("a wait");
    let batch = connection.send(Batch::new().script(&lost, &["lost"], &NOTHING).tracked_get(&told));
    let failure = soon("the failure", batch).await.expect_err("the script is not there");
    assert_eq!((failure.kind, failure.effect), (FailureKind::Broken, Effect::None), "{failure}");
    soon("the end of the connection", connection.over()).await;

    let connection = open(server.address()).await;
    let batch = Batch::new().load(&kept).script(&kept, &["kept"], &NOTHING).script(&lost, &["lost"], &NOTHING);
    let failure = soon("the failure", connection.send(batch)).await.expect_err("one script is not there");
    assert_eq!(failure.effect, Effect::Unknown, "the other script was executed");
    assert_eq!(ask(&other, "GET kept").await, redis::Value::BulkString(b"1".to_vec()));
}

#[tokio::test]
async fn a_connection_ends_when_it_is_shut_or_dropped() {
    let Some(server) = Server::standalone_or_skip().await else { return };
    let [shut, dropped, onlooker] =
        [open(server.address()).await, open(server.address()).await, open(server.address()).await];
    shut.shut();
    soon("the end of the connection", shut.over()).await;
    drop(dropped);
    let alone = async || {
        let list: String = redis::from_redis_value(ask(&onlooker, "CLIENT LIST").await).expect("a text");
        assert!(list.contains("name=lockkeeper"), "{list}");
        (list.lines().count() == 1).then_some(())
    };
    lockkeeper_faults::wait::until("the end of the others", SOON, alone).await.expect("they end");
}
