//! `lockkeeper run`: the command is its caller's in all but its end.

use std::io::Write;
use std::process::{Command, Stdio};

use rustix::process::Signal;

use crate::support::{Place, copy_command, finish, has_program, state};

#[test]
fn the_commands_exit_code_comes_back() {
    let place = Place::new();
    for code in [0, 1, 7, 255] {
        assert_eq!(place.script("x", &format!("exit {code}")).code, Some(code));
    }
    for signal in [9, 15, 35] {
        assert_eq!(place.script("x", &format!("kill -{signal} $$")).code, Some(128 + signal));
    }
}

#[test]
fn stdin_stdout_and_stderr_are_the_commands_own() {
    let place = Place::new();
    let mut command = place.script_of(&[], "cat; echo to stderr >&2");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut runner = command.spawn().unwrap();
    let mut stdin = runner.stdin.take().unwrap();
    let text = "line\n".repeat(100_000);
    let writer = std::thread::spawn(move || stdin.write_all(text.as_bytes()).unwrap());
    let output = runner.wait_with_output().unwrap();
    writer.join().unwrap();
    assert_eq!(output.stdout.len(), 500_000);
    assert_eq!(output.stderr, b"to stderr\n");
}

#[test]
fn the_command_has_its_callers_signals_and_inherits_no_open_file_of_ours() {
    let place = Place::new();
    for script in
        ["cd /proc/self/fd && for file in *; do echo $file; done", "grep -E '^Sig(Blk|Ign|Cgt)' /proc/self/status"]
    {
        let direct = finish(Command::new("sh").args(["-c", script]));
        assert!(direct.stdout.lines().count() >= 3, "{direct:?}");
        assert_eq!(place.script("x", script).stdout, direct.stdout);
    }
}

#[test]
fn a_caller_that_ignores_the_end_of_its_children_gets_the_exit_code_too() {
    if !has_program("python3") {
        return;
    }
    let place = Place::new();
    let inner = place.script_of(&[], "exit 7");
    // A shell does not let go of SIGCHLD.
    let ignore =
        "import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])";
    let mut outer = Command::new("python3");
    outer.args(["-c", ignore]).arg(inner.get_program()).args(inner.get_args());
    assert_eq!(finish(place.surround(&mut outer)).code, Some(7));
}

#[test]
fn signals_reach_the_command_and_its_group_and_the_code_comes_back() {
    for (name, signal) in [
        ("TERM", Signal::TERM),
        ("INT", Signal::INT),
        ("HUP", Signal::HUP),
        ("QUIT", Signal::QUIT),
        ("USR1", Signal::USR1),
        ("USR2", Signal::USR2),
    ] {
        let place = Place::new();
        // A shell starts background commands with INT and QUIT ignored and cannot undo that. So the member of the group
        // that must receive them runs in the foreground.
        let script = format!(
            r#"trap 'exit 42' {name}
            sh -c 'trap "echo 1 > heard; exit 0" {name}; echo $$ > ready; while :; do sleep 0.01; done'
            while :; do sleep 0.01; done"#
        );
        let runner = place.start(&[], &script);
        place.note("ready");
        runner.send(signal);
        assert_eq!(runner.end().code, Some(42), "{name}");
        assert_eq!(place.note("heard"), 1, "{name}");
    }
}

#[test]
fn the_command_is_the_only_program_that_is_executed_and_no_process_of_ours_is_left() {
    let place = Place::new();
    let runner = place.start(&[], "echo $PPID > watchdog; echo $$ > child; while [ ! -e end ]; do sleep 0.01; done");
    place.note("child");
    let watchdog = place.note("watchdog");
    let command_line = |pid: i32| std::fs::read(format!("/proc/{pid}/cmdline")).unwrap();
    assert_eq!(command_line(watchdog), command_line(runner.pid()));
    place.write("end", "");
    assert_eq!(runner.end().code, Some(0));
    assert_eq!(state(watchdog), None);
}

#[test]
fn the_one_file_of_the_command_works_wherever_it_lies() {
    let place = Place::new();
    let elsewhere = place.notes().join("lk");
    copy_command(&elsewhere);
    let mut copied = Command::new(&elsewhere);
    copied.args(["run", "lock", "--", "sh", "-c", "rm lk; exit 7"]).current_dir(place.notes());
    assert_eq!(finish(place.surround(&mut copied)).code, Some(7), "also when it was deleted meanwhile");
}

#[test]
fn a_hidden_step_started_by_hand_refuses() {
    Place::new().run(&["__watchdog", "true"]).assert_refused(125, &[]);
}
