//! The thread that serves blocking locks: one for all keepers, and none without a keeper. The test is alone in its
//! process, so that it can count the threads.

use std::fs;

use lockkeeper::blocking;
use lockkeeper::clock::{Clock, SystemClock};
use lockkeeper_faults::wait::PATIENCE;

/// Counts this process's threads of the name `lockkeeper`.
#[cfg(target_os = "linux")]
fn threads() -> usize {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    // A thread may end while it is looked at.
    let names = tasks.filter_map(|task| fs::read_to_string(task.unwrap().path().join("comm")).ok());
    names.filter(|name| name.trim_end() == "lockkeeper").count()
}

#[cfg(target_os = "linux")]
#[test]
fn all_keepers_share_one_thread_which_ends_with_the_last_user() {
    // A thread gets its name after it was started, and ends after it was told to.
    let wait_for = |count: usize| {
        let deadline = SystemClock.now().saturating_add(PATIENCE);
        while threads() != count {
            assert!(SystemClock.now() < deadline, "{} threads, and not {count}", threads());
            std::thread::yield_now();
        }
    };
    assert_eq!(threads(), 0);
    for _ in 0..2 {
        let (one, other) = (blocking::connect("memory:").unwrap(), blocking::connect("memory:").unwrap());
        let (door, desks) = (one.mutex("door").unwrap(), other.semaphore("desks", 2).unwrap());
        let (guard, permit) = (door.lock().unwrap(), desks.acquire().unwrap());
        wait_for(1);
        drop((one, other, door, desks, guard));
        assert_eq!(threads(), 1);
        assert!(permit.hold().is_held());
        drop(permit);
        wait_for(0);
    }
}
