//! `deadlocks` of a program with Curator and a command of ours: possible where Curator's contenders say nothing of
//! their owner, known where they do.

use std::time::Duration;

use lockkeeper_faults::figures;
use lockkeeper_faults::peers::{Kind, curator};
use serde_json::json;

use crate::crossing::{looked_in_time, place_of, the_one};
use crate::services::Service;
use crate::support::{PATIENCE, Running, can_run};

/// Has Curator hold the door and wait for the gate, and a command of ours hold the gate and wait for the door.
async fn crossed_with_curator(kind: Kind) {
    if !can_run(curator::availability()) {
        return;
    }
    let Some(server) = Service::ZooKeeper.start().await else { return };
    let is_owned = kind == Kind::OwnedMutex;
    let (address, place) = (server.address().to_string(), place_of(&server.url()));
    let mut curator = curator::start(&address, Duration::from_secs(40)).await.unwrap();
    let path = |lock: &str| format!("/lockkeeper/{lock}");
    assert_eq!(curator.try_lock(kind, &path("door")).await, Ok(true));
    let nested = ["run", "-q", "gate", "--", "sh", "-c", r#""$LOCKKEEPER" run -q door -- true"#];
    let ours = Running::start(&mut place.command(&nested));
    place.until_contenders("door", 2);
    let waiting = tokio::spawn(async move {
        let is_granted = curator.lock(kind, &path("gate"), PATIENCE).await;
        (curator, is_granted)
    });
    place.until_contenders("gate", 2);
    let (looked, took) = looked_in_time(&place);
    assert_eq!((looked.code, &*looked.stderr), (Some(i32::from(is_owned)), ""), "{looked:?}");
    let found = looked.json();
    let deadlock = the_one(&found);
    let (verdict, certainty, joined, answers, line) = if is_owned {
        ("known", "same-owner", "thread", "no", "deadlock, known by the same thread")
    } else {
        let line = "possible deadlock: no more is known than the same session";
        ("possible", "same-session", "session", "unknown", line)
    };
    let said = (&deadlock["verdict"], &deadlock["certainty"]);
    assert_eq!(said, (&json!(verdict), &json!(certainty)), "{found}");
    let chain = deadlock["chain"].as_array().unwrap();
    let at_door = chain.iter().find(|link| link["lock"] == "door").unwrap();
    assert_eq!((&at_door["joined"], &at_door["ahead"]["answers"]), (&json!(joined), &json!(answers)), "{found}");
    let at_gate = chain.iter().find(|link| link["lock"] == "gate").unwrap();
    assert_eq!((&at_gate["joined"], chain.len()), (&json!("within"), 2), "{found}");
    // Ours receives requests.
    assert_eq!((&deadlock["way_out"]["action"], &deadlock["way_out"]["lock"]), (&json!("revoke"), &json!("gate")));
    figures::tell(&format!("deadlocks, with Curator: {verdict} after {:.2} s", took.as_secs_f64()));
    let text = place.run(&["deadlocks"]).stdout;
    assert!(text.lines().nth(1).unwrap().starts_with(line), "{text}");
    assert_eq!(place.run(&["revoke", "gate", "-w", "2m"]).code, Some(0));
    assert_eq!(ours.end().code, Some(143));
    let (_curator, is_granted) = waiting.await.unwrap();
    assert_eq!(is_granted, Ok(true));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadlock_with_curator_is_listed_as_possible() {
    crossed_with_curator(Kind::Mutex).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadlock_with_a_curator_that_says_its_owner_is_known() {
    crossed_with_curator(Kind::OwnedMutex).await;
}

#[test]
fn the_documentation_leads_to_the_mutex_that_says_its_owner() {
    let documentation = include_str!("../../../../docs/mixed-fleets.md");
    assert!(documentation.contains("(../crates/faults/peers/curator/OwnedMutex.java)"), "it is named elsewhere");
    assert!(curator::OWNED_MUTEX.contains("class OwnedMutex extends InterProcessMutex"));
}
