//! `deadlocks` of two processes, each of which takes its locks by one owner key, from different tasks.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use lockkeeper::OwnerKey;
use serde_json::json;

use crate::crossing::{Crossing, place_of};
use crate::services::Service;
use crate::support::{Place, Running, now};

/// What such a process is told: its service, the lock that it holds, the one that it asks for, and where it notes that
/// it holds and learns that both do.
const PART: [&str; 4] = ["OWNER_SERVICE", "OWNER_HOLDS", "OWNER_WANTS", "OWNER_NOTES"];

/// How often such a process looks whether it is its time.
const LOOKS_EACH: Duration = Duration::from_millis(10);

/// This is not a separate test: the other tests of this file run it as their processes.
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
fn two_processes_are_known(place: Place, service: &str, who: &str) {
    let mut crossing = Crossing { place, began: now(), runs: Vec::new() };
    for (holds, wants) in [("door", "gate"), ("gate", "door")] {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "deadlocks_owners::the_part_of_one_process"]);
        command.envs(PART.into_iter().zip([service, holds, wants, crossing.place.notes().to_str().unwrap()]));
        crossing.runs.push((holds.to_owned(), Running::start(&mut command)));
        crossing.place.note(holds);
    }
    crossing.place.write("go", "");
    for lock in ["door", "gate"] {
        crossing.place.until_contenders(lock, 2);
    }
    let found = crossing.known(&format!("owner keys on {who}"));
    crossing.assert_chain(&found, |link, waiter, process| {
        assert_eq!((&link["state"], &link["joined"]), (&json!("holds"), &json!("owner-key")), "{found}");
        assert_eq!(waiter["owner"]["pid"], process, "{found}");
    });
    crossing.take_way_out(&crossing.place.run(&["deadlocks"]).stdout);
    // Each goes on by the way out.
    crossing.assert_over([0, 0]);
}

#[test]
fn two_processes_with_owner_keys_are_known_on_files() {
    let place = Place::new();
    let service = place.service();
    two_processes_are_known(place, &service, "files");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_with_owner_keys_are_known_on_zookeeper() {
    let Some(server) = Service::ZooKeeper.start().await else { return };
    two_processes_are_known(place_of(&server.url()), &server.url(), "ZooKeeper");
}
