//! A permanent failure ends a command at once: with one line, and never with a panic.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::process::Command;
use std::time::Duration;

use lockkeeper_faults::long;

use crate::support::{Ended, Place, finish, now};

/// Within which time a run ends that cannot succeed; judged in the long run.
const END_MAX: Duration = Duration::from_secs(2);

/// The limits that are tried, in files: from hardly more than the three that every process has to more than are needed.
const LIMITS: std::ops::RangeInclusive<u32> = 4..=40;

fn timed(run: impl FnOnce() -> Ended) -> (Ended, Duration) {
    let begun_at = now();
    let ended = run();
    (ended, begun_at.elapsed())
}

#[test]
fn something_else_in_the_place_of_a_file_of_ours_ends_a_run_at_once() {
    for file in ["counter", "queues", "queues/x"] {
        for (what, put) in [
            (
                "a pipe",
                &(|path: &str| assert!(Command::new("mkfifo").arg(path).status().unwrap().success())) as &dyn Fn(&str),
            ),
            ("a socket", &|path| drop(UnixListener::bind(path).unwrap())),
            ("a device", &|path| symlink("/dev/zero", path).unwrap()),
        ] {
            let place = Place::new();
            let path = place.locks().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            put(path.to_str().unwrap());
            for options in [&["-n"][..], &["-w", "600"], &[]] {
                let arguments = [&["run"], options, &["x", "--", "true"]].concat();
                let (ended, took) = timed(|| place.run(&arguments));
                ended.assert_refused(125, &[path.to_str().unwrap()]);
                assert!(!long::is_asked_for() || took < END_MAX, "{what} as {file}: {took:?}");
            }
        }
    }
}

#[test]
fn a_process_that_may_write_no_file_ends_with_one_line_that_says_so() {
    let place = Place::new();
    for command in ["run x -- true", "run -n --permits 2 y -- true", "freeze f --reason r", "fence notes -- true"] {
        let script = format!("cd \"$HOME\" && ulimit -f 0; exec \"$LOCKKEEPER\" {command}");
        let mut shell = Command::new("sh");
        shell.args(["-c", &script]).env("LOCKKEEPER_TOKEN", "7").env("LOCKKEEPER_NAME", "notes");
        finish(place.surround(&mut shell)).assert_refused(125, &["raise the limit, ulimit -f"]);
    }
    assert_eq!(place.run(&["ls"]).code, Some(0));
}

#[test]
fn a_process_that_may_open_too_few_files_ends_at_once_and_never_in_a_panic() {
    let place = Place::new();
    let holder = place.hold("held");
    let under = |limit: u32, command: &str| {
        let script = format!("ulimit -n {limit}; exec \"$LOCKKEEPER\" {command}");
        timed(|| finish(place.surround(Command::new("sh").args(["-c", &script]))))
    };
    for (command, success) in [
        ("run free -- true", 0),
        ("run -s free -- true", 0),
        ("run --permits 2 free -- true", 0),
        ("run -n held -- true", 124),
        ("run -w 0.1 held -- true", 124),
        ("show held", 0),
        ("ls", 0),
        ("wait -w 0.1 held", 124),
    ] {
        let mut succeeded = false;
        for limit in LIMITS {
            let (ended, took) = under(limit, command);
            assert!(!ended.stderr.contains("panic"), "{command} with {limit} files: {ended:?}");
            assert!(!long::is_asked_for() || took < END_MAX, "{command} with {limit} files: {took:?}");
            if ended.code == Some(125) {
                ended.assert_refused(125, &[]);
                assert!(!succeeded, "{command} with {limit} files fails, and with fewer it did not: {ended:?}");
            } else {
                assert_eq!(ended.code, Some(success), "{command} with {limit} files: {ended:?}");
                succeeded = true;
            }
        }
        assert!(succeeded, "{command}: {} files are enough for anything", LIMITS.end());
    }
    holder.end();
    let shown = place.run(&["ls"]);
    assert!(!shown.stdout.contains("free"), "a run that failed left its place: {shown:?}");
}
