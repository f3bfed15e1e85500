//! `deadlocks`: commands that wait for each other, on each service; commands that only seem to; and what is printed.

use std::io::{BufRead, BufReader, Read as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use lockkeeper_faults::zookeeper;
use serde_json::json;
use tempfile::TempDir;

use crate::crossing::{Claim, Crossing, NOTE_AND_NEST, lock_of, parsed, place_of, shell, the_one};
use crate::server::Server;
use crate::support::{Place, TestChild, copy_program, ended, eventually, finish, in_time};

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
        let holds = |(lock, run): &(String, TestChild)| {
            line.contains(&format!(" waits for {lock} for "))
                && line.ends_with(&format!(" pid {} sh holds it, and {}. runs under it", run.0.id(), number + 1))
        };
        assert!(crossing.runs.iter().any(holds), "{line}");
    }
    let examined = crossing.place.run(&["doctor", "--json"]);
    assert_eq!((examined.code, &*examined.stderr), (Some(2), ""), "{examined:?}");
    let told = parsed(&examined)["findings"][0].clone();
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

#[tokio::test(flavor = "multi_thread")]
async fn two_nested_runs_are_known_on_zookeeper() {
    if !zookeeper::availability().or_skip("deadlocks::two_nested_runs_are_known_on_zookeeper") {
        return;
    }
    let server = zookeeper::Server::standalone(zookeeper::Setup::new()).await.unwrap();
    nested_runs_are_known(place_of(&format!("zk://{}", server.address())), "ZooKeeper");
}

#[cfg(feature = "etcd")]
#[tokio::test(flavor = "multi_thread")]
async fn two_nested_runs_are_known_on_etcd() {
    use lockkeeper_faults::etcd;
    if !etcd::availability().or_skip("deadlocks::two_nested_runs_are_known_on_etcd") {
        return;
    }
    let server = etcd::Server::standalone().await.unwrap();
    nested_runs_are_known(place_of(&format!("etcd://{}", server.address())), "etcd");
}

#[cfg(feature = "redis")]
#[tokio::test(flavor = "multi_thread")]
async fn two_nested_runs_are_known_on_redis() {
    use lockkeeper_faults::redis;
    if !redis::availability().or_skip("deadlocks::two_nested_runs_are_known_on_redis") {
        return;
    }
    let server = redis::Server::standalone().await.unwrap();
    nested_runs_are_known(place_of(&format!("redis://{}", server.address())), "Redis");
}

#[cfg(feature = "postgres")]
#[tokio::test(flavor = "multi_thread")]
async fn two_nested_runs_are_known_on_postgresql() {
    use lockkeeper_faults::postgres;
    if !postgres::availability().or_skip("deadlocks::two_nested_runs_are_known_on_postgresql") {
        return;
    }
    let server = postgres::Server::standalone().await.unwrap();
    nested_runs_are_known(place_of(&server.url("postgres")), "PostgreSQL");
}

#[cfg(feature = "mysql")]
#[tokio::test(flavor = "multi_thread")]
async fn two_nested_runs_are_known_on_mariadb() {
    use lockkeeper_faults::mariadb;
    if !mariadb::availability().or_skip("deadlocks::two_nested_runs_are_known_on_mariadb") {
        return;
    }
    let server = mariadb::Setup::new().start().await.unwrap();
    nested_runs_are_known(place_of(&server.url("")), "MariaDB");
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
    let (door, gate): (Claim<'_>, Claim<'_>) = (&["door"], &["--permits", "2", "gate"]);
    let place = Place::new();
    let holder = place.hold("door");
    // It has one of two permits, and waits for the door.
    let mut waiter = place.command(&["run", "-q", "--permits", "2", "gate", "--", "sh", "-c"]);
    waiter.arg(r#""$LOCKKEEPER" run -q door -- true"#);
    let mut waiter = TestChild(waiter.spawn().unwrap());
    eventually("it waits", || (place.contenders(lock_of(door)) == 2).then_some(()));
    assert_eq!(place.contenders(lock_of(gate)), 1);
    let looked = place.run(&["deadlocks"]);
    assert_eq!((looked.code, &*looked.stderr), (Some(0), ""));
    assert!(looked.stdout.ends_with("\nno deadlock\n"), "{looked:?}");
    holder.end();
    assert_eq!(ended(&mut waiter.0).code(), Some(0));
}

#[test]
fn two_commands_side_by_side_under_one_run_raise_no_alarm() {
    let place = Place::new();
    let notes = TempDir::new().unwrap();
    let start = |lock: &str, script: &str| {
        let mut command = place.command(&["run", "-q", lock, "--", "sh", "-c", script]);
        TestChild(command.current_dir(notes.path()).stdin(Stdio::null()).spawn().unwrap())
    };
    // Under A one command holds B and goes on, and another one waits for C, whose holder waits for B.
    let mut first = start(
        "A",
        r#"
        "$LOCKKEEPER" run -q B -- sh -c 'echo > b; while [ ! -e end ]; do sleep 0.01; done' &
        while [ ! -e go ]; do sleep 0.01; done
        "$LOCKKEEPER" run -q C -- true
        wait"#,
    );
    let mut second = start("C", r#"echo > c; while [ ! -e go ]; do sleep 0.01; done; "$LOCKKEEPER" run -q B -- true"#);
    for note in ["b", "c"] {
        eventually("it holds its lock", || notes.path().join(note).exists().then_some(()));
    }
    std::fs::write(notes.path().join("go"), "").unwrap();
    for lock in ["B", "C"] {
        eventually("they wait", || (place.contenders(lock) == 2).then_some(()));
    }
    let looked = place.run(&["deadlocks", "--json"]);
    assert_eq!((looked.code, &*looked.stderr), (Some(0), ""), "{looked:?}");
    let found = parsed(&looked);
    let deadlock = the_one(&found);
    assert_eq!((&deadlock["verdict"], &deadlock["certainty"]), (&json!("possible"), &json!("same-run")), "{found}");
    let text = place.run(&["deadlocks"]).stdout;
    assert!(text.contains("\npossible deadlock: no more is known than the same enclosing run\n"), "{text}");
    std::fs::write(notes.path().join("end"), "").unwrap();
    for run in [&mut first, &mut second] {
        assert_eq!(ended(&mut run.0).code(), Some(0), "it was none");
    }
}

#[test]
fn a_deadlock_that_ends_by_itself_soon_is_said_and_raises_no_alarm() {
    let (door, gate): (Claim<'_>, Claim<'_>) = (&["door"], &["gate"]);
    let crossing = Crossing::new(Place::new(), [[door, gate], [gate, &["-w", "29s", "door"]]]);
    let looked = crossing.place.run(&["deadlocks", "--json"]);
    assert_eq!((looked.code, &*looked.stderr), (Some(0), ""), "{looked:?}");
    let deadlock = the_one(&parsed(&looked));
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
    let waiter = place.command(&["run", "-q", "my door", "--", "true"]).spawn().unwrap();
    let mut waiter = TestChild(waiter);
    eventually("it waits", || (place.contenders("my door") == 2).then_some(()));
    let looked = place.run(&["deadlocks"]);
    assert_eq!((looked.code, &*looked.stderr), (Some(0), ""), "{looked:?}");
    let expected = format!(
        "{}\nno deadlock\nmy door is frozen, and 1 waits behind it: new <b>disks</b>\\u{{202e}}\n    \
         lockkeeper thaw 'my door'\n",
        place.service()
    );
    assert_eq!(looked.stdout, expected);
    let found = parsed(&place.run(&["deadlocks", "--json"]));
    let command = ["lockkeeper", "thaw", "my door"];
    let frozen = json!([{"lock": "my door", "reason": reason, "waiters": 1, "command": command}]);
    assert_eq!(found, json!({"service": place.service(), "deadlocks": [], "frozen": frozen}));
    assert_eq!(finish(&mut shell(&place, looked.stdout.lines().last().unwrap().trim())).code, Some(0));
    assert_eq!(ended(&mut waiter.0).code(), Some(0));
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
    let deadlock = the_one(&parsed(&json));
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
    let mut command = crossing.place.command(&["deadlocks", "-v"]);
    let mut looking = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::new(looking.stderr.take().unwrap());
    let (lines, stderr) = in_time("it has looked once", move || {
        let mut lines = String::new();
        while !lines.contains("looking again") {
            assert!(stderr.read_line(&mut lines).unwrap() > 0, "{lines}");
        }
        (lines, stderr)
    });
    server.kill();
    let rest = in_time("it ends", move || stderr.lines().map(Result::unwrap).collect::<Vec<_>>());
    looking.stderr = None;
    let code = ended(&mut looking).code();
    assert_eq!(code, Some(125), "{lines}{rest:?}");
    let [line] = &rest[..] else { panic!("{rest:?}") };
    assert!(line.starts_with("lockkeeper: ") && line.contains("onnection"), "{line}");
    let mut stdout = String::new();
    looking.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
    assert_eq!(stdout, "");
}

#[test]
fn a_service_that_cannot_be_reached_and_a_bad_option_are_one_line() {
    let place = Place::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let refusing = format!("zk://{}", listener.local_addr().unwrap());
    drop(listener);
    for (arguments, word) in [
        (&["deadlocks", "--connect", &refusing][..], "Connection refused"),
        (&["deadlocks", "--fast"], "--fast"),
        (&["deadlocks", "reports/"], "reports/"),
    ] {
        let ended = place.run(arguments);
        assert_eq!((ended.code, &*ended.stdout), (Some(125), ""), "{ended:?}");
        assert!(ended.stderr.contains(word) && ended.stderr.lines().count() == 1, "{ended:?}");
    }
}

#[test]
fn without_locks_there_is_no_deadlock() {
    let place = Place::new();
    let looked = place.run(&["deadlocks"]);
    let expected = format!("{}\nno deadlock\n", place.service());
    assert_eq!((looked.code, &*looked.stdout, &*looked.stderr), (Some(0), &*expected, ""));
    let found = parsed(&place.run(&["deadlocks", "--json"]));
    assert_eq!(found, json!({"service": place.service(), "deadlocks": [], "frozen": []}));
}
