//! Whether the machine has room for one more test program: few processes want a processor.
//!
//! Some programs wait nearly all the time, others keep two cores busy alone, and other work may go on beside the run.
//! So how many run at a time follows from what is seen and not from a fixed number.

use std::fs;
use std::num::NonZero;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// How many test programs go on at a time on the busiest machine: one, and one more while it waits.
pub(crate) const AT_LEAST: usize = 2;

/// How many processes may want a core, for one more program to start. With two, the load rose to 24 on two cores, tests
/// only waited for each other, and the run took no less time.
const RUNNABLE_PER_CORE: usize = 1;

/// How often it is looked, and the pause between: long enough to see what the program did that started last.
const LOOKS: usize = 20;
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// Lets programs start one after the other, each if there is room for it.
#[derive(Debug, Default)]
pub(crate) struct Room(Mutex<()>);

impl Room {
    /// Waits until there is room, or nothing is left to be started.
    pub(crate) fn wait(&self, is_left: impl Fn() -> bool) {
        let _gate = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        while is_left() && seen() > RUNNABLE_PER_CORE * cores * LOOKS {}
    }
}

/// The sum of the processes that want a processor, over some looks; zero where the system does not tell.
#[expect(clippy::disallowed_methods, reason = "looks at other processes, whose changes are not announced")]
fn seen() -> usize {
    let look = |_| {
        thread::sleep(LOOK_INTERVAL);
        fs::read_to_string("/proc/stat").ok().and_then(|text| runnable(&text)).unwrap_or(0)
    };
    (0..LOOKS).map(look).sum()
}

/// The processes that want a processor, as the kernel's statistics tell, but for the one that asks.
fn runnable(statistics: &str) -> Option<usize> {
    let line = statistics.lines().find_map(|line| line.strip_prefix("procs_running "))?;
    Some(line.trim().parse::<usize>().ok()?.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processes_that_want_a_processor_are_counted_without_the_one_that_asks() {
        assert_eq!(runnable("cpu 1 2 3\nprocs_running 5\nprocs_blocked 0\n"), Some(4));
        assert_eq!(runnable("cpu 1 2 3\n"), None);
    }

    #[test]
    fn it_does_not_wait_when_nothing_is_left_to_be_started() {
        Room::default().wait(|| false);
    }
}
