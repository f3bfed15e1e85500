//! `lockkeeper run` whose processes are killed, stopped or continued: the command ends before the lock passes on, and
//! nothing of ours is left.

use std::fs;
use std::io::Read;
use std::os::unix::fs::FileTypeExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::net::SendFlags;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, Signal, pidfd_getfd, pidfd_open};

use crate::support::run_place::{RunPlace, lines, run, start_stubborn};
use crate::support::{ended, eventually, is_alive, lockkeeper, now, send, state};

/// After how long a watchdog that has not confirmed a signal is not waited for, where the grace is two seconds: that, a
/// second and a little more.
const TAKES_OVER_AFTER: Duration = Duration::from_millis(3_300);

#[test]
fn when_the_runner_is_killed_all_its_processes_are_dead_before_the_next_command_starts() {
    let place = RunPlace::new();
    let (mut runner, pids, watchdog) = start_stubborn(&place, &["--grace", "200ms"]);
    assert!(pids.into_iter().all(is_alive));
    runner.kill().unwrap();
    ended(&mut runner);
    assert!(place.next_holder_finds_dead(&pids));
    eventually("the watchdog ends", || (!is_alive(watchdog)).then_some(()));
}

#[test]
fn when_the_runner_is_killed_the_command_may_end_in_order() {
    let place = RunPlace::new();
    let script = "trap 'echo 1 > farewell; exit' TERM; echo $$ > child; while :; do sleep 0.01; done";
    let mut runner = place.script(&["--grace", "600s"], script).stderr(Stdio::null()).spawn().unwrap();
    let child = place.note("child");
    runner.kill().unwrap();
    ended(&mut runner);
    assert!(place.next_holder_finds_dead(&[child]));
    assert_eq!(place.note("farewell"), 1);
}

#[test]
fn when_the_command_ends_at_once_but_its_child_does_not_the_child_is_waited_for_and_killed() {
    let place = RunPlace::new();
    let script = r#"
        sh -c 'trap "" TERM; echo $$ > grandchild; for second in $(seq 600); do sleep 1; done' &
        echo $$ > child
        exec sleep 600"#;
    let mut runner = place.script(&["--grace", "200ms"], script).stderr(Stdio::null()).spawn().unwrap();
    let pids = ["child", "grandchild"].map(|name| place.note(name));
    runner.kill().unwrap();
    ended(&mut runner);
    assert!(place.next_holder_finds_dead(&pids));
}

#[test]
fn when_the_watchdog_is_killed_all_its_processes_are_dead_before_the_next_command_starts() {
    let place = RunPlace::new();
    let (mut runner, pids, watchdog) = start_stubborn(&place, &[]);
    send(watchdog, Signal::KILL);
    assert!(place.next_holder_finds_dead(&pids));
    assert_eq!(ended(&mut runner).code(), Some(125));
}

/// As in a container that a command was put into from outside: there the kernel gives no number for our session.
#[test]
fn where_our_session_is_outside_the_namespace_a_command_is_ended_all_the_same() {
    if !rustix::process::geteuid().is_root() {
        let test = "run_killed::where_our_session_is_outside_the_namespace_a_command_is_ended_all_the_same";
        return lockkeeper_faults::skip::skip(test, "only root makes a namespace of processes");
    }
    let place = RunPlace::new();
    let script = "kill -9 $PPID; exec sleep 600";
    let mut inside = Command::new("unshare");
    inside.args(["--pid", "--fork", "--mount-proc", env!("CARGO_BIN_EXE_lockkeeper"), "run", "lock", "--"]);
    let output = run(inside.args(["sh", "-c", script]).env("LOCKKEEPER_DIR", place.locks.path()));
    assert_eq!(output.status.code(), Some(125));
    assert_eq!(lines(&output.stderr).len(), 1, "{:?}", lines(&output.stderr));
}

#[test]
fn a_process_that_started_a_new_session_is_not_reached() {
    let place = RunPlace::new();
    let script = "setsid sh -c 'echo $$ > daemon; exec sleep 600' & echo $$ > child; exec sleep 600";
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
    let place = RunPlace::new();
    let script = r#"
        exec $LOCKKEEPER run inner --grace 600s -- sh -c '
            trap "" TERM; echo $$ > child; for second in $(seq 600); do sleep 1; done'"#;
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
    let place = RunPlace::new();
    let (mut runner, pids, watchdog) = start_stubborn(&place, &["--grace", "200ms"]);
    send(watchdog, Signal::STOP);
    send(runner.id().cast_signed(), Signal::TERM);
    assert_eq!(ended(&mut runner).code(), Some(128 + 9));
    assert!(!pids.into_iter().any(is_alive));
    assert!(place.next_holder_finds_dead(&pids));
}

#[test]
fn a_command_that_handles_its_signal_is_given_all_the_time_it_takes() {
    let place = RunPlace::new();
    // Longer than the grace and a second, after which a watchdog that does not answer is not waited for.
    let script = "trap 'sleep 2; exit 9' TERM; echo $$ > child; while :; do sleep 0.01; done";
    let mut runner = place.script(&["--grace", "100ms"], script).stderr(Stdio::null()).spawn().unwrap();
    place.note("child");
    send(runner.id().cast_signed(), Signal::TERM);
    assert_eq!(ended(&mut runner).code(), Some(9));
}

#[test]
fn when_runner_and_watchdog_are_killed_together_the_command_dies_with_them() {
    let place = RunPlace::new();
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
    let place = RunPlace::new();
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
    let place = RunPlace::new();
    let script = "sleep 600 > /dev/null 2>&1 & echo $! > left";
    assert!(run(&mut place.script(&[], script)).status.success());
    let left = place.note("left");
    assert!(run(&mut place.script(&["--no-wait"], "true")).status.success());
    assert!(is_alive(left));
    send(left, Signal::KILL);
}

#[test]
fn orphans_of_the_command_do_not_fill_the_process_table() {
    let place = RunPlace::new();
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
    let place = RunPlace::new();
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
    let place = RunPlace::new();
    let mut holder = place.script(&[], "echo $$ > child; while [ ! -e end ]; do sleep 0.01; done").spawn().unwrap();
    place.note("child");
    let waiting = |options: &[&str]| {
        let waiter = place.script(options, "true").stderr(Stdio::null()).spawn().unwrap();
        let watchdog = eventually("it has a watchdog", || children(waiter.id().cast_signed()).first().copied());
        (waiter, watchdog)
    };
    let (mut gives_up, watchdog) = waiting(&["-w", "4s"]);
    assert_eq!(ended(&mut gives_up).code(), Some(124));
    assert_eq!(state(watchdog), None);
    let (mut gives_up, watchdog) = waiting(&["-w", "4s"]);
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

/// A message that neither the watchdog nor its launcher sends.
#[test]
fn when_the_runner_fails_all_its_processes_are_dead_before_the_next_command_starts() {
    let test = "run_killed::when_the_runner_fails_all_its_processes_are_dead_before_the_next_command_starts";
    let place = RunPlace::new();
    let (mut runner, pids, watchdog) = start_stubborn(&place, &["--grace", "600s"]);
    let watchdog = pidfd_open(Pid::from_raw(watchdog).unwrap(), PidfdFlags::empty()).unwrap();
    let channel = match pidfd_getfd(&watchdog, 0, PidfdGetfdFlags::empty()) {
        Err(error) => {
            pids.into_iter().for_each(|pid| send(pid, Signal::KILL));
            ended(&mut runner);
            return lockkeeper_faults::skip::skip(test, &format!("no access to a file of another process: {error}"));
        }
        channel => channel.unwrap(),
    };
    rustix::net::send(&channel, &[0xff; 17], SendFlags::empty()).unwrap();
    drop(channel);
    assert!(place.next_holder_finds_dead(&pids));
    assert_eq!(ended(&mut runner).code(), Some(125));
}

/// Tells whether a process waits, with no signal on its way to it.
fn rests(pid: i32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    // Before the state: a process that takes a signal runs until it has dealt with it.
    status.lines().any(|line| line == "ShdPnd:\t0000000000000000") && state(pid) == Some('S')
}

#[test]
fn a_runner_that_stood_still_knows_first_that_its_signal_was_passed_on() {
    for _ in 0..3 {
        let place = RunPlace::new();
        let script = r#"
            trap 'echo 1 > heard' TERM
            echo $PPID > watchdog
            echo $$ > child
            while [ ! -e end ]; do sleep 0.01; done
            exit 7"#;
        let mut runner = place.script(&["--grace", "2s"], script).stderr(Stdio::null()).spawn().unwrap();
        place.note("child");
        let (pid, watchdog) = (runner.id().cast_signed(), place.note("watchdog"));
        send(watchdog, Signal::STOP);
        let told_at = now();
        send(pid, Signal::TERM);
        eventually("the runner has told the watchdog", || rests(pid).then_some(()));
        send(pid, Signal::STOP);
        send(watchdog, Signal::CONT);
        place.note("heard");
        eventually("the watchdog has confirmed it", || (state(watchdog) == Some('S')).then_some(()));
        eventually("the runner may take over", || (told_at.elapsed() > TAKES_OVER_AFTER).then_some(()));
        send(pid, Signal::CONT);
        fs::write(place.notes.path().join("end"), "").unwrap();
        assert_eq!(ended(&mut runner).code(), Some(7));
    }
}

#[test]
fn a_loss_that_the_runner_notices_only_after_the_command_has_ended_is_told_all_the_same() {
    let place = RunPlace::new();
    let script = "echo $$ > child; while [ ! -e end ]; do sleep 0.01; done; exit 7";
    let mut runner = place.script(&["--on-loss", "warn"], script).stderr(Stdio::piped()).spawn().unwrap();
    let child = place.note("child");
    send(runner.id().cast_signed(), Signal::STOP);
    eventually("the runner stands still", || (state(runner.id().cast_signed()) == Some('T')).then_some(()));
    for queue in fs::read_dir(place.locks.path().join("queues")).unwrap() {
        for entry in fs::read_dir(queue.unwrap().path()).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_fifo() {
                fs::remove_file(entry.path()).unwrap();
            }
        }
    }
    fs::write(place.notes.path().join("end"), "").unwrap();
    eventually("the command has ended", || (!is_alive(child)).then_some(()));
    send(runner.id().cast_signed(), Signal::CONT);
    let mut stderr = runner.stderr.take().unwrap();
    assert_eq!(ended(&mut runner).code(), Some(7));
    let mut said = String::new();
    stderr.read_to_string(&mut said).unwrap();
    assert!(said.contains("lost"), "{said:?}");
}
