//! `revoke`, `break`, `freeze` and `thaw`: what an operator does to locks that other processes hold and wait for.

use rustix::process::Signal;
use serde_json::json;

use crate::kinds::{assert_ran, queue};
use crate::support::{Ended, Place, Running};

/// Runs under the lock `x` until something ends it; it is left with 7 at a TERM.
fn long_run(place: &Place, options: &[&str], at_term: &str) -> Running {
    let run = place.start(options, &format!("trap '{at_term}' TERM; echo $$ > running; while :; do sleep 0.01; done"));
    place.note("running");
    run
}

/// Returns the lines of ours; a shell adds a line about a child that was ended.
fn ours(ended: &Ended) -> Vec<&str> {
    ended.stderr.lines().filter(|line| line.starts_with("lockkeeper: ")).collect()
}

#[test]
fn a_revoked_run_ends_its_command_in_order_and_lets_the_next_one_in() {
    let place = Place::new();
    let holder = long_run(&place, &[], "echo farewell; exit 7");
    let next = queue(&place, &[], 1);
    let asked = place.run(&["revoke", "x", "--reason", "deploying", "-w", "2m"]);
    assert_eq!((asked.code, &*asked.stderr), (Some(0), ""), "{asked:?}");
    assert!(asked.stdout.contains(" sh to give it up; it was given up\n"), "{asked:?}");
    let ended = holder.end();
    assert_eq!((ended.code, &*ended.stdout), (Some(7), "farewell\n"), "the code is the command's own");
    assert_eq!(ours(&ended), ["lockkeeper: x: asked to give the lock up (deploying); ending the command"]);
    assert_ran(next);
}

#[test]
fn a_revoked_command_that_ignores_the_request_is_killed_after_the_given_time() {
    let place = Place::new();
    let holder = long_run(&place, &["--grace", "600s"], "");
    // It may be dead a moment after the time is up.
    assert!(matches!(place.run(&["revoke", "x", "-w", "300ms"]).code, Some(0 | 124)));
    assert_eq!(holder.end().code, Some(137));
    assert_eq!(place.run(&["run", "-n", "x", "--", "true"]).code, Some(0));
}

#[test]
fn a_run_may_ignore_a_request_and_observers_see_that_it_was_asked() {
    let place = Place::new();
    let mut holder = Running::with_input(&mut place.script_of(&["--on-revoke", "ignore"], "echo held; read line"));
    assert_eq!(holder.line(), "held\n");
    let asked = place.json(&["revoke", "x", "--reason", "deploying", "--json"]);
    assert_eq!((&asked["name"], &asked["service"]), (&json!("x"), &json!(place.service())));
    assert_eq!(asked["given_up"], false);
    assert_eq!(asked["asked"][0]["owner"]["pid"], holder.id());
    assert_eq!(holder.said(), "lockkeeper: x: asked to give the lock up (deploying); the command goes on\n");
    let again = place.run(&["revoke", "x", "-w", "100ms"]);
    assert_eq!(again.code, Some(124));
    assert!(again.stderr.ends_with(" was not given up within 100ms\n"), "{again:?}");
    let shown = place.show("x");
    assert_eq!(shown["contenders"][0]["revocation"], json!({"why": null, "within_ms": 100}));
    assert!(place.run(&["show", "x"]).stdout.contains("asked to give up within 100ms"));
    holder.close_input();
    holder.end();
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
    let next = queue(&place, &[], 1);
    let token = place.token("x");
    let broken = place.run(&["break", "x", "--token", &token]);
    assert_eq!((broken.code, &*broken.stderr), (Some(0), ""), "{broken:?}");
    assert!(broken.stdout.contains("is broken; it was held by ") && broken.stdout.contains(" sh for "), "{broken:?}");
    assert!(broken.stdout.ends_with(&format!(" with token {token}\n")), "{broken:?}");
    let ended = holder.end();
    assert_eq!(ended.code, Some(123));
    let last = *ours(&ended).last().unwrap();
    assert_eq!(last, "lockkeeper: x: the lock was lost (an operator broke the lock), and the command was ended");
    assert_ran(next);
}

#[test]
fn a_stale_token_changes_nothing_and_the_present_holder_is_named_with_its_own() {
    let place = Place::new();
    let before = place.hold("x");
    let stale = place.token("x");
    before.end();
    let free = place.run(&["break", "x", "--token", &stale]);
    assert_eq!((free.code, &*free.stdout), (Some(125), ""));
    assert!(free.stderr.contains("nothing was changed") && free.stderr.contains("; it has no holder\n"), "{free:?}");

    let mut holder = place.hold("x");
    let refused = place.run(&["break", "x", "--token", &stale]);
    refused.assert_refused(125, &[&format!("pid {} sh for ", holder.process.id())]);
    assert!(refused.stderr.ends_with(&format!(" with token {}\n", place.token("x"))), "{refused:?}");
    assert_eq!(place.contenders("x"), 1);
    let broken = place.json(&["break", "x", "--token", &place.token("x"), "--json"]);
    assert_eq!(broken["broken"]["owner"]["pid"], holder.process.id());
    assert_eq!(holder.process.code(), Some(123));
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
    let line = Running::start(&mut place.command(&["run", "x", "--", "true"])).said();
    assert!(line.contains("frozen by ") && line.contains(": new disks; 1st in line, "), "{line}");
    let shown = place.show("x");
    assert_eq!(
        (&shown["contenders"][0]["state"], &shown["contenders"][0]["frozen"]),
        (&json!("holder"), &json!("new disks"))
    );
    assert!(place.run(&["show", "x"]).stdout.contains("frozen: new disks"));
    assert!(place.run(&["ls"]).stdout.contains("(frozen: new disks)"));

    let again = place.run(&["freeze", "x", "--reason", "more disks"]);
    again.assert_refused(125, &["is frozen already", "new disks"]);

    let next = queue(&place, &[], 1);
    let thawed = place.run(&["thaw", "x"]);
    assert_eq!((thawed.code, &*thawed.stderr), (Some(0), ""));
    assert!(thawed.stdout.contains("is thawed") && thawed.stdout.ends_with(": new disks\n"), "{thawed:?}");
    assert_ran(next);
    let none = place.run(&["thaw", "x"]);
    assert_eq!((none.code, none.stdout), (Some(0), format!("x ({}) is not frozen\n", place.service())));
}

#[test]
fn a_freeze_waits_for_the_holder_and_those_who_come_later_wait_behind_it() {
    let place = Place::new();
    let holder = place.hold("x");
    let freezing = Running::start(&mut place.command(&["freeze", "x", "--reason", "new disks", "--json"]));
    place.until_contenders("x", 2);
    let next = queue(&place, &[], 2);
    holder.end();
    let frozen = freezing.end().json();
    assert_eq!(
        (&frozen["frozen"]["frozen"], &frozen["frozen"]["owner"]["command"]),
        (&json!("new disks"), &json!("lockkeeper"))
    );
    assert_eq!(place.contenders("x"), 2);
    let thawed = place.json(&["thaw", "x", "--json"]);
    assert_eq!(thawed["thawed"].as_array().unwrap().len(), 1);
    assert_ran(next);
}

#[test]
fn a_freeze_that_is_not_made_in_time_or_is_interrupted_leaves_the_queue() {
    let place = Place::new();
    let _holder = place.hold("x");
    // Long beside a join on a busy machine: a freeze that does not get as far ends by another code.
    let late = place.run(&["freeze", "x", "--reason", "new disks", "-w", "2s"]);
    // Before its last line it may have said whom it waits for.
    assert_eq!(late.code, Some(124), "{late:?}");
    assert!(late.stderr.lines().next_back().is_some_and(|line| line.contains("is not frozen")), "{late:?}");
    assert_eq!(place.contenders("x"), 1);
    let freezing = Running::start(&mut place.command(&["freeze", "x", "--reason", "new disks"]));
    place.until_contenders("x", 2);
    freezing.send(Signal::INT);
    assert_eq!(freezing.end().code, Some(130));
    assert_eq!(place.contenders("x"), 1);
}

#[test]
fn a_lock_is_frozen_as_the_kind_that_is_named() {
    let place = Place::new();
    for (options, kind, mode) in
        [(&["-s"][..], "rwlock", "write"), (&["--permits", "1"], "semaphore", "acquire"), (&[], "mutex", "mutex")]
    {
        let frozen = place.json(&["freeze", "x", "--kind", kind, "--reason", "new disks", "--json"]);
        assert_eq!(frozen["frozen"]["mode"], mode);
        assert_eq!(place.run(&[&["run", "-n"], options, &["x", "--", "true"]].concat()).code, Some(124), "{kind}");
        place.json(&["thaw", "x", "--json"]);
        assert_eq!(place.run(&[&["run", "-n"], options, &["x", "--", "true"]].concat()).code, Some(0), "{kind}");
    }
}
