//! `lockkeeper run` where `/proc` shows the processes of another namespace: it ends its own command and harms no other.

use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::TempDir;

use crate::support::{Ended, Place, finish, is_root, number_in};

/// Runs a shell script as the first process of a new namespace, which keeps the `/proc` of ours.
///
/// It finds the command under test as `$LK`, its locks in `$LOCKKEEPER_DIR` and a directory for notes in `$NOTES`.
/// `None` where there is no such namespace, and the test is skipped.
fn run_inside(script: &str) -> Option<(Ended, Place)> {
    if !is_root("makes a namespace of processes") {
        return None;
    }
    let place = Place::new();
    let mut inside = Command::new("unshare");
    place.surround(inside.args(["--pid", "--fork", "--kill-child", "sh", "-c", script]));
    let ended = finish(inside.env("LK", env!("CARGO_BIN_EXE_lockkeeper")).env("NOTES", place.notes()));
    Some((ended, place))
}

#[test]
fn a_command_is_ended_by_its_group_and_a_line_says_what_is_out_of_sight() {
    // Its child ignores TERM, in the same group.
    let command = "trap \"\" TERM; sleep 600 & echo $$ > $NOTES/group; wait; sleep 600";
    let script = format!(
        "$LK run --grace 300ms --max-hold 500ms ns -- sh -c '{command}'; echo $? > $NOTES/code
        kill -0 -$(cat $NOTES/group) 2> /dev/null; echo $? > $NOTES/left; $LK run -n ns -- true; echo $? > $NOTES/next"
    );
    let Some((Ended { stderr: said, .. }, place)) = run_inside(&script) else { return };
    assert_eq!((place.note("code"), place.note("left"), place.note("next")), (123, 1, 0), "{said}");
    let unseen: Vec<_> = said.lines().filter(|line| line.contains("/proc shows")).collect();
    assert_eq!(unseen.len(), 1, "{said}");
    assert!(unseen[0].contains("cannot be seen"), "{said}");
}

#[test]
fn a_command_that_ends_when_it_is_asked_is_not_waited_for_longer() {
    // It is awaited for less than the grace, and its own end.
    let Some((ended, _place)) = run_inside("exec $LK run --grace 600s --max-hold 100ms ns -- sleep 600") else {
        return;
    };
    assert_eq!(ended.code, Some(123));
}

#[test]
fn a_killed_watchdogs_command_is_ended_by_its_group() {
    let Some((ended, _place)) = run_inside("$LK run ns -- sh -c 'sleep 600 & kill -9 $PPID; wait'; echo $?; exit 0")
    else {
        return;
    };
    assert_eq!(ended.stdout, "125\n");
}

/// A process with one child, in a separate group and session.
struct Family {
    parent: Child,
    child: i32,
}

impl Family {
    fn start() -> Self {
        let notes = TempDir::new().unwrap();
        let mut parent = Command::new("setsid");
        parent.args(["sh", "-c", "sleep 600 & echo $! > child; wait"]).current_dir(notes.path());
        let parent = parent.stdin(Stdio::null()).spawn().unwrap();
        let child = number_in(&notes.path().join("child"));
        Self { parent, child }
    }
}

impl Drop for Family {
    fn drop(&mut self) {
        let _ = kill_process_group(Pid::from_child(&self.parent), Signal::KILL);
        let _ = self.parent.wait();
    }
}

/// In the table, a stranger's child stands as a descendant of the watchdog's number: a bystander has the child's
/// number.
#[test]
fn no_other_process_is_harmed_that_has_the_numbers_of_ours() {
    let family = Family::start();
    let (parent, child) = (family.parent.id(), family.child);
    let script = format!(
        "echo $(({child} - 1)) > /proc/sys/kernel/ns_last_pid; setsid sleep 600 & bystander=$!
        echo $(({parent} - 2)) > /proc/sys/kernel/ns_last_pid
        $LK run --grace 100ms --max-hold 300ms ns -- sh -c 'echo $PPID > $NOTES/watchdog; sleep 600'
        echo $? > $NOTES/code; echo $bystander > $NOTES/bystander
        kill -0 $bystander; echo $? > $NOTES/harmed"
    );
    let Some((ended, place)) = run_inside(&script) else { return };
    let arranged = (place.note("watchdog"), place.note("bystander"));
    assert_eq!(arranged, (parent.cast_signed(), child), "the numbers are arranged");
    assert_eq!((place.note("code"), place.note("harmed")), (123, 0), "{ended:?}");
}
