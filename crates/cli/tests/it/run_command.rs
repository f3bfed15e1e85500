//! `lockkeeper run`: the command is its caller's in all but its end.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::Signal;

use crate::support::run_place::{RunPlace, lines, run};
use crate::support::{copy_command, ended, is_alive, lockkeeper, send};

#[test]
fn the_commands_exit_code_comes_back() {
    let place = RunPlace::new();
    for code in [0, 1, 7, 255] {
        assert_eq!(run(&mut place.script(&[], &format!("exit {code}"))).status.code(), Some(code));
    }
    for signal in [9, 15, 35] {
        let status = run(&mut place.script(&[], &format!("kill -{signal} $$"))).status;
        assert_eq!(status.code(), Some(128 + signal));
    }
}

#[test]
fn a_command_that_cannot_be_executed_gives_one_clear_line() {
    let place = RunPlace::new();
    let attempt = |program: &str| {
        let output = run(lockkeeper(place.locks.path()).args(["run", "lock", "--", program]));
        (output.status.code(), lines(&output.stderr))
    };
    let missing = attempt("no-such-command");
    assert_eq!(missing, (Some(127), vec!["lockkeeper: cannot run no-such-command: No such file or directory".into()]));
    let plain = attempt("/etc/passwd");
    assert_eq!(plain, (Some(126), vec!["lockkeeper: cannot run /etc/passwd: Permission denied".into()]));
}

#[test]
fn stdin_stdout_and_stderr_are_the_commands_own() {
    let place = RunPlace::new();
    let mut runner = place
        .script(&[], "cat; echo to stderr >&2")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = runner.stdin.take().unwrap();
    let text = "line\n".repeat(100_000);
    let writer = std::thread::spawn(move || stdin.write_all(text.as_bytes()).unwrap());
    let output = runner.wait_with_output().unwrap();
    writer.join().unwrap();
    assert_eq!(output.stdout.len(), 500_000);
    assert_eq!(output.stderr, b"to stderr\n");
}

#[test]
fn the_command_inherits_no_open_file_of_ours() {
    let place = RunPlace::new();
    let script = "cd /proc/self/fd && for file in *; do echo $file; done";
    let direct = run(Command::new("sh").args(["-c", script]));
    let under_lock = run(&mut place.script(&[], script));
    assert!(!direct.stdout.is_empty());
    assert_eq!(lines(&under_lock.stdout), lines(&direct.stdout));
}

#[test]
fn the_command_starts_with_the_callers_signals() {
    let place = RunPlace::new();
    let script = "grep -E '^Sig(Blk|Ign|Cgt)' /proc/self/status";
    let direct = run(Command::new("sh").args(["-c", script]));
    let under_lock = run(&mut place.script(&[], script));
    assert_eq!(lines(&direct.stdout).len(), 3);
    assert_eq!(lines(&under_lock.stdout), lines(&direct.stdout));
}

#[test]
fn a_signal_that_the_caller_ignores_is_ignored_by_the_command() {
    let place = RunPlace::new();
    let inner = place.script(&[], "echo $$ > child; exec sleep 600");
    let mut outer = Command::new("sh");
    outer.args(["-c", r#"trap '' HUP; exec "$@""#, "sh"]).arg(inner.get_program()).args(inner.get_args());
    outer.env("LOCKKEEPER_DIR", place.locks.path()).current_dir(place.notes.path());
    let mut runner = outer.spawn().unwrap();
    let child = place.note("child");
    let pid = runner.id().cast_signed();
    send(pid, Signal::HUP);
    send(pid, Signal::TERM);
    assert_eq!(ended(&mut runner).code(), Some(128 + 15), "TERM ended it, not HUP");
    assert!(!is_alive(child));
}

#[test]
fn a_caller_that_ignores_the_end_of_its_children_gets_the_exit_code_too() {
    let place = RunPlace::new();
    let inner = place.script(&[], "exit 7");
    // A shell does not let go of SIGCHLD.
    let mut outer = Command::new("python3");
    outer.args([
        "-c",
        "import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])",
    ]);
    outer.arg(inner.get_program()).args(inner.get_args());
    outer.env("LOCKKEEPER_DIR", place.locks.path()).current_dir(place.notes.path());
    let output = match outer.stdin(Stdio::null()).output() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let test = "run_command::a_caller_that_ignores_the_end_of_its_children_gets_the_exit_code_too";
            return lockkeeper_faults::skip::skip(test, "python3 is not in PATH (Debian: python3)");
        }
        output => output.unwrap(),
    };
    assert_eq!(output.status.code(), Some(7));
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
        let place = RunPlace::new();
        // A shell starts background commands with INT and QUIT ignored and cannot undo that. So the member of the group
        // that must receive them runs in the foreground.
        let script = format!(
            r#"trap 'exit 42' {name}
            sh -c 'trap "echo 1 > heard; exit 0" {name}; echo $$ > ready; while :; do sleep 0.01; done'
            while :; do sleep 0.01; done"#
        );
        let mut runner = place.script(&[], &script).stderr(Stdio::null()).spawn().unwrap();
        place.note("ready");
        send(runner.id().cast_signed(), signal);
        assert_eq!(ended(&mut runner).code(), Some(42), "{name}");
        assert_eq!(place.note("heard"), 1, "{name}");
    }
}

#[test]
fn a_command_ended_by_a_signal_to_its_runner_gives_128_and_the_signal() {
    let place = RunPlace::new();
    let mut runner = place.script(&[], "echo $$ > child; exec sleep 600").spawn().unwrap();
    place.note("child");
    send(runner.id().cast_signed(), Signal::TERM);
    let status = ended(&mut runner);
    assert_eq!((status.code(), status.signal()), (Some(143), None));
}

#[test]
fn the_command_is_the_only_program_that_is_executed() {
    let place = RunPlace::new();
    let script = "echo $PPID > watchdog; echo $$ > child; while [ ! -e end ]; do sleep 0.01; done";
    let mut runner = place.script(&[], script).spawn().unwrap();
    place.note("child");
    let command_line = |pid: i32| fs::read(format!("/proc/{pid}/cmdline")).unwrap();
    assert_eq!(command_line(place.note("watchdog")), command_line(runner.id().cast_signed()));
    fs::write(place.notes.path().join("end"), "").unwrap();
    assert!(ended(&mut runner).success());
}

#[test]
fn the_one_file_of_the_command_works_wherever_it_lies() {
    let place = RunPlace::new();
    let elsewhere = place.notes.path().join("lk");
    copy_command(&elsewhere);
    let mut copied = Command::new(&elsewhere);
    copied.args(["run", "lock", "--", "sh", "-c", "rm lk; exit 7"]).current_dir(place.notes.path());
    copied.env("LOCKKEEPER_DIR", place.locks.path());
    assert_eq!(run(&mut copied).status.code(), Some(7), "also when it was deleted meanwhile");
}

#[test]
fn the_runner_answers_whether_the_lock_is_held() {
    let place = RunPlace::new();
    let script = "echo $LOCKKEEPER_HOLD > hold; echo $LOCKKEEPER_TOKEN > token; \
                  echo $$ > child; while [ ! -e end ]; do sleep 0.01; done";
    let mut runner = place.script(&[], script).spawn().unwrap();
    place.note("child");
    let note = |name: &str| fs::read_to_string(place.notes.path().join(name)).unwrap().trim().to_owned();
    let answer = ask(&note("hold")).unwrap();
    assert_eq!(answer, format!("{{\"held\":true,\"safe_for_ms\":null,\"token\":\"{}\"}}\n", note("token")));
    fs::write(place.notes.path().join("end"), "").unwrap();
    assert!(ended(&mut runner).success());
    assert_eq!(ask(&note("hold")).unwrap_err().kind(), ErrorKind::ConnectionRefused);
}

fn ask(address: &str) -> std::io::Result<String> {
    let name = address.strip_prefix('@').unwrap();
    let mut stream = UnixStream::connect_addr(&SocketAddr::from_abstract_name(name)?)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

#[test]
fn a_hidden_step_started_by_hand_refuses() {
    let output = run(lockkeeper(Path::new("/nonexistent")).args(["__watchdog", "true"]));
    assert_eq!(output.status.code(), Some(125));
    assert_eq!(lines(&output.stderr).len(), 1);
}
