//! `lockkeeper run` whose processes are killed, stopped or continued: the command ends before the lock passes on, and
//! nothing of ours is left.

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::process::Command;
use std::time::Duration;

use rustix::net::SendFlags;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, Signal, pidfd_getfd, pidfd_open};

use crate::support::{Place, Running, eventually, finish, is_alive, is_root, now, send, skip, state};

/// After how long a watchdog that has not confirmed a signal is not waited for, where the grace is two seconds: that, a
/// second and a little more.
const TAKES_OVER_AFTER: Duration = Duration::from_millis(3_300);

/// Starts a command that ignores requests to end, as do a child in its group and one that `timeout` put into another.
///
/// Returns the runner; the command and its children; the watchdog.
fn start_stubborn(place: &Place, options: &[&str]) -> (Running, [i32; 3], i32) {
    let script = r#"
        trap '' TERM
        echo $PPID > watchdog
        sh -c 'trap "" TERM; echo $$ > grandchild; for second in $(seq 600); do sleep 1; done' &
        timeout 600 sh -c 'trap "" TERM; echo $$ > stray; for second in $(seq 600); do sleep 1; done' &
        echo $$ > child
        for second in $(seq 600); do sleep 1; done"#;
    let runner = place.start(options, script);
    let pids = ["child", "grandchild", "stray"].map(|name| place.note(name));
    (runner, pids, place.note("watchdog"))
}

/// Runs the next holder, whose command tells whether any of `pids` was alive when it started.
#[track_caller]
fn assert_next_holder_finds_dead(place: &Place, pids: &[i32]) {
    let script = r#"
        for pid in "$@"; do
            case "$(sed 's/.*) //' /proc/$pid/stat 2>/dev/null)" in ''|Z*|X*) ;; *) exit 1 ;; esac
        done"#;
    let mut next = place.script_of(&[], script);
    let next = finish(next.arg("sh").args(pids.iter().map(i32::to_string)));
    assert_eq!(next.code, Some(0), "{next:?}");
}

#[test]
fn when_the_runner_is_killed_all_its_processes_are_dead_before_the_next_command_starts() {
    let place = Place::new();
    let (mut runner, pids, watchdog) = start_stubborn(&place, &["--grace", "200ms"]);
    assert!(pids.into_iter().all(is_alive));
    runner.kill();
    assert_next_holder_finds_dead(&place, &pids);
    eventually("the watchdog ends", || (!is_alive(watchdog)).then_some(()));
}

#[test]
fn when_the_runner_is_killed_the_command_may_end_in_order() {
    let place = Place::new();
    let script = "trap 'echo 1 > farewell; exit' TERM; echo $$ > child; while :; do sleep 0.01; done";
    let mut runner = place.start(&["--grace", "600s"], script);
    let child = place.note("child");
    runner.kill();
    assert_next_holder_finds_dead(&place, &[child]);
    assert_eq!(place.note("farewell"), 1);
}

#[test]
fn when_the_watchdog_is_killed_all_its_processes_are_dead_before_the_next_command_starts() {
    let place = Place::new();
    let (mut runner, pids, watchdog) = start_stubborn(&place, &[]);
    send(watchdog, Signal::KILL);
    assert_next_holder_finds_dead(&place, &pids);
    assert_eq!(runner.code(), Some(125));
}

/// As in a container that a command was put into from outside: there the kernel gives no number for our session.
#[test]
fn where_our_session_is_outside_the_namespace_a_command_is_ended_all_the_same() {
    if !is_root("makes a namespace of processes") {
        return;
    }
    let place = Place::new();
    let mut inside = Command::new("unshare");
    inside.args(["--pid", "--fork", "--mount-proc", env!("CARGO_BIN_EXE_lockkeeper"), "run", "lock", "--"]);
    inside.args(["sh", "-c", "kill -9 $PPID; exec sleep 600"]);
    finish(place.surround(&mut inside)).assert_refused(125, &[]);
}

#[test]
fn a_process_that_started_a_new_session_is_not_reached() {
    let place = Place::new();
    let script = "setsid sh -c 'echo $$ > daemon; exec sleep 600' & echo $$ > child; exec sleep 600";
    let mut runner = place.start(&[], script);
    let [child, daemon] = ["child", "daemon"].map(|name| place.note(name));
    runner.kill();
    assert_next_holder_finds_dead(&place, &[child]);
    assert!(is_alive(daemon));
    send(daemon, Signal::KILL);
}

#[test]
fn when_the_runner_is_killed_a_nested_run_is_over_before_either_lock_is_free() {
    let place = Place::new();
    let script = r#"
        exec $LOCKKEEPER run inner --grace 600s -- sh -c '
            trap "" TERM; echo $$ > child; for second in $(seq 600); do sleep 1; done'"#;
    let mut runner = place.start(&["--grace", "200ms"], script);
    let child = place.note("child");
    runner.kill();
    assert_next_holder_finds_dead(&place, &[child]);
    assert_eq!(place.run(&["run", "inner", "--no-wait", "--", "true"]).code, Some(0));
}

#[test]
fn a_stopped_watchdog_does_not_keep_a_signal_from_ending_the_command() {
    let place = Place::new();
    let (mut runner, pids, watchdog) = start_stubborn(&place, &["--grace", "200ms"]);
    send(watchdog, Signal::STOP);
    runner.send(Signal::TERM);
    assert_eq!(runner.code(), Some(128 + 9));
    assert!(!pids.into_iter().any(is_alive));
    assert_next_holder_finds_dead(&place, &pids);
}

#[test]
fn a_command_that_handles_its_signal_is_given_all_the_time_it_takes() {
    let place = Place::new();
    // Longer than the grace and a second, after which a watchdog that does not answer is not waited for.
    let script = "trap 'sleep 2; exit 9' TERM; echo $$ > child; while :; do sleep 0.01; done";
    let runner = place.start(&["--grace", "100ms"], script);
    place.note("child");
    runner.send(Signal::TERM);
    assert_eq!(runner.end().code, Some(9));
}

#[test]
fn when_runner_and_watchdog_are_killed_together_the_command_dies_with_them() {
    let place = Place::new();
    let (mut runner, [child, grandchild, stray], watchdog) = start_stubborn(&place, &[]);
    // Both are stopped first, so that neither can act on the other's death.
    send(watchdog, Signal::STOP);
    runner.send(Signal::STOP);
    runner.send(Signal::KILL);
    send(watchdog, Signal::KILL);
    runner.code();
    eventually("the command dies", || (!is_alive(child)).then_some(()));
    // These may outlive them.
    send(grandchild, Signal::KILL);
    send(stray, Signal::KILL);
}

#[test]
fn a_stopped_runner_keeps_its_lock() {
    let place = Place::new();
    let runner = place.start(&[], "echo $$ > child; while [ ! -e end ]; do sleep 0.01; done; exit 3");
    place.note("child");
    runner.send(Signal::STOP);
    let attempt = || place.run(&["run", "-n", "x", "--", "true"]).code;
    assert_eq!(attempt(), Some(124));
    place.write("end", "");
    assert_eq!(attempt(), Some(124), "the command may have ended; its runner still holds the lock");
    runner.send(Signal::CONT);
    assert_eq!(runner.end().code, Some(3));
    assert_eq!(attempt(), Some(0));
}

#[test]
fn what_a_command_leaves_in_the_background_is_left_alone_and_the_lock_released() {
    let place = Place::new();
    assert_eq!(place.start(&[], "sleep 600 > /dev/null 2>&1 & echo $! > left").end().code, Some(0));
    let left = place.note("left");
    assert_eq!(place.run(&["run", "-n", "x", "--", "true"]).code, Some(0));
    assert!(is_alive(left));
    send(left, Signal::KILL);
}

#[test]
fn orphans_of_the_command_do_not_fill_the_process_table() {
    let place = Place::new();
    let script = r#"
        for orphan in 1 2 3 4 5 6 7 8; do (sh -c 'echo $$ > orphan$0' $orphan &); done
        echo $$ > child; while [ ! -e end ]; do sleep 0.01; done"#;
    let runner = place.start(&[], script);
    for orphan in 1..=8 {
        let pid = place.note(&format!("orphan{orphan}"));
        eventually("the orphan was waited for", || state(pid).is_none().then_some(()));
    }
    place.write("end", "");
    assert_eq!(runner.end().code, Some(0));
}

/// The processes whose parent is `parent`.
fn children(parent: i32) -> Vec<i32> {
    let list = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap_or_default();
    list.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

#[test]
fn a_run_that_waits_has_no_process_left_when_it_gives_up_or_is_killed() {
    let place = Place::new();
    let _holder = place.hold("x");
    let waiting = |options: &[&str]| {
        let waiter = place.start(options, "true");
        let watchdog = eventually("it has a watchdog", || children(waiter.pid()).first().copied());
        (waiter, watchdog)
    };
    for is_stopped in [false, true] {
        let (gives_up, watchdog) = waiting(&["-w", "4s"]);
        if is_stopped {
            send(watchdog, Signal::STOP);
        }
        assert_eq!(gives_up.end().code, Some(124));
        assert_eq!(state(watchdog), None);
    }
    let (mut killed, watchdog) = waiting(&[]);
    killed.kill();
    eventually("its watchdog ends", || (!is_alive(watchdog)).then_some(()));
}

/// A message that neither the watchdog nor its launcher sends.
#[test]
fn when_the_runner_fails_all_its_processes_are_dead_before_the_next_command_starts() {
    let place = Place::new();
    let (mut runner, pids, watchdog) = start_stubborn(&place, &["--grace", "600s"]);
    let watchdog = pidfd_open(Pid::from_raw(watchdog).unwrap(), PidfdFlags::empty()).unwrap();
    let channel = match pidfd_getfd(&watchdog, 0, PidfdGetfdFlags::empty()) {
        Err(error) => {
            pids.into_iter().for_each(|pid| send(pid, Signal::KILL));
            runner.code();
            return skip(&format!("no access to a file of another process: {error}"));
        }
        channel => channel.unwrap(),
    };
    rustix::net::send(&channel, &[0xff; 17], SendFlags::empty()).unwrap();
    drop(channel);
    assert_next_holder_finds_dead(&place, &pids);
    assert_eq!(runner.code(), Some(125));
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
        let place = Place::new();
        let script = r#"
            trap 'echo 1 > heard' TERM
            echo $PPID > watchdog
            echo $$ > child
            while [ ! -e end ]; do sleep 0.01; done
            exit 7"#;
        let runner = place.start(&["--grace", "2s"], script);
        place.note("child");
        let watchdog = place.note("watchdog");
        send(watchdog, Signal::STOP);
        let told_at = now();
        runner.send(Signal::TERM);
        eventually("the runner has told the watchdog", || rests(runner.pid()).then_some(()));
        runner.send(Signal::STOP);
        send(watchdog, Signal::CONT);
        place.note("heard");
        eventually("the watchdog has confirmed it", || (state(watchdog) == Some('S')).then_some(()));
        eventually("the runner may take over", || (told_at.elapsed() > TAKES_OVER_AFTER).then_some(()));
        runner.send(Signal::CONT);
        place.write("end", "");
        assert_eq!(runner.end().code, Some(7));
    }
}

#[test]
fn a_loss_that_the_runner_notices_only_after_the_command_has_ended_is_told_all_the_same() {
    let place = Place::new();
    let script = "echo $$ > child; while [ ! -e end ]; do sleep 0.01; done; exit 7";
    let runner = place.start(&["--on-loss", "warn"], script);
    let child = place.note("child");
    runner.send(Signal::STOP);
    eventually("the runner stands still", || (state(runner.pid()) == Some('T')).then_some(()));
    for queue in fs::read_dir(place.locks().join("queues")).unwrap() {
        for entry in fs::read_dir(queue.unwrap().path()).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_fifo() {
                fs::remove_file(entry.path()).unwrap();
            }
        }
    }
    place.write("end", "");
    eventually("the command has ended", || (!is_alive(child)).then_some(()));
    runner.send(Signal::CONT);
    let ended = runner.end();
    assert!(ended.code == Some(7) && ended.stderr.contains("lost"), "{ended:?}");
}
