//! `revoke`, `break`, `freeze` and `thaw`: what an operator does to locks that other processes hold and wait for.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{Ended, Holder, Place, TestChild, eventually, first_line, in_time, number_in, send, wait};

/// Starts a command whose end and output are wanted.
fn start(command: &mut Command) -> Child {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Runs under the lock `x` until something ends it; it is left with 7 at a TERM.
fn long_run(place: &Place, options: &[&str], at_term: &str) -> Child {
    let running = place.file("running", "");
    let script = format!("trap '{at_term}' TERM; echo $$ > {}; while :; do sleep 0.01; done", running.display());
    let child = start(&mut place.command(&[&["run"], options, &["x", "--", "sh", "-c", &script]].concat()));
    number_in(&running);
    child
}

/// Returns the lines of ours; a shell adds a line about a child that was ended.
fn ours(ended: &Ended) -> Vec<&str> {
    ended.stderr.lines().filter(|line| line.starts_with("lockkeeper: ")).collect()
}

fn token(place: &Place) -> String {
    place.show("x")["contenders"][0]["token"].as_str().unwrap().to_owned()
}

fn json(ended: &Ended) -> Value {
    assert_eq!(ended.code, Some(0), "{ended:?}");
    serde_json::from_str(&ended.stdout).unwrap()
}

/// A waiter that says `ran` once it has the lock.
fn waiter(place: &Place, options: &[&str]) -> Child {
    let before = place.contenders("x");
    let child = start(&mut place.command(&[&["run", "-q"], options, &["x", "--", "echo", "ran"]].concat()));
    eventually("it waits", || (place.contenders("x") > before).then_some(()));
    child
}

#[track_caller]
fn ran(child: Child) {
    let ended = wait(child);
    assert_eq!((ended.code, &*ended.stdout), (Some(0), "ran\n"), "{ended:?}");
}

#[test]
fn a_revoked_run_ends_its_command_in_order_and_lets_the_next_one_in() {
    let place = Place::new();
    let holder = long_run(&place, &[], "echo farewell; exit 7");
    let next = waiter(&place, &[]);
    let asked = place.run(&["revoke", "x", "--reason", "deploying", "-w", "2m"]);
    assert_eq!((asked.code, &*asked.stderr), (Some(0), ""), "{asked:?}");
    assert!(asked.stdout.contains(" sh to give it up; it was given up\n"), "{asked:?}");
    let ended = wait(holder);
    assert_eq!((ended.code, &*ended.stdout), (Some(7), "farewell\n"), "the code is the command's own");
    assert_eq!(ours(&ended), ["lockkeeper: x: asked to give the lock up (deploying); ending the command"]);
    ran(next);
}

#[test]
fn a_revoked_command_that_ignores_the_request_is_killed_after_the_given_time() {
    let place = Place::new();
    let holder = long_run(&place, &["--grace", "600s"], "");
    // It may be dead a moment after the time is up.
    assert!(matches!(place.run(&["revoke", "x", "-w", "300ms"]).code, Some(0 | 124)));
    assert_eq!(wait(holder).code, Some(137));
    assert_eq!(place.run(&["run", "-n", "x", "--", "true"]).code, Some(0));
}

#[test]
fn a_run_may_ignore_a_request_and_observers_see_that_it_was_asked() {
    let place = Place::new();
    let arguments = ["run", "--on-revoke", "ignore", "x", "--", "sh", "-c", "echo held; read line"];
    let mut holder = Holder::start(place.command(&arguments).stderr(Stdio::piped()));
    let mut stderr = BufReader::new(holder.process.stderr.take().unwrap());
    let asked = json(&place.run(&["revoke", "x", "--reason", "deploying", "--json"]));
    assert_eq!((&asked["name"], &asked["service"]), (&json!("x"), &json!(place.service())));
    assert_eq!(asked["given_up"], false);
    assert_eq!(asked["asked"][0]["owner"]["pid"], holder.process.id());
    let said = in_time("the line is printed", move || {
        let mut line = String::new();
        stderr.read_line(&mut line).unwrap();
        line
    });
    assert_eq!(said, "lockkeeper: x: asked to give the lock up (deploying); the command goes on\n");
    let again = place.run(&["revoke", "x", "-w", "100ms"]);
    assert_eq!(again.code, Some(124));
    assert!(again.stderr.ends_with(" was not given up within 100ms\n"), "{again:?}");
    let shown = place.show("x");
    assert_eq!(shown["contenders"][0]["revocation"], json!({"why": null, "within_ms": 100}));
    assert!(place.run(&["show", "x"]).stdout.contains("asked to give up within 100ms"));
    holder.end();
}

#[test]
fn all_holders_of_a_shared_lock_are_asked_and_waiters_are_not() {
    let place = Place::new();
    let readers: Vec<_> = (0..2)
        .map(|_| Holder::start(&mut place.command(&["run", "-s", "x", "--", "sh", "-c", "echo held; exec sleep 600"])))
        .collect();
    let writer = waiter(&place, &["-x"]);
    let asked = json(&place.run(&["revoke", "x", "-w", "2m", "--json"]));
    assert_eq!((asked["asked"].as_array().unwrap().len(), &asked["given_up"]), (2, &json!(true)));
    for mut reader in readers {
        assert_eq!(in_time("it ends", move || reader.process.wait().unwrap()).code(), Some(143));
    }
    ran(writer);
}

#[test]
fn a_revoke_without_a_holder_to_ask_is_not_a_failure() {
    let place = Place::new();
    let asked = place.run(&["revoke", "x", "-w", "2m"]);
    assert_eq!((asked.code, asked.stdout), (Some(0), format!("x ({}): there is no holder to ask\n", place.service())));
}

#[test]
fn break_takes_the_lock_from_the_holder_with_the_token_and_the_next_one_is_granted() {
    let place = Place::new();
    let holder = long_run(&place, &[], "exit 7");
    let next = waiter(&place, &[]);
    let token = token(&place);
    let broken = place.run(&["break", "x", "--token", &token]);
    assert_eq!((broken.code, &*broken.stderr), (Some(0), ""), "{broken:?}");
    assert!(broken.stdout.contains("is broken; it was held by ") && broken.stdout.contains(" sh for "), "{broken:?}");
    assert!(broken.stdout.ends_with(&format!(" with token {token}\n")), "{broken:?}");
    let ended = wait(holder);
    assert_eq!(ended.code, Some(123));
    let last = *ours(&ended).last().unwrap();
    assert_eq!(last, "lockkeeper: x: the lock was lost (an operator broke the lock), and the command was ended");
    ran(next);
}

#[test]
fn a_stale_token_changes_nothing_and_the_present_holder_is_named_with_its_own() {
    let place = Place::new();
    let before = place.hold("x");
    let stale = token(&place);
    before.end();
    let free = place.run(&["break", "x", "--token", &stale]);
    assert_eq!((free.code, &*free.stdout), (Some(125), ""));
    assert!(free.stderr.contains("nothing was changed") && free.stderr.contains("; it has no holder\n"), "{free:?}");

    let holder = place.hold("x");
    let refused = place.run(&["break", "x", "--token", &stale]);
    assert_eq!((refused.code, refused.stderr.lines().count()), (Some(125), 1), "{refused:?}");
    let pid = format!("pid {} sh for ", holder.process.id());
    assert!(refused.stderr.contains(&pid), "{refused:?}");
    assert!(refused.stderr.ends_with(&format!(" with token {}\n", token(&place))), "{refused:?}");
    assert_eq!(place.contenders("x"), 1);
    let broken = json(&place.run(&["break", "x", "--token", &token(&place), "--json"]));
    assert_eq!(broken["broken"]["owner"]["pid"], holder.process.id());
    let mut process = holder.process;
    assert_eq!(in_time("it ends", move || process.wait().unwrap()).code(), Some(123));
}

#[test]
fn a_frozen_lock_keeps_all_contenders_out_until_it_is_thawed_and_tells_them_why() {
    let place = Place::new();
    let frozen = place.run(&["freeze", "x", "--reason", "new disks"]);
    let said = format!("x ({}) is frozen until `lockkeeper thaw`: new disks\n", place.service());
    assert_eq!((frozen.code, frozen.stdout, &*frozen.stderr), (Some(0), said, ""));
    let busy = place.run(&["run", "-n", "x", "--", "true"]);
    assert_eq!(busy.code, Some(124));
    assert!(busy.stderr.contains("is frozen: new disks; the command was not run"), "{busy:?}");
    let (line, late) = first_line(place.command(&["run", "x", "--", "true"]));
    drop(TestChild(late));
    assert!(line.contains("frozen by ") && line.contains(": new disks; 1st in line, "), "{line}");
    let shown = place.show("x");
    assert_eq!(
        (&shown["contenders"][0]["state"], &shown["contenders"][0]["frozen"]),
        (&json!("holder"), &json!("new disks"))
    );
    assert!(place.run(&["show", "x"]).stdout.contains("frozen: new disks"));
    assert!(place.run(&["ls"]).stdout.contains("(frozen: new disks)"));

    let again = place.run(&["freeze", "x", "--reason", "more disks"]);
    assert_eq!((again.code, again.stderr.lines().count()), (Some(125), 1), "{again:?}");
    assert!(again.stderr.contains("is frozen already") && again.stderr.contains("new disks"), "{again:?}");

    let next = waiter(&place, &[]);
    let thawed = place.run(&["thaw", "x"]);
    assert_eq!((thawed.code, &*thawed.stderr), (Some(0), ""));
    assert!(thawed.stdout.contains("is thawed") && thawed.stdout.ends_with(": new disks\n"), "{thawed:?}");
    ran(next);
    let none = place.run(&["thaw", "x"]);
    assert_eq!((none.code, none.stdout), (Some(0), format!("x ({}) is not frozen\n", place.service())));
}

#[test]
fn a_freeze_waits_for_the_holder_and_those_who_come_later_wait_behind_it() {
    let place = Place::new();
    let holder = place.hold("x");
    let freezing = start(&mut place.command(&["freeze", "x", "--reason", "new disks", "--json"]));
    eventually("the freeze waits", || (place.contenders("x") == 2).then_some(()));
    let next = waiter(&place, &[]);
    holder.end();
    let frozen = json(&wait(freezing));
    assert_eq!(
        (&frozen["frozen"]["frozen"], &frozen["frozen"]["owner"]["command"]),
        (&json!("new disks"), &json!("lockkeeper"))
    );
    assert_eq!(place.contenders("x"), 2);
    let thawed = json(&place.run(&["thaw", "x", "--json"]));
    assert_eq!(thawed["thawed"].as_array().unwrap().len(), 1);
    ran(next);
}

#[test]
fn a_freeze_that_is_not_made_in_time_or_is_interrupted_leaves_the_queue() {
    let place = Place::new();
    let holder = place.hold("x");
    let late = place.run(&["freeze", "x", "--reason", "new disks", "-w", "100ms"]);
    assert_eq!((late.code, late.stderr.lines().count()), (Some(124), 1), "{late:?}");
    assert_eq!(place.contenders("x"), 1);
    let freezing = start(&mut place.command(&["freeze", "x", "--reason", "new disks"]));
    eventually("the freeze waits", || (place.contenders("x") == 2).then_some(()));
    send(freezing.id().cast_signed(), Signal::INT);
    assert_eq!(wait(freezing).code, Some(130));
    assert_eq!(place.contenders("x"), 1);
    holder.end();
}

#[test]
fn a_lock_is_frozen_as_the_kind_that_it_is_used_as_or_that_is_named() {
    let place = Place::new();
    for (options, kind, mode) in
        [(&["-s"][..], "rwlock", "write"), (&["--permits", "1"], "semaphore", "acquire"), (&[], "mutex", "mutex")]
    {
        let frozen = json(&place.run(&["freeze", "x", "--kind", kind, "--reason", "new disks", "--json"]));
        assert_eq!(frozen["frozen"]["mode"], mode);
        assert_eq!(place.run(&[&["run", "-n"], options, &["x", "--", "true"]].concat()).code, Some(124), "{kind}");
        json(&place.run(&["thaw", "x", "--json"]));
        assert_eq!(place.run(&[&["run", "-n"], options, &["x", "--", "true"]].concat()).code, Some(0), "{kind}");
    }
    let reader = Holder::start(&mut place.command(&["run", "-s", "x", "--", "sh", "-c", "echo held; read line"]));
    let freezing = start(&mut place.command(&["freeze", "x", "--reason", "new disks", "--json"]));
    eventually("the freeze waits", || (place.contenders("x") == 2).then_some(()));
    reader.end();
    assert_eq!(json(&wait(freezing))["frozen"]["mode"], "write");
}

#[test]
fn a_freeze_outlives_the_command_that_made_it_and_a_wait_for_the_lock_goes_on() {
    let place = Place::new();
    json(&place.run(&["freeze", "x", "--reason", "new disks", "--json"]));
    assert_eq!(place.run(&["wait", "x", "-w", "100ms"]).code, Some(124));
    let waiting = start(&mut place.command(&["wait", "x"]));
    json(&place.run(&["thaw", "x", "--json"]));
    assert_eq!(wait(waiting).code, Some(0));
}
