//! A wait is told of each change after its read, by whichever connection, and of the end of its connection.

use lockkeeper_core::BoxFuture;
use lockkeeper_faults::redis::Server;
use lockkeeper_session::{Failure, Lookable as _};
use redis::Value;

use crate::connection::tests::support::{NOTHING, ask, open, soon, words};
use crate::connection::{Batch, Connection, KeyWait, KeyWake, LoadedScript};

const RACES: u32 = 5_000;

/// Queues a read of a key, with a wait for its change.
fn reading(connection: &Connection, key: &str) -> (BoxFuture<Result<Vec<Value>, Failure>>, KeyWait) {
    let told = connection.wait_for(key.as_bytes()).expect("a wait");
    (connection.send(Batch::new().tracked_get(&told)), told)
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
    let bury = LoadedScript::new("bury", "return redis.call('DEL', KEYS[1])");
    ask(&connection, "SET key value").await;
    let (_, told) = track(&connection, "key").await;
    let batch = Batch::new().load(&bury).script(&bury, &["key"], &NOTHING);
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
