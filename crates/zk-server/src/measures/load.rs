//! The measurements as four-letter words show them.

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
