//! The process's open files, and how many it may have.

use std::fs;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Resource, getrlimit};
use tokio::time::Instant;

/// Where Linux lists the descriptors of the process.
const OPEN: &str = "/proc/self/fd";
/// For how long a count is used again: each takes some ten milliseconds with as many descriptors as there may be
/// connections, and any peer may ask.
const COUNTED_FOR: Duration = Duration::from_secs(1);

/// Counts descriptors, once a second at most.
#[derive(Debug, Default)]
pub(super) struct Descriptors {
    counted: Mutex<Option<(Instant, Option<u64>)>>,
}

impl Descriptors {
    /// How many are open; `None` where the system does not list them.
    pub(super) fn open(&self, now: Instant) -> Option<u64> {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        match *counted {
            Some((at, count)) if now.saturating_duration_since(at) < COUNTED_FOR => count,
            _ => {
                // The list itself is read by one more.
                let count = fs::read_dir(OPEN).ok().map(|list| (list.count() as u64).saturating_sub(1));
                *counted = Some((now, count));
                count
            }
        }
    }

    /// How many there may be; `None` if there is no limit.
    pub(super) fn limit() -> Option<u64> {
        getrlimit(Resource::Nofile).current
    }
}
