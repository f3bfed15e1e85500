//! `deadlocks` of a program with Curator and a command of ours: possible where Curator's contenders say nothing of
//! their owner, known where they do.

use std::process::Stdio;
use std::time::Duration;

use lockkeeper_faults::peers::{Kind, curator};
use lockkeeper_faults::{figures, zookeeper};
use serde_json::json;

use crate::crossing::{looked_in_time, parsed, place_of, the_one};
use crate::support::{PATIENCE, TestChild, ended, eventually};

/// Has Curator hold the door and wait for the gate, and a command of ours hold the gate and wait for the door.
async fn crossed_with_curator(test: &str, kind: Kind) {
    if !zookeeper::availability().or_skip(test) || !curator::availability().or_skip(test) {
        return;
    }
    let is_owned = kind == Kind::OwnedMutex;
    let server = zookeeper::Server::standalone(zookeeper::Setup::new()).await.unwrap();
    let address = server.address().to_string();
    let place = place_of(&format!("zk://{address}"));
    let mut curator = curator::start(&address, Duration::from_secs(40)).await.unwrap();
    let path = |lock: &str| format!("/lockkeeper/{lock}");
    assert_eq!(curator.try_lock(kind, &path("door")).await, Ok(true));
    let mut ours = place.command(&["run", "-q", "gate", "--", "sh", "-c", r#""$LOCKKEEPER" run -q door -- true"#]);
    let mut ours = TestChild(ours.stdin(Stdio::null()).spawn().unwrap());
    eventually("ours waits", || (place.contenders("door") == 2).then_some(()));
    let waiting = tokio::spawn(async move {
        let is_granted = curator.lock(kind, &path("gate"), PATIENCE).await;
        (curator, is_granted)
    });
    eventually("Curator waits", || (place.contenders("gate") == 2).then_some(()));
    let (looked, took) = looked_in_time(&place);
    assert_eq!((looked.code, &*looked.stderr), (Some(i32::from(is_owned)), ""), "{looked:?}");
    let found = parsed(&looked);
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
    assert_eq!(ended(&mut ours.0).code(), Some(143));
    let (_curator, is_granted) = waiting.await.unwrap();
    assert_eq!(is_granted, Ok(true));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadlock_with_curator_is_listed_as_possible() {
    crossed_with_curator("deadlocks_curator::a_deadlock_with_curator_is_listed_as_possible", Kind::Mutex).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadlock_with_a_curator_that_says_its_owner_is_known() {
    crossed_with_curator("deadlocks_curator::a_deadlock_with_a_curator_that_says_its_owner_is_known", Kind::OwnedMutex)
        .await;
}

#[test]
fn the_mutex_that_says_its_owner_is_the_one_of_the_documentation() {
    let documentation = include_str!("../../../../docs/mixed-fleets.md");
    assert!(documentation.contains(curator::OWNED_MUTEX.trim_end()), "docs/mixed-fleets.md shows another one");
}
