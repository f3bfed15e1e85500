//! Read/write locks and semaphores on the command line, with real holders and waiters in other processes.

use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::{Ended, Holder, Place, TestChild, eventually, finish, first_line, in_time, wait};

/// Takes a lock with these options and keeps it.
fn hold(place: &Place, options: &[&str]) -> Holder {
    let arguments = [&["run"], options, &["x", "--", "sh", "-c", "echo held; read line"]].concat();
    Holder::start(&mut place.command(&arguments))
}

/// Tries to take a lock with these options at once.
fn attempt(place: &Place, options: &[&str]) -> Ended {
    place.run(&[&["run", "-n"], options, &["x", "--", "true"]].concat())
}

fn code(place: &Place, options: &[&str]) -> Option<i32> {
    attempt(place, options).code
}

/// The state and mode of each contender.
fn contenders(shown: &Value) -> Vec<(&str, &str)> {
    let list = shown["contenders"].as_array().unwrap();
    list.iter().map(|one| (one["state"].as_str().unwrap(), one["mode"].as_str().unwrap())).collect()
}

#[test]
fn readers_share_a_lock_that_a_writer_has_alone() {
    let place = Place::new();
    let readers = [hold(&place, &["-s"]), hold(&place, &["--shared"])];
    assert_eq!(code(&place, &["-s"]), Some(0));
    let refused = attempt(&place, &["-x"]);
    assert_eq!(refused.code, Some(124));
    assert!(refused.stderr.contains("is in use; the command was not run"), "{refused:?}");
    let shown = place.show("x");
    assert_eq!(shown["kind"], "rwlock");
    assert_eq!(contenders(&shown), [("holder", "read"), ("holder", "read")]);
    for reader in readers {
        reader.end();
    }
    let writer = hold(&place, &["-x"]);
    assert_eq!((code(&place, &["-s"]), code(&place, &["-x"])), (Some(124), Some(124)));
    assert_eq!(contenders(&place.show("x")), [("holder", "write")]);
    writer.end();
    assert_eq!((code(&place, &["-s"]), code(&place, &["-x"])), (Some(0), Some(0)));
}

#[test]
fn a_writer_that_waits_is_not_passed_by_readers_and_all_of_them_are_shown() {
    let place = Place::new();
    let reader = hold(&place, &["-s"]);
    let mut writer = place.command(&["run", "-q", "-x", "x", "--", "true"]).spawn().unwrap();
    eventually("the writer waits", || (place.contenders("x") == 2).then_some(()));
    let late = place
        .command(&["run", "-w", "10m", "-s", "x", "--", "echo", "ran"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    eventually("the reader waits", || (place.contenders("x") == 3).then_some(()));
    assert_eq!(contenders(&place.show("x")), [("holder", "read"), ("waiter", "write"), ("waiter", "read")]);
    let text = place.run(&["show", "x"]).stdout;
    assert!(text.starts_with("x (rwlock, file:"), "{text}");
    let listed: Value = serde_json::from_str(&place.run(&["ls", "--json"]).stdout).unwrap();
    assert_eq!((&listed[0]["kind"], &listed[0]["waiters"]), (&json!("rwlock"), &json!(2)));
    assert_eq!(code(&place, &["-s"]), Some(124), "a reader does not pass a writer that waits");
    reader.end();
    assert!(in_time("the writer had its turn", move || writer.wait().unwrap()).success());
    let late = wait(late);
    assert_eq!((late.code, &*late.stdout), (Some(0), "ran\n"), "{late:?}");
}

#[test]
fn the_wait_for_a_shared_lock_names_one_holder_and_counts_the_others() {
    let place = Place::new();
    let readers = [hold(&place, &["-s"]), hold(&place, &["-s"]), hold(&place, &["-s"])];
    let (line, waiter) = first_line(place.command(&["run", "-x", "x", "--", "true"]));
    drop(TestChild(waiter));
    assert!(line.contains(" and 2 others; 1st in line, "), "{line}");
    for reader in readers {
        reader.end();
    }
}

#[test]
fn permits_are_counted_and_waiters_for_one_are_shown() {
    let place = Place::new();
    let holders = [hold(&place, &["--permits", "2"]), hold(&place, &["--permits", "2"])];
    let refused = attempt(&place, &["--permits", "2"]);
    assert_eq!(refused.code, Some(124));
    assert!(refused.stderr.contains("has no permit left"), "{refused:?}");
    let mut waiter = place.command(&["run", "-q", "--permits", "2", "x", "--", "true"]).spawn().unwrap();
    eventually("a contender waits", || (place.contenders("x") == 3).then_some(()));
    let shown = place.show("x");
    assert_eq!(shown["kind"], "semaphore");
    assert_eq!(contenders(&shown), [("holder", "permit"), ("holder", "permit"), ("waiter", "acquire")]);
    let names: Value = serde_json::from_str(&place.run(&["ls", "--json"]).stdout).unwrap();
    assert_eq!(names.as_array().unwrap().len(), 1, "it is one lock: {names}");
    let (line, second) = first_line(place.command(&["run", "--permits", "2", "x", "--", "true"]));
    drop(TestChild(second));
    assert!(line.contains(" and 1 other; 2nd in line, "), "{line}");
    for holder in holders {
        holder.end();
    }
    assert!(in_time("the waiter had its turn", move || waiter.wait().unwrap()).success());
    assert_eq!(place.contenders("x"), 0);
}

#[test]
fn a_bound_that_others_do_not_agree_with_is_refused_in_one_line() {
    let place = Place::new();
    let holder = hold(&place, &["--permits", "2"]);
    let refused = attempt(&place, &["--permits", "3"]);
    assert_eq!((refused.code, refused.stderr.lines().count()), (Some(125), 1), "{refused:?}");
    assert!(refused.stderr.contains('2') && refused.stderr.contains('3'), "{refused:?}");
    holder.end();
}

#[test]
fn a_name_in_use_as_one_kind_is_refused_as_another_and_never_waited_for() {
    let place = Place::new();
    let kinds = [&[][..], &["-s"], &["-x"], &["--permits", "2"]];
    let is_semaphore = |options: &[&str]| options.contains(&"--permits");
    for held in kinds {
        let holder = hold(&place, held);
        for asked in kinds.iter().filter(|asked| is_semaphore(asked) != is_semaphore(held)) {
            let refused = place.run(&[&["run"], *asked, &["x", "--", "true"]].concat());
            assert_eq!((refused.code, refused.stderr.lines().count()), (Some(125), 1), "{asked:?}: {refused:?}");
            assert!(refused.stderr.contains("another kind of lock"), "{refused:?}");
            assert_eq!(code(&place, asked), Some(125), "{held:?} {asked:?}");
        }
        assert_eq!(place.contenders("x"), 1, "no refused contender is left");
        holder.end();
    }
}

/// As with `flock`: without an option it is the exclusive side of the same lock.
#[test]
fn a_run_and_a_shared_run_of_one_name_that_overlap_both_succeed_one_after_the_other() {
    let place = Place::new();
    for (held, asked) in [(&[][..], &["-s"][..]), (&["-s"], &[]), (&[], &["-x"]), (&["-x"], &[])] {
        let holder = hold(&place, held);
        assert_eq!(code(&place, asked), Some(124), "{held:?} keeps {asked:?} out");
        let arguments = [&["run", "-w", "10m"], asked, &["x", "--", "echo", "ran"]].concat();
        let second = place.command(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        eventually("the second one waits", || (place.contenders("x") == 2).then_some(()));
        assert_eq!(
            contenders(&place.show("x")).iter().map(|(state, _)| *state).collect::<Vec<_>>(),
            ["holder", "waiter"]
        );
        holder.end();
        let second = wait(second);
        assert_eq!((second.code, &*second.stdout), (Some(0), "ran\n"), "{held:?} {asked:?}: {second:?}");
    }
}

#[test]
fn wait_ends_when_the_last_reader_or_permit_is_gone() {
    let place = Place::new();
    for options in [&["-s"][..], &["--permits", "2"]] {
        let holders = [hold(&place, options), hold(&place, options)];
        assert_eq!(place.run(&["wait", "x", "-w", "0"]).code, Some(124));
        assert_eq!(place.run(&["wait", "x", "-w", "100ms"]).code, Some(124), "{options:?}");
        let mut waiting = place.command(&["wait", "x"]).spawn().unwrap();
        for holder in holders {
            assert!(waiting.try_wait().unwrap().is_none(), "{options:?}");
            holder.end();
        }
        assert!(in_time("the wait ends", move || waiting.wait().unwrap()).success());
    }
}

#[test]
fn the_command_is_told_what_it_runs_under_and_can_check_it_for_every_kind() {
    let place = Place::new();
    for options in [&["-s"][..], &["-x"], &["--permits", "2"]] {
        let script = r#""$LOCKKEEPER" check && echo "$LOCKKEEPER_NAME $LOCKKEEPER_TOKEN $LOCKKEEPER_CONTENDER"
            "$LOCKKEEPER" show --json x"#;
        let ended = place.run(&[&["run"], options, &["x", "--", "sh", "-c", script]].concat());
        let (line, shown) = ended.stdout.split_once('\n').unwrap_or_else(|| panic!("{ended:?}"));
        let shown: Value = serde_json::from_str(shown).unwrap();
        let contender = &shown["contenders"][0];
        let text = |name: &str| contender[name].as_str().unwrap();
        assert_eq!(line, format!("x {} {}", text("token"), text("id")), "{options:?}");
    }
}

#[test]
fn a_nested_run_of_the_same_name_is_refused_for_all_kinds() {
    let place = Place::new();
    for outer in [&[][..], &["-s"], &["-x"], &["--permits", "2"]] {
        for inner in ["", "-s", "-x", "--permits 2"] {
            let script = format!(r#"exec "$LOCKKEEPER" run {inner} x -- true"#);
            let ended = place.run(&[&["run"], outer, &["x", "--", "sh", "-c", &script]].concat());
            assert_eq!(ended.code, Some(125), "{outer:?} {inner}: {ended:?}");
            // On a busy machine it says that it waits for the service.
            let mut lines = ended.stderr.lines().filter(|line| !line.starts_with("lockkeeper: waiting for "));
            assert!(lines.next().is_some_and(|line| line.contains("itself")) && lines.next().is_none(), "{ended:?}");
        }
    }
}

#[test]
fn the_kernel_gives_a_share_back_when_its_runner_and_command_are_killed() {
    let place = Place::new();
    let mut readers = [hold(&place, &["-s"]), hold(&place, &["-s"])];
    let mut writer = place.command(&["run", "-q", "-x", "x", "--", "true"]).spawn().unwrap();
    eventually("the writer waits", || (place.contenders("x") == 3).then_some(()));
    for reader in &mut readers {
        reader.process.kill().unwrap();
        reader.process.wait().unwrap();
    }
    assert!(in_time("the writer had its turn", move || writer.wait().unwrap()).success());
    assert_eq!(finish(&mut place.command(&["ls"])).stdout, "");
}
