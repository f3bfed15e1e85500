//! `lockkeeper run`: the command is its caller's in all but its end, and ends before another client gets the lock.

mod run_support;

use std::fs;
use std::io::{Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use run_support::{ended, eventually, is_alive, lockkeeper, number_in, send, state};
use rustix::process::Signal;
use tempfile::TempDir;

/// A directory for the locks and one for the notes of commands.
struct Place {
    locks: TempDir,
    notes: TempDir,
}

impl Place {
    fn new() -> Self {
        Self { locks: TempDir::new().unwrap(), notes: TempDir::new().unwrap() }
    }

    /// `lockkeeper run OPTIONS -- sh -c SCRIPT`; the script writes its notes into the current directory.
    fn script(&self, options: &[&str], script: &str) -> Command {
        let mut command = lockkeeper(self.locks.path());
        command.arg("run").arg("lock").args(options).args(["--", "sh", "-c", script]).current_dir(self.notes.path());
        command
    }

    fn note(&self, name: &str) -> i32 {
        number_in(&self.notes.path().join(name))
    }

    /// Runs the next holder, whose command tells whether any of `pids` was alive when it started.
    fn next_holder_finds_dead(&self, pids: &[i32]) -> bool {
        let script = r#"
            for pid in "$@"; do
                case "$(sed 's/.*) //' /proc/$pid/stat 2>/dev/null)" in ''|Z*|X*) ;; *) exit 1 ;; esac
            done"#;
        let mut next = self.script(&[], script);
        next.arg("sh").args(pids.iter().map(i32::to_string));
        ended(&mut next.spawn().unwrap()).success()
    }
}

/// Starts a command that ignores requests to end, as do a child in its group and one that `timeout` put into another.
///
/// Returns the runner; the command and its children; the watchdog.
fn start_stubborn(place: &Place, options: &[&str]) -> (Child, [i32; 3], i32) {
    let script = r#"
        trap '' TERM
        echo $PPID > watchdog
        sh -c 'trap "" TERM; echo $$ > grandchild; for second in $(seq 60); do sleep 1; done' &
        timeout 60 sh -c 'trap "" TERM; echo $$ > stray; for second in $(seq 60); do sleep 1; done' &
        echo $$ > child
        for second in $(seq 60); do sleep 1; done"#;
    let runner = place.script(options, script).stderr(Stdio::null()).spawn().unwrap();
    let pids = ["child", "grandchild", "stray"].map(|name| place.note(name));
    (runner, pids, place.note("watchdog"))
}

fn run(command: &mut Command) -> Output {
    command.stdin(Stdio::null()).output().unwrap()
}

fn lines(bytes: &[u8]) -> Vec<String> {
    String::from_utf8(bytes.to_vec()).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn the_commands_exit_code_comes_back() {
    let place = Place::new();
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
    let place = Place::new();
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
    let place = Place::new();
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
    let place = Place::new();
    let script = "cd /proc/self/fd && for file in *; do echo $file; done";
    let direct = run(Command::new("sh").args(["-c", script]));
    let under_lock = run(&mut place.script(&[], script));
    assert!(!direct.stdout.is_empty());
    assert_eq!(lines(&under_lock.stdout), lines(&direct.stdout));
}

#[test]
fn the_command_starts_with_the_callers_signals() {
    let place = Place::new();
    let script = "grep -E '^Sig(Blk|Ign|Cgt)' /proc/self/status";
    let direct = run(Command::new("sh").args(["-c", script]));
    let under_lock = run(&mut place.script(&[], script));
    assert_eq!(lines(&direct.stdout).len(), 3);
    assert_eq!(lines(&under_lock.stdout), lines(&direct.stdout));
}

#[test]
fn a_signal_that_the_caller_ignores_is_ignored_by_the_command() {
    let place = Place::new();
    let inner = place.script(&[], "echo $$ > child; exec sleep 60");
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
    let place = Place::new();
    let inner = place.script(&[], "exit 7");
    // A shell does not let go of SIGCHLD.
    let mut outer = Command::new("python3");
    outer.args([
        "-c",
        "import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])",
    ]);
    outer.arg(inner.get_program()).args(inner.get_args());
    outer.env("LOCKKEEPER_DIR", place.locks.path()).current_dir(place.notes.path());
    assert_eq!(run(&mut outer).status.code(), Some(7));
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
        let mut runner = place.script(&[], &script).stderr(Stdio::null()).spawn().unwrap();
        place.note("ready");
        send(runner.id().cast_signed(), signal);
        assert_eq!(ended(&mut runner).code(), Some(42), "{name}");
        assert_eq!(place.note("heard"), 1, "{name}");
    }
}

#[test]
fn a_command_ended_by_a_signal_to_its_runner_gives_128_and_the_signal() {
    let place = Place::new();
    let mut runner = place.script(&[], "echo $$ > child; exec sleep 60").spawn().unwrap();
    place.note("child");
    send(runner.id().cast_signed(), Signal::TERM);
    let status = ended(&mut runner);
    assert_eq!((status.code(), status.signal()), (Some(143), None));
}

#[test]
fn when_the_runner_is_killed_all_its_processes_are_dead_before_the_next_command_starts() {
    let place = Place::new();
    let (mut runner, pids, watchdog) = start_stubborn(&place, &["--grace", "200ms"]);
    assert!(pids.into_iter().all(is_alive));
    runner.kill().unwrap();
    ended(&mut runner);
    assert!(place.next_holder_finds_dead(&pids));
    eventually("the watchdog ends", || (!is_alive(watchdog)).then_some(()));
}

#[test]
fn when_the_runner_is_killed_the_command_may_end_in_order() {
    let place = Place::new();
    let script = "trap 'echo 1 > farewell; exit' TERM; echo $$ > child; while :; do sleep 0.01; done";
    let mut runner = place.script(&[], script).stderr(Stdio::null()).spawn().unwrap();
    let child = place.note("child");
    runner.kill().unwrap();
    ended(&mut runner);
    assert!(place.next_holder_finds_dead(&[child]));
    assert_eq!(place.note("farewell"), 1);
}

#[test]
fn when_the_command_ends_at_once_but_its_child_does_not_the_child_is_waited_for_and_killed() {
    let place = Place::new();
    let script = r#"
        sh -c 'trap "" TERM; echo $$ > grandchild; for second in $(seq 60); do sleep 1; done' &
        echo $$ > child
        exec sleep 60"#;
    let mut runner = place.script(&["--grace", "200ms"], script).stderr(Stdio::null()).spawn().unwrap();
    let pids = ["child", "grandchild"].map(|name| place.note(name));
    runner.kill().unwrap();
    ended(&mut runner);
    assert!(place.next_holder_finds_dead(&pids));
}

#[test]
fn when_the_watchdog_is_killed_all_its_processes_are_dead_before_the_next_command_starts() {
    let place = Place::new();
    let (mut runner, pids, watchdog) = start_stubborn(&place, &[]);
    send(watchdog, Signal::KILL);
    assert!(place.next_holder_finds_dead(&pids));
    assert_eq!(ended(&mut runner).code(), Some(125));
}

/// As in a container that a command was put into from outside: there the kernel gives no number for our session.
#[test]
fn where_our_session_is_outside_the_namespace_a_command_is_ended_all_the_same() {
    if !rustix::process::geteuid().is_root() {
        let test = "where_our_session_is_outside_the_namespace_a_command_is_ended_all_the_same";
        return lockkeeper_faults::skip::skip(test, "only root makes a namespace of processes");
    }
    let place = Place::new();
    let script = "kill -9 $PPID; exec sleep 60";
    let mut inside = Command::new("unshare");
    inside.args(["--pid", "--fork", "--mount-proc", env!("CARGO_BIN_EXE_lockkeeper"), "run", "lock", "--"]);
    let output = run(inside.args(["sh", "-c", script]).env("LOCKKEEPER_DIR", place.locks.path()));
    assert_eq!(output.status.code(), Some(125));
    assert_eq!(lines(&output.stderr).len(), 1, "{:?}", lines(&output.stderr));
}

#[test]
fn a_process_that_started_a_new_session_is_not_reached() {
    let place = Place::new();
    let script = "setsid sh -c 'echo $$ > daemon; exec sleep 60' & echo $$ > child; exec sleep 60";
    let mut runner = place.script(&[], script).stderr(Stdio::null()).spawn().unwrap();
    let [child, daemon] = ["child", "daemon"].map(|name| place.note(name));
    runner.kill().unwrap();
    ended(&mut runner);
    assert!(place.next_holder_finds_dead(&[child]));
    assert!(is_alive(daemon));
    send(daemon, Signal::KILL);
}

#[test]
fn when_the_runner_is_killed_a_nested_run_is_over_before_either_lock_is_free() {
    let place = Place::new();
    let script = r#"
        exec $LOCKKEEPER run inner --grace 60s -- sh -c '
            trap "" TERM; echo $$ > child; for second in $(seq 60); do sleep 1; done'"#;
    let mut runner = place.script(&["--grace", "200ms"], script);
    let mut runner = runner.env("LOCKKEEPER", env!("CARGO_BIN_EXE_lockkeeper")).stderr(Stdio::null()).spawn().unwrap();
    let child = place.note("child");
    runner.kill().unwrap();
    ended(&mut runner);
    assert!(place.next_holder_finds_dead(&[child]));
    assert!(run(lockkeeper(place.locks.path()).args(["run", "inner", "--no-wait", "--", "true"])).status.success());
}

#[test]
fn a_stopped_watchdog_does_not_keep_a_signal_from_ending_the_command() {
    let place = Place::new();
    let (mut runner, pids, watchdog) = start_stubborn(&place, &["--grace", "200ms"]);
    send(watchdog, Signal::STOP);
    send(runner.id().cast_signed(), Signal::TERM);
    assert_eq!(ended(&mut runner).code(), Some(128 + 9));
    assert!(!pids.into_iter().any(is_alive));
    assert!(place.next_holder_finds_dead(&pids));
}

#[test]
fn a_command_that_handles_its_signal_is_given_all_the_time_it_takes() {
    let place = Place::new();
    // Longer than the grace and a second, after which a watchdog that does not answer is not waited for.
    let script = "trap 'sleep 2; exit 9' TERM; echo $$ > child; while :; do sleep 0.01; done";
    let mut runner = place.script(&["--grace", "100ms"], script).stderr(Stdio::null()).spawn().unwrap();
    place.note("child");
    send(runner.id().cast_signed(), Signal::TERM);
    assert_eq!(ended(&mut runner).code(), Some(9));
}

#[test]
fn when_runner_and_watchdog_are_killed_together_the_command_dies_with_them() {
    let place = Place::new();
    let (mut runner, [child, grandchild, stray], watchdog) = start_stubborn(&place, &[]);
    // Both are stopped first, so that neither can act on the other's death.
    send(watchdog, Signal::STOP);
    send(runner.id().cast_signed(), Signal::STOP);
    send(runner.id().cast_signed(), Signal::KILL);
    send(watchdog, Signal::KILL);
    ended(&mut runner);
    eventually("the command dies", || (!is_alive(child)).then_some(()));
    // These may outlive them.
    send(grandchild, Signal::KILL);
    send(stray, Signal::KILL);
}

#[test]
fn a_stopped_runner_keeps_its_lock() {
    let place = Place::new();
    let mut runner =
        place.script(&[], "echo $$ > child; while [ ! -e end ]; do sleep 0.01; done; exit 3").spawn().unwrap();
    place.note("child");
    send(runner.id().cast_signed(), Signal::STOP);
    let attempt = || run(&mut place.script(&["--no-wait"], "true")).status.code();
    assert_eq!(attempt(), Some(124));
    fs::write(place.notes.path().join("end"), "").unwrap();
    assert_eq!(attempt(), Some(124), "the command may have ended; its runner still holds the lock");
    send(runner.id().cast_signed(), Signal::CONT);
    assert_eq!(ended(&mut runner).code(), Some(3));
    assert_eq!(attempt(), Some(0));
}

#[test]
fn what_a_command_leaves_in_the_background_is_left_alone_and_the_lock_released() {
    let place = Place::new();
    let script = "sleep 60 > /dev/null 2>&1 & echo $! > left";
    assert!(run(&mut place.script(&[], script)).status.success());
    let left = place.note("left");
    assert!(run(&mut place.script(&["--no-wait"], "true")).status.success());
    assert!(is_alive(left));
    send(left, Signal::KILL);
}

#[test]
fn orphans_of_the_command_do_not_fill_the_process_table() {
    let place = Place::new();
    let script = r#"
        echo $PPID > watchdog
        for orphan in 1 2 3 4 5 6 7 8; do (sh -c 'echo $$ > orphan$0' $orphan &); done
        echo $$ > child; while [ ! -e end ]; do sleep 0.01; done"#;
    let mut runner = place.script(&[], script).spawn().unwrap();
    for orphan in 1..=8 {
        let pid = place.note(&format!("orphan{orphan}"));
        eventually("the orphan was waited for", || state(pid).is_none().then_some(()));
    }
    fs::write(place.notes.path().join("end"), "").unwrap();
    assert!(ended(&mut runner).success());
}

#[test]
fn no_process_of_ours_is_left_when_the_runner_has_ended() {
    let place = Place::new();
    assert!(run(&mut place.script(&[], "echo $PPID > watchdog")).status.success());
    assert_eq!(state(place.note("watchdog")), None);
}

/// The processes whose parent is `parent`.
fn children(parent: i32) -> Vec<i32> {
    let list = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap_or_default();
    list.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

#[test]
fn a_run_that_waits_has_no_process_left_when_it_gives_up_or_is_killed() {
    let place = Place::new();
    let mut holder = place.script(&[], "echo $$ > child; while [ ! -e end ]; do sleep 0.01; done").spawn().unwrap();
    place.note("child");
    let waiting = |options: &[&str]| {
        let waiter = place.script(options, "true").stderr(Stdio::null()).spawn().unwrap();
        let watchdog = eventually("it has a watchdog", || children(waiter.id().cast_signed()).first().copied());
        (waiter, watchdog)
    };
    let (mut gives_up, watchdog) = waiting(&["-w", "500ms"]);
    assert_eq!(ended(&mut gives_up).code(), Some(124));
    assert_eq!(state(watchdog), None);
    let (mut gives_up, watchdog) = waiting(&["-w", "500ms"]);
    send(watchdog, Signal::STOP);
    assert_eq!(ended(&mut gives_up).code(), Some(124));
    assert_eq!(state(watchdog), None);
    let (mut killed, watchdog) = waiting(&[]);
    killed.kill().unwrap();
    ended(&mut killed);
    eventually("its watchdog ends", || (!is_alive(watchdog)).then_some(()));
    fs::write(place.notes.path().join("end"), "").unwrap();
    assert!(ended(&mut holder).success());
}

#[test]
fn the_command_is_the_only_program_that_is_executed() {
    let place = Place::new();
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
    let place = Place::new();
    let elsewhere = place.notes.path().join("lk");
    fs::copy(env!("CARGO_BIN_EXE_lockkeeper"), &elsewhere).unwrap();
    let mut copied = Command::new(&elsewhere);
    copied.args(["run", "lock", "--", "sh", "-c", "rm lk; exit 7"]).current_dir(place.notes.path());
    copied.env("LOCKKEEPER_DIR", place.locks.path());
    assert_eq!(run(&mut copied).status.code(), Some(7), "also when it was deleted meanwhile");
}

#[test]
fn the_runner_answers_whether_the_lock_is_held() {
    let place = Place::new();
    let script = "echo $LOCKKEEPER_HOLD > hold; echo $LOCKKEEPER_TOKEN > token; \
                  echo $$ > child; while [ ! -e end ]; do sleep 0.01; done";
    let mut runner = place.script(&[], script).spawn().unwrap();
    place.note("child");
    let note = |name: &str| fs::read_to_string(place.notes.path().join(name)).unwrap().trim().to_owned();
    let answer = ask(&note("hold")).unwrap();
    assert_eq!(answer, format!("{{\"held\":true,\"safe_for_ms\":null,\"token\":\"{}\"}}\n", note("token")));
    fs::write(place.notes.path().join("end"), "").unwrap();
    assert!(ended(&mut runner).success());
    assert_eq!(ask(&note("hold")).unwrap_err().kind(), std::io::ErrorKind::ConnectionRefused);
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
