//! `run` while another process has the flock of the counter, or of the queue: one that was stopped while it entered.

use std::fs::{File, OpenOptions};
use std::time::Duration;

use lockkeeper_faults::long;
use rustix::fs::FlockOperation;

use crate::support::{Place, now};

/// Within which time `-n` answers; judged in the long run.
const ANSWER_MAX: Duration = Duration::from_secs(1);

/// How long the others wait, in seconds. On a busy machine the thread that finds out that a run is held up may start
/// late; a run whose time was up before has had no answer, and is followed by one that waits longer.
const WAITS_S: [u64; 3] = [2, 10, 60];

/// The exit code of a run that has had no answer in its time.
const NOT_ANSWERED: Option<i32> = Some(125);

/// What a process may need to start and to end, beside its wait; judged in the long run.
const START_MAX: Duration = Duration::from_millis(700);

fn held(place: &Place, file: &str) -> File {
    let path = place.locks().join(file);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(path).unwrap();
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).unwrap();
    file
}

/// Asserts how runs of one kind end while a flock is in their way.
fn assert_given_up(place: &Place, flock: &str, kind: &[&str]) {
    let run = |options: &[&str]| {
        let arguments = [&["run"], options, kind, &["x", "--", "true"]].concat();
        let asked_at = now();
        (place.run(&arguments), asked_at.elapsed())
    };
    let (ended, took) = run(&["-n"]);
    assert_eq!(ended.code, Some(124), "{flock} {kind:?}: {ended:?}");
    assert!(!long::is_asked_for() || took < ANSWER_MAX, "{flock} {kind:?}: {took:?}");
    let mut runs = WAITS_S.into_iter().map(|wait_s| {
        let (ended, took) = run(&["-w", &wait_s.to_string()]);
        (ended, took, Duration::from_secs(wait_s))
    });
    let found_out = runs.find(|(ended, ..)| ended.code != NOT_ANSWERED);
    let (ended, took, wait) = found_out.expect("one run finds out in its time that it is held up");
    assert_eq!(ended.code, Some(124), "{flock} {kind:?}: {ended:?}");
    assert!(took >= wait, "{flock} {kind:?}: {took:?}");
    assert!(!long::is_asked_for() || took < wait + START_MAX, "{flock} {kind:?}: {took:?}");
}

#[test]
fn a_flock_of_another_process_costs_a_run_less_than_a_second_or_no_more_than_its_wait() {
    let place = Place::new();
    assert_eq!(place.script("other", "true").code, Some(0));
    for flock in ["counter", "queues/x/.enter"] {
        let stopped = held(&place, flock);
        std::thread::scope(|scope| {
            for kind in [&[][..], &["-s"], &["-x"], &["--permits", "2"]] {
                scope.spawn(|| assert_given_up(&place, flock, kind));
            }
        });
        drop(stopped);
        assert_eq!(place.script("x", "true").code, Some(0), "{flock}");
    }
}
