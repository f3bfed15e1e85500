//! Batches are queued in the order of the calls, and stay together.

use std::sync::{Arc, Mutex};

use lockkeeper_faults::redis::Server;
use redis::{Value, cmd};

use crate::connection::tests::support::{ask, open, soon, words};
use crate::connection::{Batch, LoadedScript, answer};

/// How many batches are sent, by how many tasks.
const FLIGHTS: u32 = 40_000;
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
async fn flights_of_many_tasks_are_executed_in_the_order_of_the_calls() {
    let Some(server) = Server::standalone_or_skip().await else { return };
    let connection = Arc::new(open(server.address()).await);
    let called = Arc::new(Mutex::new(0));
    let mut tasks = Vec::new();
    for _ in 0..TASKS {
        let (connection, called) = (connection.clone(), called.clone());
        tasks.push(tokio::spawn(async move {
            let mut batches = Vec::new();
            for round in 0..FLIGHTS / TASKS {
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
    assert_eq!(numbers(ask(&connection, "LRANGE list 0 -1").await), (0..FLIGHTS).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_flight_that_is_given_up_is_executed_all_the_same() {
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
        .tracked_get(&told)
        .tracked_read("ZCARD", &told);
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
async fn nothing_of_another_flight_comes_between_a_script_and_its_tracked_read() {
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
                    let batch = Batch::new().script(&set, &["key"], &text).tracked_get(&told);
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
