//! All that is measured: the core and the thread that writes record; a word or a page reads.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lockkeeper_zk_proto::message::ErrorCode;
use tokio::time::Instant;

use crate::measures::descriptors::Descriptors;
use crate::measures::histogram::{Histogram, nanoseconds};
use crate::measures::load::Load;

/// Stands for the handshake among the numbers of operations; ZooKeeper gives it to no request of a client.
pub(crate) const HANDSHAKE: i32 = 0;

/// How many kinds of requests are told apart: 0 to 22, 100 to 107, and the two of sessions, which are below 0.
const KINDS: usize = 33;

const NANOSECONDS_PER_MS: u64 = 1_000_000;

/// The measurements of one server.
#[derive(Debug)]
pub(crate) struct ServerMeasures {
    started: Instant,
    requests: [Histogram; KINDS],
    latency_min_ns: AtomicU64,
    latency_max_ns: AtomicU64,
    outstanding: AtomicU64,
    refused: Mutex<BTreeMap<&'static str, u64>>,
    descriptors: Descriptors,
    flushes: Arc<Histogram>,
}

impl ServerMeasures {
    /// Begins to measure; the thread that writes records its flushes itself.
    pub(crate) fn start(flushes: Arc<Histogram>) -> Self {
        Self {
            started: Instant::now(),
            requests: std::array::from_fn(|_| Histogram::default()),
            latency_min_ns: AtomicU64::new(u64::MAX),
            latency_max_ns: AtomicU64::new(0),
            outstanding: AtomicU64::new(0),
            refused: Mutex::default(),
            descriptors: Descriptors::default(),
            flushes,
        }
    }

    /// Notes that a request was answered: its operation's number, the error of the reply, and the time that it took.
    pub(crate) fn answered(&self, operation: i32, error: i32, took: Duration) {
        if let Some(kind) = kind_of(operation) {
            self.requests[kind].record(took);
            let nanoseconds = nanoseconds(took);
            // Read first: most are neither, and a read is cheaper.
            if nanoseconds < self.latency_min_ns.load(Ordering::Relaxed) {
                self.latency_min_ns.store(nanoseconds, Ordering::Relaxed);
            }
            if nanoseconds > self.latency_max_ns.load(Ordering::Relaxed) {
                self.latency_max_ns.store(nanoseconds, Ordering::Relaxed);
            }
        }
        if error != 0
            && let Some(reason) = refusal(error)
        {
            self.refused(reason);
        }
    }

    /// Notes that a connection or a request was refused.
    pub(crate) fn refused(&self, reason: &'static str) {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        *refused.entry(reason).or_default() += 1;
    }

    /// Notes how many requests wait for their answers.
    pub(crate) fn set_outstanding(&self, count: u64) {
        self.outstanding.store(count, Ordering::Relaxed);
    }

    /// The times of requests of a kind.
    pub(super) fn requests(&self, kind: usize) -> &Histogram {
        &self.requests[kind]
    }

    pub(super) fn flushes(&self) -> &Histogram {
        &self.flushes
    }

    /// How often what was refused, by the reasons.
    pub(super) fn refusals(&self) -> BTreeMap<&'static str, u64> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn load(&self) -> Load {
        let now = Instant::now();
        let count: u64 = self.requests.iter().map(Histogram::count).sum();
        let sum_ns: u64 = self.requests.iter().map(Histogram::sum_ns).sum();
        let min_ns = self.latency_min_ns.load(Ordering::Relaxed);
        Load {
            latency_min_ms: if count == 0 { 0 } else { min_ns / NANOSECONDS_PER_MS },
            latency_max_ms: self.latency_max_ns.load(Ordering::Relaxed) / NANOSECONDS_PER_MS,
            latency_average_ms: sum_ns as f64 / count.max(1) as f64 / NANOSECONDS_PER_MS as f64,
            outstanding: self.outstanding.load(Ordering::Relaxed),
            open_descriptors: self.descriptors.open(now),
            descriptors_max: Descriptors::limit(),
            uptime_ms: nanoseconds(now.saturating_duration_since(self.started)) / NANOSECONDS_PER_MS,
            flushes: self.flushes.count(),
            flushes_ms: self.flushes.sum_ns() / NANOSECONDS_PER_MS,
        }
    }
}

/// Where requests of an operation are counted.
pub(super) fn kind_of(operation: i32) -> Option<usize> {
    match operation {
        0..=22 => usize::try_from(operation).ok(),
        100..=107 => usize::try_from(operation - 77).ok(),
        -10 => Some(31),
        -11 => Some(32),
        _ => None,
    }
}

/// Why a request was refused whose reply has this error; `None` for errors that say how the nodes are.
fn refusal(error: i32) -> Option<&'static str> {
    [
        (ErrorCode::SystemError, "writes_not_stored"),
        (ErrorCode::NoAuth, "no_right"),
        (ErrorCode::AuthFailed, "credentials"),
        (ErrorCode::InvalidAcl, "access_list"),
        (ErrorCode::QuotaExceeded, "tree_full"),
    ]
    .into_iter()
    .find_map(|(code, reason)| (code.code() == error).then_some(reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_load_is_that_of_all_requests_so_far() {
        let measures = ServerMeasures::start(Arc::default());
        assert_eq!((measures.load().latency_min_ms, measures.load().latency_average_ms), (0, 0.0), "none was measured");
        for (operation, ms) in [(HANDSHAKE, 2), (1, 4), (-11, 9)] {
            measures.answered(operation, 0, Duration::from_millis(ms));
        }
        measures.set_outstanding(3);
        tokio::time::advance(Duration::from_secs(7)).await;
        let load = measures.load();
        assert_eq!((load.latency_min_ms, load.latency_max_ms, load.latency_average_ms), (2, 9, 5.0));
        assert_eq!((load.outstanding, load.uptime_ms), (3, 7_000));
        assert!(load.open_descriptors > Some(0) && load.open_descriptors < load.descriptors_max, "{load:?}");
    }

    #[test]
    fn each_operation_has_its_own_count() {
        let operations: Vec<i32> = (-20..200).filter(|operation| kind_of(*operation).is_some()).collect();
        let kinds: std::collections::BTreeSet<usize> = operations.iter().filter_map(|one| kind_of(*one)).collect();
        assert_eq!((operations.len(), kinds.into_iter().collect::<Vec<_>>()), (KINDS, (0..KINDS).collect()));
    }
}
