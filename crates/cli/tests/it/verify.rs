//! `lockkeeper verify`: histories that are right, that are not, and that are none.

use std::fs;
use std::sync::Arc;

use lockkeeper::history::HistoryFile;
use lockkeeper::{Handoff, Keeper};

use crate::support::{Ended, Place, finish};

fn verify(arguments: &[&str]) -> Ended {
    finish(&mut Place::new().command(&[&["verify"], arguments].concat()))
}

/// Writes the history of tasks that take turns, by two keepers of one service.
async fn write_history(path: &std::path::Path) {
    let service = lockkeeper::testing::MemoryService::new(Arc::new(lockkeeper::clock::SystemClock));
    let keeper = |handoff| {
        let file = HistoryFile::append(path).expect("the folder is there");
        service.keeper_builder().handoff(handoff).observer(Arc::new(file)).build()
    };
    let keepers: [Keeper; 2] = [keeper(Handoff::default()), keeper(Handoff::local())];
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..40 {
        let keeper = keepers[number % 2].clone();
        tasks.spawn(async move {
            let book = keeper.rw_lock("book").expect("a name");
            match number % 3 {
                0 => drop(book.read().await.expect("it is granted")),
                1 => drop(book.write().await.expect("it is granted").downgrade().await.expect("it is held")),
                _ => book.write().await.expect("it is granted").release().await.expect("it is held"),
            }
            let pool = keeper.semaphore("pool", 2).expect("a name");
            drop(pool.acquire().await.expect("it is granted"));
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.expect("no task fails");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_history_of_tasks_that_take_turns_is_right_and_one_with_a_second_holder_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("locks.jsonl");
    write_history(&path).await;
    let file = path.to_str().unwrap();
    let ended = verify(&[file]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stdout.contains("grants of 2 locks: no promise was broken\n"), "{ended:?}");

    // Another process with a later token says that it was granted the lock while the first one wrote.
    let history = fs::read_to_string(&path).unwrap();
    let is_write = |line: &&str| line.contains(r#""event":"granted""#) && line.contains(r#""mode":"write""#);
    let granted = history.lines().find(is_write).expect("one wrote");
    let mut second: serde_json::Value = serde_json::from_str(granted).unwrap();
    second["process"] = "intruder".into();
    second["token"] = "9000000000000000".into();
    second["at_ns"] = (second["at_ns"].as_u64().unwrap() + 1).into();
    let planted = history.replacen(granted, &format!("{granted}\n{second}"), 1);
    fs::write(&path, format!("{planted}{}", &granted[..20])).unwrap();
    let ended = verify(&[file, "--json"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let found = ended.json();
    assert_eq!(found["torn_lines"], 1, "{found}");
    let broken = found["broken"].as_array().unwrap();
    assert!(broken.iter().any(|broken| broken["promise"] == "two_holders"), "{found}");
    let ended = verify(&[file]);
    assert!(ended.stdout.contains("book: held by two for "), "{ended:?}");
}

#[test]
fn a_file_that_is_missing_or_no_history_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notes.txt");
    for (content, expected) in [(None, "No such file"), (Some("hello\n"), "no line of a history")] {
        if let Some(content) = content {
            fs::write(&path, content).unwrap();
        }
        let ended = verify(&[path.to_str().unwrap()]);
        assert_eq!(ended.code, Some(125), "{ended:?}");
        assert!(ended.stderr.contains("notes.txt") && ended.stderr.contains(expected), "{ended:?}");
    }
}
