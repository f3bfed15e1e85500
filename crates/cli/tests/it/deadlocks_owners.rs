//! `deadlocks` of two processes, each of which takes its locks by one owner key, from different tasks.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use lockkeeper::OwnerKey;
use lockkeeper_faults::figures;
use serde_json::json;

use crate::crossing::{looked_in_time, place_of, shell, the_one};
use crate::services::Service;
use crate::support::{Place, Running, finish};

/// What such a process is told: its service, the lock that it holds, the one that it asks for, and where it notes that
/// it holds and learns that both do.
const PART: [&str; 4] = ["OWNER_SERVICE", "OWNER_HOLDS", "OWNER_WANTS", "OWNER_NOTES"];

/// How often such a process looks whether it is its time.
const LOOKS_EACH: Duration = Duration::from_millis(10);

/// This is no test of its own: the other tests of this file run it as their processes.
#[tokio::test]
async fn the_part_of_one_process() {
    let [Ok(service), Ok(holds), Ok(wants), Ok(notes)] = PART.map(std::env::var) else { return };
    let keeper = lockkeeper::connect(&service).unwrap();
    let [first, second] = [&holds, &wants].map(|lock| keeper.mutex(lock).unwrap());
    let owner = OwnerKey::new();
    let held = owner.lock(&first).await.unwrap();
    std::fs::write(Path::new(&notes).join(&holds), "1\n").unwrap();
    while !Path::new(&notes).join("go").exists() {
        tokio::time::sleep(LOOKS_EACH).await;
    }
    // Another task, so that it is the key that the two have in common.
    let mut asking = tokio::spawn(async move { owner.lock(&second).await.map(drop) });
    tokio::select! {
        granted = &mut asking => granted.unwrap().unwrap(),
        // It is asked to give up, as the way out says.
        _ = held.hold().revoked() => asking.abort(),
    }
    held.release().await.unwrap();
    keeper.close().await.unwrap();
}

/// Two processes that take two locks in opposite orders are known in time, with the right chain.
fn two_processes_are_known(place: &Place, service: &str, who: &str) {
    let mut processes = Vec::new();
    for (holds, wants) in [("door", "gate"), ("gate", "door")] {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "deadlocks_owners::the_part_of_one_process"]);
        command.envs(PART.into_iter().zip([service, holds, wants, place.notes().to_str().unwrap()]));
        processes.push((holds, Running::start(&mut command)));
        place.note(holds);
    }
    place.write("go", "");
    for lock in ["door", "gate"] {
        place.until_contenders(lock, 2);
    }
    let (looked, took) = looked_in_time(place);
    figures::tell(&format!("deadlocks, owner keys on {who}: known after {:.2} s", took.as_secs_f64()));
    assert_eq!((looked.code, &*looked.stderr), (Some(1), ""), "{looked:?}");
    let found = the_one(&looked.json());
    assert_eq!((&found["verdict"], &found["certainty"]), (&json!("known"), &json!("same-owner")), "{found}");
    let chain = found["chain"].as_array().unwrap();
    assert_eq!((chain.len(), found["core"].as_array().unwrap().len()), (2, 4), "{found}");
    for (lock, process) in &processes {
        let at = chain.iter().position(|link| link["lock"] == **lock).expect("its lock is in the chain");
        let (link, next) = (&chain[at], &chain[1 - at]);
        assert_eq!((&link["state"], &link["joined"]), (&json!("holds"), &json!("owner-key")), "{found}");
        for pid in [&link["ahead"]["owner"]["pid"], &next["waiter"]["owner"]["pid"]] {
            assert_eq!(*pid, process.id(), "{found}");
        }
    }
    let text = place.run(&["deadlocks"]).stdout;
    let orders: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("    ")).collect();
    let [order] = orders[..] else { panic!("{text}") };
    assert_eq!(finish(&mut shell(place, order)).code, Some(0), "{order}");
    for (_, process) in processes {
        assert_eq!(process.end().code, Some(0), "each goes on by the way out");
    }
    assert_eq!(place.run(&["deadlocks"]).code, Some(0));
}

#[test]
fn two_processes_with_owner_keys_are_known_on_files() {
    let place = Place::new();
    two_processes_are_known(&place, &place.service(), "files");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_with_owner_keys_are_known_on_zookeeper() {
    let Some(server) = Service::ZooKeeper.start().await else { return };
    two_processes_are_known(&place_of(&server.url()), &server.url(), "ZooKeeper");
}
