//! Read/write locks and semaphores on the command line, with real holders and waiters in other processes.

use serde_json::Value;

use crate::support::{Ended, Holder, Place, Running};

/// Takes a lock with these options and keeps it.
fn hold(place: &Place, options: &[&str]) -> Holder {
    place.hold_by(options, "x")
}

/// Starts a run with these options, which waits behind `ahead` others and then says `ran`.
pub(crate) fn queue(place: &Place, options: &[&str], ahead: usize) -> Running {
    let waiter = [&["run", "-q", "-w", "10m"], options, &["x", "--", "echo", "ran"]].concat();
    let waiter = Running::start(&mut place.command(&waiter));
    place.until_contenders("x", ahead + 1);
    waiter
}

#[track_caller]
pub(crate) fn assert_ran(waiter: Running) {
    let ended = waiter.end();
    assert_eq!((ended.code, &*ended.stdout), (Some(0), "ran\n"), "{ended:?}");
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
fn permits_are_counted_and_waiters_for_one_are_shown() {
    let place = Place::new();
    let holders = [hold(&place, &["--permits", "2"]), hold(&place, &["--permits", "2"])];
    let refused = attempt(&place, &["--permits", "2"]);
    assert_eq!(refused.code, Some(124));
    assert!(refused.stderr.contains("has no permit left"), "{refused:?}");
    let waiter = queue(&place, &["--permits", "2"], 2);
    let shown = place.show("x");
    assert_eq!(shown["kind"], "semaphore");
    assert_eq!(contenders(&shown), [("holder", "permit"), ("holder", "permit"), ("waiter", "acquire")]);
    let names = place.json(&["ls", "--json"]);
    assert_eq!(names.as_array().unwrap().len(), 1, "it is one lock: {names}");
    let line = Running::start(&mut place.command(&["run", "--permits", "2", "x", "--", "true"])).said();
    assert!(line.contains(" and 1 other; 2nd in line, "), "{line}");
    holders.into_iter().for_each(Holder::end);
    assert_ran(waiter);
    assert_eq!(place.contenders("x"), 0);
}

#[test]
fn a_bound_that_others_do_not_agree_with_is_refused_in_one_line() {
    let place = Place::new();
    let _holder = hold(&place, &["--permits", "2"]);
    attempt(&place, &["--permits", "3"]).assert_refused(125, &["2", "3", "--counter"]);
}

#[test]
fn a_counter_says_another_number_of_permits_while_some_are_held() {
    let place = Place::new();
    let of_counter = |permits: &'static str| ["--permits", permits, "--counter", "size"];
    let holder = hold(&place, &of_counter("1"));
    assert_eq!(code(&place, &["--counter", "size"]), Some(124), "the one permit is held");
    // What a rolling deploy does: the next version says another number.
    assert_eq!(code(&place, &of_counter("2")), Some(0));
    let second = hold(&place, &["--counter", "size"]);
    assert_eq!(code(&place, &of_counter("1")), Some(124), "no permit is taken away");
    [holder, second].into_iter().for_each(Holder::end);
    attempt(&place, &["-s", "--counter", "size"]).assert_refused(125, &["--counter"]);
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
            refused.assert_refused(125, &["another kind of lock"]);
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
        let second = queue(&place, asked, 1);
        let shown = place.show("x");
        assert!(contenders(&shown).iter().map(|(state, _)| *state).eq(["holder", "waiter"]), "{shown}");
        holder.end();
        assert_ran(second);
    }
}

#[test]
fn wait_ends_when_the_last_holder_is_gone_and_takes_no_part() {
    let place = Place::new();
    assert_eq!(place.run(&["wait", "x"]).code, Some(0));
    for (options, count) in [(&[][..], 1), (&["-s"], 2), (&["--permits", "2"], 2)] {
        let holders: Vec<_> = (0..count).map(|_| hold(&place, options)).collect();
        for time in ["0", "100ms"] {
            let ended = place.run(&["wait", "x", "-w", time]);
            assert_eq!((ended.code, ended.stderr.lines().count()), (Some(124), 1), "{options:?}: {ended:?}");
        }
        let mut waiting = Running::start(&mut place.command(&["wait", "x"]));
        let line = waiting.said();
        assert!(line.starts_with("lockkeeper: waiting for x (") && line.ends_with("s\n"), "{line}");
        assert_eq!(place.contenders("x"), count, "it takes no part");
        for holder in holders {
            assert!(!waiting.is_over(), "{options:?}");
            holder.end();
        }
        assert_eq!(waiting.end().code, Some(0));
    }
}

#[test]
fn the_command_is_told_what_it_runs_under_and_can_check_it_for_every_kind() {
    let place = Place::new();
    for options in [&[][..], &["-s"], &["-x"], &["--permits", "2"]] {
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
