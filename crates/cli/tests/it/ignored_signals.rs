//! Signals that the caller ignores, as `nohup` does and a script for its background jobs: they stay ignored.

use std::fs;
use std::net::TcpListener;
use std::process::Command;

use rustix::process::Signal;

use crate::support::{Place, Running, is_alive};

/// Those that `run` passes on to its command where the caller does not ignore them.
const PASSED_ON: [Signal; 7] =
    [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM, Signal::USR1, Signal::USR2, Signal::TSTP];

/// Their names, as `env` wants them.
const PASSED_ON_NAMES: &str = "HUP,INT,QUIT,TERM,USR1,USR2,TSTP";

/// `lockkeeper ARGUMENTS`, started as `env DISPOSITION` starts it.
fn started_by(place: &Place, disposition: &str, arguments: &[&str]) -> Command {
    let inner = place.command(arguments);
    let mut outer = Command::new("env");
    outer.arg(disposition).arg(inner.get_program()).args(inner.get_args()).current_dir(place.notes());
    place.surround(&mut outer);
    outer
}

/// The signals of `among` that a process has in a mask of its, by its name in `/proc`.
fn signals_in(mask: &str, process: i32, among: &[Signal]) -> Vec<Signal> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(mask)?.strip_prefix(':')).unwrap();
    let bits = u64::from_str_radix(line.trim(), 16).unwrap();
    among.iter().copied().filter(|signal| bits & (1 << (signal.as_raw() - 1)) != 0).collect()
}

/// Starts a run whose command is under way until its stdin ends; returns it, its watchdog and its command. With
/// `--restart` this is its second turn.
///
/// The command starts no process: a shell that does blocks all signals for a moment.
fn start(place: &Place, disposition: &str, options: &[&str]) -> (Running, i32, i32) {
    let first_turn = if options.contains(&"--restart") { "[ -e turned ] || { : > turned; exit 3; };" } else { "" };
    let script = format!("{first_turn} echo $PPID > watchdog; echo $$ > child; read line; exit 0");
    let arguments = [&["run", "-q"], options, &["x", "--", "sh", "-c", &script]].concat();
    let runner = Running::with_input(&mut started_by(place, disposition, &arguments));
    (runner, place.note("watchdog"), place.note("child"))
}

#[test]
fn what_the_caller_ignores_is_ignored_by_the_runner_the_watchdog_and_the_command_in_each_turn() {
    for options in [&[][..], &["--restart"]] {
        let place = Place::new();
        let (mut runner, watchdog, child) = start(&place, &format!("--ignore-signal={PASSED_ON_NAMES}"), options);
        for process in [runner.pid(), watchdog, child] {
            assert_eq!(signals_in("SigIgn", process, &PASSED_ON), PASSED_ON, "{process} {options:?}");
            assert_eq!(signals_in("SigCgt", process, &PASSED_ON), [], "{process} {options:?}");
        }
        assert_eq!(signals_in("SigBlk", child, &PASSED_ON), []);
        runner.close_input();
        assert_eq!(runner.end().code, Some(0));
    }
}

#[test]
fn a_command_whose_caller_ignores_term_is_killed_after_the_grace() {
    let place = Place::new();
    let (runner, _, child) = start(&place, "--ignore-signal=TERM", &["--grace", "300ms"]);
    runner.send(Signal::TERM);
    assert_eq!(place.run(&["revoke", "x", "-w", "20s"]).code, Some(0));
    assert_eq!(runner.end().code, Some(137), "TERM ended neither the runner nor the command");
    assert!(!is_alive(child));
    assert_eq!(place.contenders("x"), 0);
}

#[test]
fn commands_that_end_by_a_signal_leave_alone_those_that_the_caller_ignores() {
    let place = Place::new();
    let _holder = place.hold("x");
    let waiting = "waiting for x";
    let mut commands = vec![
        (&["run", "x", "--", "true"][..], 129, Some(waiting)),
        (&["hold", "-w", "1m", "x"], 129, Some(waiting)),
        (&["hold", "y"], 129, None),
        (&["show", "x", "--watch"], 129, None),
        (&["server", "--listen", "127.0.0.1:0"], 0, Some("serving")),
    ];
    if cfg!(feature = "monitor") {
        commands.push((&["monitor", "--listen", "127.0.0.1:0"], 0, Some("watching")));
    }
    for (arguments, code, said) in commands {
        let process = Running::with_input(&mut started_by(&place, "--ignore-signal=TERM,INT", arguments));
        // What it says first, it says when it listens.
        match said {
            Some(words) => process.until_said(words),
            None => assert_ne!(process.line(), "", "{arguments:?}"),
        }
        assert_eq!(signals_in("SigCgt", process.pid(), &[Signal::TERM, Signal::INT]), [], "{arguments:?}");
        for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
            process.send(signal);
        }
        let ended = process.end();
        assert_eq!(ended.code, Some(code), "{arguments:?}: {ended:?}");
    }
}

#[test]
fn signals_are_handled_from_a_commands_start_and_end_it_as_the_kernel_would_until_it_listens() {
    let place = Place::new();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let service = format!("zk://{}", silent.local_addr().unwrap());
    for signal in [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM, Signal::USR1, Signal::USR2] {
        // Looks do not listen for signals.
        let process = Running::start(&mut place.command(&["--connect", &service, "ls"]));
        let _asked = silent.accept().unwrap();
        assert_eq!(signals_in("SigCgt", process.pid(), &[signal]), [signal]);
        process.send(signal);
        let ended = process.end();
        assert_eq!(ended.code, None, "{signal:?}: {ended:?}");
    }
}
