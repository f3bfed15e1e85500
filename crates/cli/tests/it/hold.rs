//! `hold`: a lock without a command, from its token to its end.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Ended, Place, eventually, finish, in_time, wait};

/// A `hold` that has the lock.
struct Held {
    process: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    stderr: ChildStderr,
    token: String,
}

impl Held {
    fn start(place: &Place, options: &[&str]) -> Self {
        let mut command = place.command(&[&["hold", "x"], options].concat());
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (stdin, stderr) = (process.stdin.take(), process.stderr.take().unwrap());
        let mut stdout = BufReader::new(process.stdout.take().unwrap());
        let (token, stdout) = in_time("it prints its token", move || {
            let mut line = String::new();
            stdout.read_line(&mut line).unwrap();
            (line, stdout)
        });
        let token = token.strip_suffix('\n').expect("a whole line").to_owned();
        Self { process, stdin, stdout, stderr, token }
    }

    fn send(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
    }

    fn close_stdin(&mut self) {
        self.stdin = None;
    }

    /// Waits for its end; returns what it printed after its token.
    fn ended(mut self) -> Ended {
        let stdin = self.stdin.take();
        in_time("it ends", move || {
            let (mut stdout, mut stderr) = (String::new(), String::new());
            self.stdout.read_to_string(&mut stdout).unwrap();
            self.stderr.read_to_string(&mut stderr).unwrap();
            let code = self.process.wait().unwrap().code();
            drop(stdin);
            Ended { code, stdout, stderr }
        })
    }
}

#[test]
fn it_prints_its_token_and_holds_the_lock_until_stdin_ends() {
    let place = Place::new();
    let mut held = Held::start(&place, &[]);
    let shown = place.show("x");
    assert_eq!(shown["contenders"][0]["token"], held.token.as_str());
    assert_eq!(shown["contenders"][0]["state"], "holder");
    assert_eq!(place.run(&["run", "-n", "x", "--", "true"]).code, Some(124));
    held.close_stdin();
    let ended = held.ended();
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
        held.send(signal);
        let ended = held.ended();
        assert_eq!((ended.code, &*ended.stdout), (Some(code), ""));
        assert_eq!(place.contenders("x"), 0);
    }
    let held = Held::start(&place, &[]);
    assert_eq!(place.run(&["revoke", "x", "--reason", "deploying", "-w", "2m"]).code, Some(0));
    let ended = held.ended();
    assert_eq!((ended.code, &*ended.stdout), (Some(143), ""));
    assert!(ended.stderr.contains("deploying"), "{ended:?}");
}

#[test]
fn a_loss_is_printed_and_ends_it_with_123() {
    let place = Place::new();
    let held = Held::start(&place, &[]);
    assert_eq!(place.run(&["break", "x", "--token", &held.token]).code, Some(0));
    let ended = held.ended();
    assert_eq!(ended.code, Some(123));
    assert!(ended.stdout.starts_with("lost ") && ended.stdout.lines().count() == 1, "{ended:?}");
    assert!(ended.stderr.contains("x: the lock was lost"), "{ended:?}");
    let ended = Held::start(&place, &["--max-hold", "100ms"]).ended();
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
        let mut command = place.command(&[&["hold", "x"], options].concat());
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stdin = process.stdin.take();
        let ended = wait(process);
        drop(stdin);
        assert_eq!((ended.code, &*ended.stdout), (Some(code), ""), "{options:?}");
        assert!(ended.stderr.starts_with("lockkeeper: "), "{ended:?}");
    }
    assert_eq!(place.contenders("x"), 1);
    let mut waiting = place.command(&["hold", "x"]);
    let mut waiting = waiting.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    eventually("it waits", || (place.contenders("x") == 2).then_some(()));
    drop(waiting.stdin.take());
    let ended = wait(waiting);
    assert!(ended.code == Some(125) && ended.stderr.contains("stdin ended while waiting"), "{ended:?}");
    assert_eq!(place.contenders("x"), 1, "it left the queue");
    held.send(Signal::TERM);
    held.ended();
}

#[test]
fn shares_and_permits_are_held_side_by_side() {
    let place = Place::new();
    for (options, most) in [(&["-s"][..], 2), (&["--permits", "2"], 2)] {
        let both = [Held::start(&place, options), Held::start(&place, options)];
        let shown = place.show("x");
        let holders = shown["contenders"].as_array().unwrap().iter().filter(|other| other["state"] == "holder").count();
        assert_eq!(holders, most, "{options:?}");
        both.into_iter().for_each(|mut held| {
            held.close_stdin();
            assert_eq!(held.ended().code, Some(0));
        });
    }
    let mut alone = Held::start(&place, &["-x"]);
    assert_eq!(place.run(&["run", "-n", "-s", "x", "--", "true"]).code, Some(124));
    alone.close_stdin();
    assert_eq!(alone.ended().code, Some(0));
}

#[test]
fn a_stdin_that_is_closed_at_the_start_is_refused() {
    let place = Place::new();
    for closed in ["<&-", "</dev/null", "< <(true)"] {
        // A pipe shows that its writer has ended only once it has.
        let script = format!(r#"exec {closed}; wait $!; exec "$LOCKKEEPER" hold x"#);
        let ours = place.command::<&str>(&[]);
        let mut command = Command::new("bash");
        command.args(["-c", &script]).env_clear();
        command.envs(ours.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let ended = finish(&mut command);
        assert_eq!((ended.code, &*ended.stdout), (Some(125), ""), "{closed}");
        assert!(ended.stderr.contains("stdin is closed"), "{closed}: {ended:?}");
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
    let directory = tempfile::tempdir().unwrap();
    let ours = place.command::<&str>(&[]);
    let mut command = Command::new("sh");
    command.args(["-c", &script]).current_dir(directory.path()).env_clear();
    command.envs(ours.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let binaries = Path::new(env!("CARGO_BIN_EXE_lockkeeper")).parent().unwrap();
    command.env("PATH", format!("{}:{}", binaries.display(), std::env::var("PATH").unwrap()));
    let ended = finish(&mut command);
    let lines: Vec<_> = ended.stdout.lines().collect();
    assert!(lines[0].starts_with("backing up with token ") && lines[0].len() > 22, "{ended:?}");
    assert_eq!(lines[1..], ["code 124", "free"], "{ended:?}");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn a_holder_that_has_waited_is_said_to_have_held_since_its_grant() {
    let place = Place::new();
    let mut first = Held::start(&place, &[]);
    let shown = place.show("x");
    let millis = |shown: &serde_json::Value, contender: usize, key: &str| shown["contenders"][contender][key].as_u64();
    assert!(millis(&shown, 0, "held_ms").unwrap() <= millis(&shown, 0, "age_ms").unwrap(), "{shown}");
    let mut command = place.command(&["hold", "x"]);
    let mut waiter = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    // It waits for this long before it is granted the lock.
    let waited_ms = 1_200;
    eventually("it has waited", || {
        let shown = place.show("x");
        assert_eq!(millis(&shown, 1, "held_ms"), None, "{shown}");
        millis(&shown, 1, "age_ms").filter(|&age| age >= waited_ms)
    });
    first.close_stdin();
    assert_eq!(first.ended().code, Some(0));
    let mut stdout = BufReader::new(waiter.stdout.take().unwrap());
    let stdout = in_time("it prints its token", move || {
        stdout.read_line(&mut String::new()).unwrap();
        stdout
    });
    let shown = place.show("x");
    let (held, age) = (millis(&shown, 0, "held_ms").unwrap(), millis(&shown, 0, "age_ms").unwrap());
    assert!(held + waited_ms <= age, "{shown}");
    let text = place.run(&["show", "x"]).stdout;
    assert!(text.contains("HERE") && text.contains("HELD"), "{text}");
    drop(waiter.stdin.take());
    assert_eq!(in_time("it ends", move || waiter.wait().unwrap().code()), Some(0));
    drop(stdout);
}
