//! `deadlocks`: commands that wait for each other, on each service; commands that only seem to; and what is printed.

use serde_json::json;

use crate::crossing::{Claim, Crossing, lock_of, place_of, shell, the_one};
use crate::server::Server;
use crate::services::{self, Service, on_each};
use crate::support::{Place, Running, finish};

/// Two commands that run under each other's lock are known, and what is printed ends it.
fn nested_runs_are_known(place: Place, who: &str) {
    let crossing = Crossing::door_and_gate(place);
    let deadlock = crossing.known(who);
    crossing.assert_nested(&deadlock, [("door", "holds"), ("gate", "holds")]);
    let text = crossing.place.run(&["deadlocks"]);
    assert_eq!(text.code, Some(1), "{text:?}");
    let lines: Vec<_> = text.stdout.lines().collect();
    assert_eq!((lines.len(), lines[1]), (6, "deadlock, known by the enclosing run"), "{text:?}");
    for line in &lines[2..4] {
        let number = usize::from(line.starts_with("  1. "));
        let holds = |(lock, run): &(String, Running)| {
            line.contains(&format!(" waits for {lock} for "))
                && line.ends_with(&format!(" pid {} sh holds it, and {}. runs under it", run.id(), number + 1))
        };
        assert!(crossing.runs.iter().any(holds), "{line}");
    }
    let examined = crossing.place.run(&["doctor", "--json"]);
    assert_eq!((examined.code, &*examined.stderr), (Some(2), ""), "{examined:?}");
    let told = examined.json()["findings"][0].clone();
    let what = told["what"].as_str().unwrap();
    assert!(what.starts_with("deadlock, known by the enclosing run: 1. ") && what.contains("; 2. "), "{told}");
    let cure = told["cure"].as_str().unwrap();
    assert!(told["severity"] == "error" && cure.contains(": lockkeeper revoke "), "{told}");
    crossing.take_way_out(&text.stdout);
    crossing.assert_over([0, 143]);
}

#[test]
fn two_nested_runs_are_known_on_files() {
    nested_runs_are_known(Place::new(), "files");
}

async fn on_a_service(service: Service, server: services::Server) {
    nested_runs_are_known(place_of(&server.url()), service.name());
}

on_each! { on_a_service:
    ZooKeeper "monitor" two_nested_runs_are_known_on_zookeeper;
    Etcd "etcd" two_nested_runs_are_known_on_etcd;
    Redis "redis" two_nested_runs_are_known_on_redis;
    PostgreSql "postgres" two_nested_runs_are_known_on_postgresql;
    MariaDb "mysql" two_nested_runs_are_known_on_mariadb;
}

#[test]
fn a_share_or_a_permit_that_a_nested_run_waits_for_is_known_too() {
    let door: Claim<'_> = &["door"];
    for (held, wanted, state) in [
        (&["-s", "book"][..], &["-x", "book"][..], "holds"),
        (&["--permits", "1", "gate"], &["--permits", "1", "gate"], "has-permit"),
    ] {
        let crossing = Crossing::new(Place::new(), [[held, door], [door, wanted]]);
        let deadlock = crossing.known(lock_of(held));
        crossing.assert_nested(&deadlock, [(lock_of(held), state), ("door", "holds")]);
        crossing.take_way_out(&crossing.place.run(&["deadlocks"]).stdout);
        crossing.assert_over([0, 143]);
    }
}

#[test]
fn a_deadlock_that_ends_by_itself_soon_is_said_and_raises_no_alarm() {
    let (door, gate): (Claim<'_>, Claim<'_>) = (&["door"], &["gate"]);
    let crossing = Crossing::new(Place::new(), [[door, gate], [gate, &["-w", "29s", "door"]]]);
    let deadlock = the_one(&crossing.place.json(&["deadlocks", "--json"]));
    assert_eq!(deadlock["verdict"], "ends-soon");
    assert!(deadlock["ends_ms"].as_u64().unwrap() < 29_000, "{deadlock}");
    let text = crossing.place.run(&["deadlocks"]).stdout;
    assert!(text.contains("\ndeadlock, known by the enclosing run; it ends by itself in "), "{text}");
    crossing.take_way_out(&text);
    crossing.assert_over([0, 143]);
}

#[test]
fn a_frozen_lock_is_named_as_a_cause() {
    let place = Place::new();
    let reason = "new <b>disks</b>\u{202e}";
    assert_eq!(place.run(&["freeze", "my door", "--reason", reason]).code, Some(0));
    let mut waiter = place.queue(&[], "my door");
    let looked = place.printed(&["deadlocks"]);
    let expected = format!(
        "{}\nno deadlock\nmy door is frozen, and 1 waits behind it: new <b>disks</b>\\u{{202e}}\n    \
         lockkeeper thaw 'my door'\n",
        place.service()
    );
    assert_eq!(looked, expected);
    let found = place.json(&["deadlocks", "--json"]);
    let command = ["lockkeeper", "thaw", "my door"];
    let frozen = json!([{"lock": "my door", "reason": reason, "waiters": 1, "command": command}]);
    assert_eq!(found, json!({"service": place.service(), "deadlocks": [], "frozen": frozen}));
    assert_eq!(finish(&mut shell(&place, looked.lines().last().unwrap().trim())).code, Some(0));
    assert_eq!(waiter.code(), Some(0));
}

#[test]
fn a_service_that_is_lost_between_two_looks_is_one_line() {
    let place = Place::new();
    let server = Server::start(&place, &[]);
    let url = format!("{}?operation_timeout=2s", server.url());
    let crossing = Crossing::door_and_gate(place_of(&url));
    let looking = Running::start(&mut crossing.place.command(&["deadlocks", "-v"]));
    looking.until_said("looking again");
    server.kill();
    looking.end().assert_refused(125, &["onnection"]);
}
