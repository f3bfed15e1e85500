//! Batches are queued in the order of the calls, and stay together; at the end of a connection each says truly whether
//! it may have had an effect. A wait is told of each change after its read, and of the end of its connection.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockkeeper_core::BoxFuture;
use lockkeeper_faults::redis::Server;
use lockkeeper_session::{Effect, Failure, FailureKind, Lookable as _};
use redis::{Value, cmd};

use crate::connection::tests::{NOTHING, SOON, ask, deadline, open, soon, words};
use crate::connection::{Batch, Connection, KeyWait, KeyWake, LoadedScript, answer};

/// How many batches are sent, by how many tasks.
const APPENDED: u32 = 40_000;
const TASKS: u32 = 8;

fn append(number: u32) -> Batch {
    let mut command = cmd("RPUSH");
    command.arg("list").arg(number);
    Batch::new().command(command)
}

fn numbers(value: Value) -> Vec<u32> {
    redis::from_redis_value(value).expect("numbers")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn batches_of_many_tasks_are_executed_in_the_order_of_the_calls() {
    let Some(server) = Server::standalone_or_skip().await else { return };
    let connection = Arc::new(open(server.address()).await);
    let called = Arc::new(Mutex::new(0));
    let mut tasks = Vec::new();
    for _ in 0..TASKS {
        let (connection, called) = (connection.clone(), called.clone());
        tasks.push(tokio::spawn(async move {
            let mut batches = Vec::new();
            for round in 0..APPENDED / TASKS {
                {
                    let mut called = called.lock().unwrap();
                    batches.push(connection.send(append(*called)));
                    *called += 1;
                }
                if round % 64 == 0 {
                    tokio::task::yield_now().await;
                }
            }
            // They are answered in any order, as their tasks ask.
            for batch in batches.into_iter().rev() {
                soon("an answer", batch).await.expect("an answer");
            }
        }));
    }
    for task in tasks {
        soon("the end of a task", task).await.expect("a task");
    }
    assert_eq!(numbers(ask(&connection, "LRANGE list 0 -1").await), (0..APPENDED).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_batch_that_is_given_up_is_executed_all_the_same() {
    let Some(server) = Server::standalone_or_skip().await else { return };
    let connection = open(server.address()).await;
    for number in 0..1_000 {
        drop(connection.send(append(number)));
    }
    assert_eq!(numbers(ask(&connection, "LRANGE list 0 -1").await), (0..1_000).collect::<Vec<_>>());
}

#[tokio::test]
async fn each_command_has_its_answer_and_a_refusal_stands_in_its_place() {
    let Some(server) = Server::standalone_or_skip().await else { return };
    let connection = open(server.address()).await;
    let set = LoadedScript::new("set", "redis.call('SET', KEYS[1], ARGV[1]); return ARGV[2]");
    let told = connection.wait_for(b"key").expect("a wait");
    let batch = Batch::new()
        .load(&set)
        .script(&set, &["key"], &["value", "done"])
        .command(words("LPUSH key x"))
        .tracked("GET", told.key())
        .tracked("ZCARD", told.key());
    let answers = soon("the answers", connection.send(batch)).await.expect("answers");
    let [_, done, refused, read, miscalled] = &answers[..] else { panic!("{answers:?}") };
    assert_eq!(*done, Value::BulkString(b"done".to_vec()));
    assert_eq!(*read, Value::BulkString(b"value".to_vec()));
    for refused in [refused, miscalled] {
        let failure = answer(refused.clone(), "LPUSH").expect_err("the key has text");
        assert!(failure.to_string().contains("WRONGTYPE"), "{failure}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_of_another_batch_comes_between_a_script_and_its_tracked_read() {
    let Some(server) = Server::standalone_or_skip().await else { return };
    let connection = Arc::new(open(server.address()).await);
    let set = Arc::new(LoadedScript::new("set", "return redis.call('SET', KEYS[1], ARGV[1])"));
    soon("the load", connection.send(Batch::new().load(&set))).await.expect("the script is there");
    let tasks: Vec<_> = (0..64)
        .map(|task| {
            let (connection, set) = (connection.clone(), set.clone());
            tokio::spawn(async move {
                for round in 0..100 {
                    let told = connection.wait_for(b"key").expect("a wait");
                    let text = format!("{task}-{round}");
                    let batch = Batch::new().script(&set, &["key"], &text).tracked("GET", told.key());
                    let answers = soon("the answers", connection.send(batch)).await.expect("answers");
                    assert_eq!(answers, [Value::Okay, Value::BulkString(text.into_bytes())]);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("a task");
    }
}

/// How many batches wait when the connection is lost, and how long each is: more than the machine's buffers take.
const BATCHES: usize = 2_000;
const BATCH_BYTES: usize = 16 << 10;

fn add(number: usize) -> Batch {
    let mut command = cmd("SADD");
    command.arg("set").arg(format!("{number:0>BATCH_BYTES$}"));
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
async fn a_batch_that_never_left_had_no_effect_and_one_that_was_executed_may_have_had_one() {
    let Some(mut server) = Server::standalone_or_skip().await else { return };
    let connection = open(server.address()).await;
    for number in 0..10 {
        soon("an answer", connection.send(add(number))).await.expect("an answer");
    }
    server.pause().expect("it stands still");
    let batches: Vec<_> = (10..BATCHES).map(|number| (number, connection.send(add(number)))).collect();
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
    assert!(!harmless.is_empty() && harmless.len() < BATCHES - 10, "{} of {BATCHES} had no effect", harmless.len());
    let after = soon("a late batch", connection.send(add(BATCHES))).await.expect_err("the connection is over");
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
    eprintln!("{} without effect, {} executed of {BATCHES}", harmless.len(), executed.len());
}

/// How often a connection is shut while batches are queued: of some dozens one would have a batch without an end.
const SHUT: usize = 200;

/// A driver that ends empties its queue, and what is queued at that moment may stay in it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_that_is_queued_while_its_connection_ends_is_not_left_without_an_answer() {
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
async fn a_batch_with_a_deadline_is_late_and_goes_on() {
    let Some(mut server) = Server::standalone_or_skip().await else { return };
    let connection = open(server.address()).await;
    server.pause().expect("it stands still");
    let soon_late = lockkeeper_session::share(deadline().saturating_sub(SOON), deadline(), 500);
    let batch = connection.send_until(Batch::new().command(words("INCR key")), soon_late);
    let failure = soon("the deadline", batch).await.expect_err("it is late");
    assert_eq!((failure.kind, failure.effect), (FailureKind::Deadline, Effect::Unknown));
    server.resume().expect("it goes on");
    assert_eq!(ask(&connection, "GET key").await, Value::BulkString(b"1".to_vec()));
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
    let batch = connection.send(Batch::new().script(&lost, &["lost"], &NOTHING).tracked("GET", told.key()));
    let failure = soon("the failure", batch).await.expect_err("the script is not there");
    assert_eq!((failure.kind, failure.effect), (FailureKind::Broken, Effect::None), "{failure}");
    soon("the end of the connection", connection.over()).await;

    let connection = open(server.address()).await;
    let batch = Batch::new().load(&kept).script(&kept, &["kept"], &NOTHING).script(&lost, &["lost"], &NOTHING);
    let failure = soon("the failure", connection.send(batch)).await.expect_err("one script is not there");
    assert_eq!(failure.effect, Effect::Unknown, "the other script was executed");
    assert_eq!(ask(&other, "GET kept").await, Value::BulkString(b"1".to_vec()));
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

const RACES: u32 = 5_000;

/// Queues a read of a key, with a wait for its change.
fn reading(connection: &Connection, key: &str) -> (BoxFuture<Result<Vec<Value>, Failure>>, KeyWait) {
    let told = connection.wait_for(key.as_bytes()).expect("a wait");
    (connection.send(Batch::new().tracked("GET", told.key())), told)
}

async fn track(connection: &Connection, key: &str) -> (Value, KeyWait) {
    let (read, told) = reading(connection, key);
    let mut answers = soon("the read", read).await.expect("the read");
    (answers.pop().expect("an answer"), told)
}

#[tokio::test]
async fn whatever_changes_a_key_wakes_the_wait() {
    let Some(server) = Server::standalone_or_skip().await else { return };
    let (connection, other) = (open(server.address()).await, open(server.address()).await);
    for (before, change) in [
        ("SET key value", "DEL key"),
        // One that is not there comes.
        ("DEL key", "SET key value"),
        ("SET key value", "FLUSHALL"),
        // By itself.
        ("SET key value PX 100", "PING"),
    ] {
        ask(&other, before).await;
        let (value, told) = track(&connection, "key").await;
        assert_eq!(value == Value::Nil, before.starts_with("DEL"));
        ask(&other, change).await;
        assert_eq!(soon(change, told).await, KeyWake::Changed);
    }
}

#[tokio::test]
async fn a_key_that_a_script_of_the_same_connection_deletes_wakes_the_wait() {
    let Some(server) = Server::standalone_or_skip().await else { return };
    let connection = open(server.address()).await;
    let removal = LoadedScript::new("removal", "return redis.call('DEL', KEYS[1])");
    ask(&connection, "SET key value").await;
    let (_, told) = track(&connection, "key").await;
    let batch = Batch::new().load(&removal).script(&removal, &["key"], &NOTHING);
    soon("the script", connection.send(batch)).await.expect("an answer");
    assert_eq!(soon("the deletion", told).await, KeyWake::Changed);
}

#[tokio::test]
async fn the_end_of_the_connection_wakes_the_wait_and_says_so() {
    let Some(mut server) = Server::standalone_or_skip().await else { return };
    let connection = open(server.address()).await;
    let (_, told) = track(&connection, "key").await;
    server.kill();
    assert_eq!(soon("the end of the connection", told).await, KeyWake::ConnectionOver);
    soon("the end of the connection", connection.over()).await;
    assert!(connection.is_over());
    let late = connection.wait_for(b"key").expect("a wait");
    assert_eq!(soon("the end of the connection", late).await, KeyWake::ConnectionOver);
}

/// The read and the deletion reach the server in either order: the read finds nothing, or the wait is told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_deletion_that_races_a_read_is_lost() {
    let Some(server) = Server::standalone_or_skip().await else { return };
    let (connection, other) = (open(server.address()).await, open(server.address()).await);
    let (mut gone, mut told_of) = (0, 0);
    for race in 0..RACES {
        ask(&other, "SET key value").await;
        let delete = || other.send(Batch::new().command(words("DEL key")));
        let (deletion, (read, told)) = match race % 2 {
            0 => (delete(), reading(&connection, "key")),
            _ => {
                let read = reading(&connection, "key");
                (delete(), read)
            }
        };
        match soon("the read", read).await.expect("the read")[..] {
            [Value::Nil] => gone += 1,
            _ => {
                assert_eq!(soon(&format!("the deletion of race {race}"), told).await, KeyWake::Changed);
                told_of += 1;
            }
        }
        soon("the deletion", deletion).await.expect("the deletion");
    }
    eprintln!("{RACES} races: gone before the read {gone}, told {told_of}");
    assert!(gone > 0 && told_of > 0, "both orders came up: {gone} and {told_of}");
}
