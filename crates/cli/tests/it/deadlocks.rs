//! `deadlocks`: commands that wait for each other, on each service; commands that only seem to; and what is printed.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use crate::crossing::{Claim, Crossing, NOTE_AND_NEST, lock_of, place_of, shell, the_one};
use crate::server::Server;
use crate::services::{self, Service, on_each};
use crate::support::{Place, Running, copy_program, finish};

/// Two commands that run under each other's lock are known, and what is printed ends it.
fn nested_runs_are_known(place: Place, who: &str) {
    let (door, gate): (Claim<'_>, Claim<'_>) = (&["door"], &["gate"]);
    let crossing = Crossing::new(place, [[door, gate], [gate, door]]);
    let deadlock = crossing.known(who);
    crossing.assert_chain(&deadlock, ["holds", "holds"]);
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
    crossing.assert_over();
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
        crossing.assert_chain(&deadlock, [state, "holds"]);
        crossing.take_way_out(&crossing.place.run(&["deadlocks"]).stdout);
        crossing.assert_over();
    }
}

#[test]
fn a_free_permit_is_no_deadlock() {
    let place = Place::new();
    let holder = place.hold("door");
    // It has one of two permits, and waits for the door.
    let nested = ["run", "-q", "--permits", "2", "gate", "--", "sh", "-c", r#""$LOCKKEEPER" run -q door -- true"#];
    let waiter = Running::start(&mut place.command(&nested));
    place.until_contenders("door", 2);
    assert_eq!(place.contenders("gate"), 1);
    let looked = place.printed(&["deadlocks"]);
    assert!(looked.ends_with("\nno deadlock\n"), "{looked:?}");
    holder.end();
    assert_eq!(waiter.end().code, Some(0));
}

#[test]
fn two_commands_side_by_side_under_one_run_raise_no_alarm() {
    let place = Place::new();
    let start = |lock: &str, script: &str| {
        Running::start(place.command(&["run", "-q", lock, "--", "sh", "-c", script]).current_dir(place.notes()))
    };
    // Under A one command holds B and goes on, and another one waits for C, whose holder waits for B.
    let first = start(
        "A",
        r#"
        "$LOCKKEEPER" run -q B -- sh -c 'echo 1 > b; while [ ! -e end ]; do sleep 0.01; done' &
        while [ ! -e go ]; do sleep 0.01; done
        "$LOCKKEEPER" run -q C -- true
        wait"#,
    );
    let second = start("C", r#"echo 1 > c; while [ ! -e go ]; do sleep 0.01; done; "$LOCKKEEPER" run -q B -- true"#);
    for note in ["b", "c"] {
        place.note(note);
    }
    place.write("go", "");
    for lock in ["B", "C"] {
        place.until_contenders(lock, 2);
    }
    let found = place.json(&["deadlocks", "--json"]);
    let deadlock = the_one(&found);
    assert_eq!((&deadlock["verdict"], &deadlock["certainty"]), (&json!("possible"), &json!("same-run")), "{found}");
    let text = place.run(&["deadlocks"]).stdout;
    assert!(text.contains("\npossible deadlock: no more is known than the same enclosing run\n"), "{text}");
    place.write("end", "");
    for run in [first, second] {
        assert_eq!(run.end().code, Some(0), "it was none");
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
    crossing.assert_over();
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
fn hostile_names_are_shown_as_escapes_and_the_way_out_still_works() {
    let place = Place::new();
    let script = place.file("script", &format!("#!/bin/sh\n{NOTE_AND_NEST}\n"));
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let program = script.with_file_name("ev\u{1b}[2Jil\u{202e}");
    copy_program(&script, &program);
    let markup = "<img src=x onerror=alert(1)> \"$(reboot)\" `reboot`; it's";
    let mut marks = "\u{202e}\u{2067}|&\\%s\u{200f}".to_owned();
    while marks.len() < 199 {
        marks.push('é');
    }
    marks.push_str(&"x".repeat(200 - marks.len()));
    let (one, other): (Claim<'_>, Claim<'_>) = (&[markup], &[&marks]);
    let crossing = Crossing::with_program(place, [[one, other], [other, one]], &[&program]);
    let looked = crossing.place.run(&["deadlocks"]);
    assert_eq!((looked.code, &*looked.stderr), (Some(1), ""), "{looked:?}");
    let text = looked.stdout;
    assert_eq!(text.lines().count(), 6, "{text:?}");
    let is_harmful =
        |letter: char| letter != '\n' && (letter.is_control() || "\u{202e}\u{2067}\u{200f}".contains(letter));
    assert!(!text.contains(is_harmful), "{text:?}");
    assert!(text.contains(markup) && text.contains("\\u{202e}\\u{2067}|&\\%s\\u{200f}éé"), "{text}");
    // The service itself keeps no control characters of a command's name.
    assert!(text.contains("[2Jil\\u{202e} holds it"), "{text}");
    assert!(text.contains("\n    lockkeeper revoke \"$(printf '\\342\\200\\256"), "{text}");
    let json = crossing.place.run(&["deadlocks", "--json"]);
    assert!(!json.stdout.contains(is_harmful), "{json:?}");
    let deadlock = the_one(&json.json());
    let mut locks: Vec<_> =
        deadlock["chain"].as_array().unwrap().iter().map(|link| link["lock"].as_str().unwrap()).collect();
    locks.sort_unstable();
    assert_eq!(locks, [markup, &marks]);
    crossing.take_way_out(&text);
    crossing.assert_over();
}

#[test]
fn a_service_that_is_lost_between_two_looks_is_one_line() {
    let place = Place::new();
    let server = Server::start(&place, &[]);
    let (door, gate): (Claim<'_>, Claim<'_>) = (&["door"], &["gate"]);
    let url = format!("{}?operation_timeout=2s", server.url());
    let crossing = Crossing::new(place_of(&url), [[door, gate], [gate, door]]);
    let looking = Running::start(&mut crossing.place.command(&["deadlocks", "-v"]));
    looking.until_said("looking again");
    server.kill();
    looking.end().assert_refused(125, &["onnection"]);
}

#[test]
fn without_locks_there_is_no_deadlock() {
    let place = Place::new();
    assert_eq!(place.printed(&["deadlocks"]), format!("{}\nno deadlock\n", place.service()));
    assert_eq!(
        place.json(&["deadlocks", "--json"]),
        json!({"service": place.service(), "deadlocks": [], "frozen": []})
    );
}
