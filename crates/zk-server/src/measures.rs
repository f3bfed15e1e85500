//! A running server's measurements of itself, for `mntr` and for Prometheus. It imports nothing of the server.
//!
//! The core and the thread that writes record; a word or a page reads. The page is text by Prometheus' format 0.0.4,
//! and serving it is left to others.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Write};
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lockkeeper_zk_proto::message::{ErrorCode, OpCode};
use parking_lot::Mutex;
use rustix::process::{Resource, getrlimit};
use tokio::time::Instant;

/// Stands for the handshake among the numbers of operations; ZooKeeper gives it to no request of a client.
pub(crate) const HANDSHAKE: i32 = 0;

/// How many kinds of requests are told apart: 0 to 22, 100 to 107, and the two of sessions, which are below 0.
const KINDS: usize = 33;

const NANOSECONDS_PER_MS: u64 = 1_000_000;

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
        *self.refused.lock().entry(reason).or_default() += 1;
    }

    /// Notes how many requests wait for their answers.
    pub(crate) fn set_outstanding(&self, count: u64) {
        self.outstanding.store(count, Ordering::Relaxed);
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
            descriptors_max: getrlimit(Resource::Nofile).current,
            uptime_ms: nanoseconds(now.saturating_duration_since(self.started)) / NANOSECONDS_PER_MS,
            flushes: self.flushes.count(),
            flushes_ms: self.flushes.sum_ns() / NANOSECONDS_PER_MS,
        }
    }
}

/// Where requests of an operation are counted.
fn kind_of(operation: i32) -> Option<usize> {
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

/// How a server does at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Load {
    /// The shortest and the longest time from a request's reading to its answer, in whole milliseconds as Apache's.
    pub(crate) latency_min_ms: u64,
    pub(crate) latency_max_ms: u64,
    /// The average of all, in milliseconds.
    pub(crate) latency_average_ms: f64,
    /// How many requests have no answer yet, as far as they were read: theirs waits to be stored.
    pub(crate) outstanding: u64,
    pub(crate) open_descriptors: Option<u64>,
    pub(crate) descriptors_max: Option<u64>,
    pub(crate) uptime_ms: u64,
    /// How often records were flushed to the disk, and how long that took altogether.
    pub(crate) flushes: u64,
    pub(crate) flushes_ms: u64,
}

/// Where Linux lists the descriptors of the process.
const OPEN: &str = "/proc/self/fd";
/// For how long a count is used again: each takes some ten milliseconds with as many descriptors as there may be
/// connections, and any peer may ask.
const COUNTED_FOR: Duration = Duration::from_secs(1);

/// Counts descriptors, once a second at most.
#[derive(Debug, Default)]
struct Descriptors {
    counted: Mutex<Option<(Instant, Option<u64>)>>,
}

impl Descriptors {
    /// How many are open; `None` where the system does not list them.
    fn open(&self, now: Instant) -> Option<u64> {
        let mut counted = self.counted.lock();
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
}

/// The upper bounds of the buckets, in nanoseconds: from an answer out of memory to a disk that hangs.
const BOUNDS_NS: [u64; 13] = [
    10_000,
    30_000,
    100_000,
    300_000,
    1_000_000,
    3_000_000,
    10_000_000,
    30_000_000,
    100_000_000,
    300_000_000,
    1_000_000_000,
    3_000_000_000,
    10_000_000_000,
];

/// How often which durations were seen. What is read while others write is of slightly different times.
#[derive(Debug, Default)]
pub(crate) struct Histogram {
    /// One for each bound, and one for what is longer.
    buckets: [AtomicU64; BOUNDS_NS.len() + 1],
    sum_ns: AtomicU64,
}

impl Histogram {
    pub(crate) fn record(&self, duration: Duration) {
        let nanoseconds = nanoseconds(duration);
        let bucket = BOUNDS_NS.partition_point(|bound| *bound < nanoseconds);
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.sum_ns.fetch_add(nanoseconds, Ordering::Relaxed);
    }

    /// How many durations each bucket has.
    fn counts(&self) -> [u64; BOUNDS_NS.len() + 1] {
        std::array::from_fn(|at| self.buckets[at].load(Ordering::Relaxed))
    }

    /// How many durations were recorded.
    fn count(&self) -> u64 {
        self.counts().iter().sum()
    }

    fn sum_ns(&self) -> u64 {
        self.sum_ns.load(Ordering::Relaxed)
    }
}

/// A duration as it is counted; one beyond five centuries is cut to that.
fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// What all names begin with, but for those that every process has.
const PREFIX: &str = "lockkeeper_server_";

const NANOSECONDS_PER_S: f64 = 1e9;

/// What a server has at a moment, as it knows without measuring.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stock {
    pub(crate) connections: usize,
    pub(crate) sessions: usize,
    pub(crate) watches: usize,
    pub(crate) nodes: usize,
    /// Of all nodes' paths and data.
    pub(crate) data_bytes: usize,
    /// The memory of nodes, as the limit of it counts.
    pub(crate) tree_bytes: usize,
    pub(crate) packets_received: u64,
    pub(crate) packets_sent: u64,
    pub(crate) refuses_writes: bool,
}

impl ServerMeasures {
    /// All metrics. Kinds of requests and reasons of refusals are there once one was seen.
    pub(crate) fn exposition(&self, stock: &Stock) -> String {
        let mut page = ExpositionText::default();
        self.write(&mut page, stock).expect("writing into a string cannot fail");
        page.text
    }

    fn write(&self, page: &mut ExpositionText, stock: &Stock) -> fmt::Result {
        page.family(
            "request_seconds",
            "histogram",
            "From the reading of a request until its answer left, when stored.",
        )?;
        for (kind, histogram) in self.seen_kinds() {
            page.histogram("request_seconds", &format!("kind=\"{kind}\""), histogram)?;
        }
        page.family("fsync_seconds", "histogram", "How long flushes of records to the disk took.")?;
        page.histogram("fsync_seconds", "", &self.flushes)?;
        page.family("refused_total", "counter", "Connections and requests that were refused, by the reason.")?;
        for (reason, count) in self.refused.lock().iter() {
            page.row("refused_total", &format!("reason=\"{reason}\""), count)?;
        }
        page.family("packets_total", "counter", "Requests and four-letter words received, answers and events sent.")?;
        page.row("packets_total", "direction=\"received\"", stock.packets_received)?;
        page.row("packets_total", "direction=\"sent\"", stock.packets_sent)?;
        let load = self.load();
        page.gauge("connections", "Connections of clients.", stock.connections)?;
        page.gauge("sessions", "Sessions, also those without a connection.", stock.sessions)?;
        page.gauge("watches", "Watches that are set.", stock.watches)?;
        page.gauge("nodes", "Nodes, those of the service included.", stock.nodes)?;
        page.gauge("data_bytes", "Bytes of all nodes' paths and data.", stock.data_bytes)?;
        page.gauge("tree_bytes", "Memory of all nodes, as its limit counts it.", stock.tree_bytes)?;
        page.gauge("outstanding_requests", "Requests whose answers wait for the disk.", load.outstanding)?;
        page.gauge(
            "writes_refused",
            "1 while writes are refused since they cannot be stored.",
            u8::from(stock.refuses_writes),
        )?;
        page.gauge("uptime_seconds", "Time since the start.", load.uptime_ms as f64 / 1e3)?;
        page.process("process_open_fds", "Descriptors that the process has open.", load.open_descriptors)?;
        page.process("process_max_fds", "Descriptors that the process may have open.", load.descriptors_max)
    }

    /// The kinds of requests that were answered, by the names of their operations.
    fn seen_kinds(&self) -> impl Iterator<Item = (String, &Histogram)> {
        let operations = std::iter::once(HANDSHAKE).chain(1..=107).chain([-10, -11]);
        let kinds = operations.filter_map(|operation| Some((name_of(operation)?, &self.requests[kind_of(operation)?])));
        kinds.filter(|(_, histogram)| histogram.count() > 0)
    }
}

/// The name of an operation, as in `get_children2`.
fn name_of(operation: i32) -> Option<String> {
    if operation == HANDSHAKE {
        return Some("connect".to_owned());
    }
    let mut name = String::new();
    for (at, mark) in format!("{:?}", OpCode::from_code(operation)?).char_indices() {
        if at > 0 && mark.is_ascii_uppercase() {
            name.push('_');
        }
        name.push(mark.to_ascii_lowercase());
    }
    Some(name)
}

#[derive(Debug, Default)]
struct ExpositionText {
    text: String,
}

impl ExpositionText {
    fn family(&mut self, name: &str, kind: &str, help: &str) -> fmt::Result {
        writeln!(self.text, "# HELP {PREFIX}{name} {help}\n# TYPE {PREFIX}{name} {kind}")
    }

    fn row(&mut self, name: &str, labels: &str, value: impl Display) -> fmt::Result {
        writeln!(self.text, "{PREFIX}{name}{{{labels}}} {value}")
    }

    fn gauge(&mut self, name: &str, help: &str, value: impl Display) -> fmt::Result {
        self.family(name, "gauge", help)?;
        writeln!(self.text, "{PREFIX}{name} {value}")
    }

    /// A gauge that every process has, under its common name; none where the system does not tell.
    fn process(&mut self, name: &str, help: &str, value: Option<u64>) -> fmt::Result {
        match value {
            Some(value) => writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} gauge\n{name} {value}"),
            None => Ok(()),
        }
    }

    fn histogram(&mut self, name: &str, labels: &str, histogram: &Histogram) -> fmt::Result {
        let comma = if labels.is_empty() { "" } else { "," };
        let mut count = 0;
        // Read once: so what is recorded meanwhile is in all rows or in none.
        let counts = histogram.counts();
        for (bound_ns, in_bucket) in BOUNDS_NS.iter().zip(counts) {
            count += in_bucket;
            let bound = *bound_ns as f64 / NANOSECONDS_PER_S;
            self.row(&format!("{name}_bucket"), &format!("{labels}{comma}le=\"{bound}\""), count)?;
        }
        count = counts.iter().sum();
        self.row(&format!("{name}_bucket"), &format!("{labels}{comma}le=\"+Inf\""), count)?;
        let sum = histogram.sum_ns() as f64 / NANOSECONDS_PER_S;
        let labels = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
        writeln!(self.text, "{PREFIX}{name}_sum{labels} {sum}\n{PREFIX}{name}_count{labels} {count}")
    }
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

    #[test]
    fn a_duration_counts_in_its_bucket_and_in_all_greater_ones() {
        let flushes = Arc::new(Histogram::default());
        let measures = ServerMeasures::start(Arc::clone(&flushes));
        for micros in [10, 11, 40_000_000] {
            flushes.record(Duration::from_micros(micros));
        }
        let text = measures.exposition(&Stock::default());
        for row in [
            "_bucket{le=\"0.00001\"} 1\n",
            "_bucket{le=\"0.00003\"} 2\n",
            "_bucket{le=\"10\"} 2\n",
            "_bucket{le=\"+Inf\"} 3\n",
            "_sum 40.000021\n",
            "_count 3\n",
        ] {
            assert!(text.contains(&format!("lockkeeper_server_fsync_seconds{row}")), "{row:?}: {text}");
        }
    }

    #[test]
    fn requests_are_shown_by_the_names_of_their_operations_and_refusals_by_their_reasons() {
        let measures = ServerMeasures::start(Arc::default());
        for operation in [HANDSHAKE, 1, 12, -11, 100] {
            measures.answered(operation, 0, Duration::from_millis(1));
        }
        measures.answered(1, -102, Duration::from_millis(1));
        let text = measures.exposition(&Stock::default());
        for (kind, count) in [("connect", 1), ("create", 2), ("get_children2", 1), ("close_session", 1), ("auth", 1)] {
            let row = format!("request_seconds_count{{kind=\"{kind}\"}} {count}\n");
            assert!(text.contains(&row), "{row:?}: {text}");
        }
        assert!(text.contains("refused_total{reason=\"no_right\"} 1\n") && !text.contains("kind=\"delete\""), "{text}");
    }
}
