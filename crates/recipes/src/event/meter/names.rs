//! The names of what is measured, with the texts that recorders show, and the buckets that fit all of it.

use ::metrics::{Unit, describe_counter, describe_gauge, describe_histogram};

/// How long calls took that asked for a lock: a histogram by `backend`, `kind` and `outcome`.
pub const ACQUIRE_SECONDS: &str = "lockkeeper_acquire_seconds";
/// How long locks were held: a histogram by `backend` and `kind`.
pub const HOLD_SECONDS: &str = "lockkeeper_hold_seconds";
/// How long the service took to prove a session alive: a histogram by `backend`.
pub const PROOF_SECONDS: &str = "lockkeeper_proof_seconds";
/// What was left before the deadline of a session when it was moved: a histogram by `backend`.
pub const MARGIN_SECONDS: &str = "lockkeeper_margin_seconds";
/// Calls and places that wait now: a gauge by `backend` and `kind`.
pub const WAITERS: &str = "lockkeeper_waiters";
/// Holds that are neither given back nor known to be lost: a gauge by `backend` and `kind`.
pub const HELD: &str = "lockkeeper_held";
/// Calls whose time was up first: a counter.
pub const TIMEOUTS_TOTAL: &str = "lockkeeper_timeouts_total";
/// Holds that were lost: a counter by `reason`.
pub const LOST_TOTAL: &str = "lockkeeper_lost_total";
/// Attempts that followed one that had failed in a way that may pass: a counter.
pub const RETRIES_TOTAL: &str = "lockkeeper_retries_total";
/// Broken connections that were opened again, with the session or with a new one: a counter.
pub const RECONNECTIONS_TOTAL: &str = "lockkeeper_reconnections_total";

/// All names.
pub const ALL: [&str; 10] = [
    ACQUIRE_SECONDS,
    HOLD_SECONDS,
    PROOF_SECONDS,
    MARGIN_SECONDS,
    WAITERS,
    HELD,
    TIMEOUTS_TOTAL,
    LOST_TOTAL,
    RETRIES_TOTAL,
    RECONNECTIONS_TOTAL,
];

/// The upper ends of buckets that fit all of these histograms, in seconds: from a lock beside its service to a job that
/// holds one for an hour.
pub const BUCKETS_SECONDS: [f64; 14] =
    [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 60.0, 300.0, 1_800.0, 7_200.0];

/// Tells the recorder what each name means.
pub(super) fn describe() {
    describe_histogram!(ACQUIRE_SECONDS, Unit::Seconds, "How long calls took that asked for a lock.");
    describe_histogram!(HOLD_SECONDS, Unit::Seconds, "How long locks were held.");
    describe_histogram!(PROOF_SECONDS, Unit::Seconds, "How long the service took to prove a session alive.");
    describe_histogram!(
        MARGIN_SECONDS,
        Unit::Seconds,
        "What was left before the deadline of a session when it was renewed."
    );
    describe_gauge!(WAITERS, Unit::Count, "Calls and places of this process that wait for a lock.");
    describe_gauge!(HELD, Unit::Count, "Locks that this process holds.");
    describe_counter!(TIMEOUTS_TOTAL, Unit::Count, "Calls whose time was up before the lock was granted.");
    describe_counter!(LOST_TOTAL, Unit::Count, "Holds that were lost, by reason.");
    describe_counter!(RETRIES_TOTAL, Unit::Count, "Attempts that followed one that had failed.");
    describe_counter!(RECONNECTIONS_TOTAL, Unit::Count, "Broken connections to the service that were opened again.");
}
