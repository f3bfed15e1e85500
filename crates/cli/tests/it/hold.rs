//! `hold`: a lock without a command, from its token to its end.

use std::process::Command;

use rustix::process::Signal;

use crate::support::{Ended, Place, Running, finish};

/// A `hold` that has the lock.
struct Held {
    itself: Running,
    token: String,
}

impl Held {
    fn start(place: &Place, options: &[&str]) -> Self {
        let itself = Running::with_input(&mut place.command(&[&["hold", "x"], options].concat()));
        let token = itself.line().strip_suffix('\n').expect("a whole line").to_owned();
        Self { itself, token }
    }

    /// Lets it end with its input; returns what it printed after its token.
    fn give_back(mut self) -> Ended {
        self.itself.close_input();
        self.itself.end()
    }
}

#[test]
fn it_prints_its_token_and_holds_the_lock_until_stdin_ends() {
    let place = Place::new();
    let held = Held::start(&place, &[]);
    let shown = place.show("x");
    assert_eq!(shown["contenders"][0]["token"], held.token.as_str());
    assert_eq!(shown["contenders"][0]["state"], "holder");
    assert_eq!(place.run(&["run", "-n", "x", "--", "true"]).code, Some(124));
    let ended = held.give_back();
    // On a busy machine it has said that it waits for the service.
    let said = ended.stderr.lines().find(|line| !line.starts_with("lockkeeper: waiting for "));
    assert_eq!((ended.code, &*ended.stdout, said), (Some(0), "", None));
    assert_eq!(place.run(&["run", "-n", "x", "--", "true"]).code, Some(0), "it was given back");
}

#[test]
fn a_signal_or_a_request_ends_it_and_gives_the_lock_back() {
    let place = Place::new();
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129)] {
        let held = Held::start(&place, &[]);
        held.itself.send(signal);
        let ended = held.itself.end();
        assert_eq!((ended.code, &*ended.stdout), (Some(code), ""));
        assert_eq!(place.contenders("x"), 0);
    }
    let held = Held::start(&place, &[]);
    assert_eq!(place.run(&["revoke", "x", "--reason", "deploying", "-w", "2m"]).code, Some(0));
    let ended = held.itself.end();
    assert_eq!((ended.code, &*ended.stdout), (Some(143), ""));
    assert!(ended.stderr.contains("deploying"), "{ended:?}");
}

#[test]
fn a_loss_is_printed_and_ends_it_with_123() {
    let place = Place::new();
    let held = Held::start(&place, &[]);
    assert_eq!(place.run(&["break", "x", "--token", &held.token]).code, Some(0));
    let ended = held.itself.end();
    assert_eq!(ended.code, Some(123));
    assert!(ended.stdout.starts_with("lost ") && ended.stdout.lines().count() == 1, "{ended:?}");
    assert!(ended.stderr.contains("x: the lock was lost"), "{ended:?}");
    let ended = Held::start(&place, &["--max-hold", "100ms"]).itself.end();
    assert_eq!((ended.code, &*ended.stdout), (Some(123), ""));
    assert!(ended.stderr.contains("--max-hold"), "{ended:?}");
    assert_eq!(place.contenders("x"), 0);
}

#[test]
fn a_lock_that_cannot_be_acquired_has_the_exit_codes_of_run() {
    let place = Place::new();
    let held = Held::start(&place, &[]);
    for (options, code) in
        [(&["-n"][..], 124), (&["-w", "100ms"], 124), (&["-w", "0"], 124), (&["-n", "-E", "7"], 7), (&["-nqz"], 125)]
    {
        let ended = Running::with_input(&mut place.command(&[&["hold", "x"], options].concat())).end();
        assert_eq!((ended.code, &*ended.stdout), (Some(code), ""), "{options:?}");
        assert!(ended.stderr.starts_with("lockkeeper: "), "{ended:?}");
    }
    assert_eq!(place.contenders("x"), 1);
    let mut waiting = Running::with_input(&mut place.command(&["hold", "x"]));
    place.until_contenders("x", 2);
    waiting.close_input();
    let ended = waiting.end();
    assert!(ended.code == Some(125) && ended.stderr.contains("stdin ended while waiting"), "{ended:?}");
    assert_eq!(place.contenders("x"), 1, "it left the queue");
    held.give_back();
}

#[test]
fn a_stdin_that_is_closed_at_the_start_is_refused() {
    let place = Place::new();
    for closed in ["<&-", "</dev/null", "< <(true)"] {
        // A pipe shows that its writer has ended only once it has.
        let script = format!(r#"exec {closed}; wait $!; exec "$LOCKKEEPER" hold x"#);
        let ended = finish(place.surround(Command::new("bash").args(["-c", &script])));
        ended.assert_refused(125, &["stdin is closed"]);
    }
    assert!(!place.locks().join("queues").exists(), "nothing was asked for");
}

#[test]
fn the_example_of_its_help_works_as_it_stands() {
    let place = Place::new();
    let help = place.run(&["help", "hold"]).stdout;
    assert!(help.contains("Prefer `lockkeeper run`"), "{help}");
    let example: Vec<_> = help
        .lines()
        .skip_while(|line| !line.starts_with("Example"))
        .skip(1)
        .take_while(|line| !line.is_empty())
        .map(str::trim_start)
        .collect();
    let script = example.join("\n");
    let look = r#"exec 3>&-"#;
    assert!(script.contains("mkfifo") && script.contains(look), "{script}");
    // The lock is looked at before the script gives it back.
    let script = script.replace(look, &format!("lockkeeper run -n nightly-backup -- true; echo code $?\n{look}"));
    let script = format!("{script}\nlockkeeper run -n nightly-backup -- echo free");
    let ended = finish(place.surround(Command::new("sh").args(["-c", &script])).current_dir(place.notes()));
    let lines: Vec<_> = ended.stdout.lines().collect();
    assert!(lines[0].starts_with("backing up with token ") && lines[0].len() > 22, "{ended:?}");
    assert_eq!(lines[1..], ["code 124", "free"], "{ended:?}");
    assert_eq!(std::fs::read_dir(place.notes()).unwrap().count(), 0);
}
