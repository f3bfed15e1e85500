//! The names of the metrics that keepers record, and buckets that fit them. With the feature `metrics`.
//!
//! Install the recorder before the first keeper is built: handles are asked of it once, and kept. Every crate of the
//! family `metrics` will do; `examples/metrics_prometheus.rs` serves them to Prometheus.
//!
//! | name | type | labels |
//! | --- | --- | --- |
//! | [`ACQUIRE_SECONDS`] | histogram | `backend`, `kind`, `outcome` |
//! | [`HOLD_SECONDS`] | histogram | `backend`, `kind` |
//! | [`PROOF_SECONDS`], [`MARGIN_SECONDS`] | histogram | `backend` |
//! | [`WAITERS`], [`HELD`] | gauge | `backend`, `kind` |
//! | [`LOST_TOTAL`] | counter | `reason` |
//! | [`TIMEOUTS_TOTAL`], [`RETRIES_TOTAL`], [`RECONNECTIONS_TOTAL`] | counter | |
//!
//! - `backend` is [`Capabilities::backend`](crate::Capabilities::backend): `file`, `zookeeper`, `memory` and so on.
//! - `kind` is `mutex`, `rwlock`, `semaphore`, `election` or `barrier`.
//! - `outcome` is `granted`; `busy` for a call that was not to wait; `timeout`; `cancelled` for one whose future was
//!   dropped; `lost` for one whose place was lost for good; `error`.
//! - `reason` is `broken`, `closed`, `expired`, `lapsed`, `max_hold` or `removed`, as in
//!   [`LossReason`](crate::LossReason).
//! - `lock`, on all that concern one lock, for the names that
//!   [`KeeperBuilder::label_locks`](crate::KeeperBuilder::label_locks) allows.
//!
//! Each call is one sample, also a call for several permits; a call of an owner key that comes to share a hold of
//! another task of that key is none. A place that [`Mutex::queue_up`](crate::Mutex::queue_up)
//! takes is one from there to its grant or its drop. A hold ends when it is given back or its loss is known, whichever
//! comes first, so [`HELD`] counts no lost hold whose guard still exists. Tasks that wait for a lock which their
//! process [hands off](crate::Handoff) are counted in [`WAITERS`], though they stand in no queue of the service.

pub use lockkeeper_recipes::meter::names::{
    ACQUIRE_SECONDS, ALL, BUCKETS_SECONDS, HELD, HOLD_SECONDS, LOST_TOTAL, MARGIN_SECONDS, PROOF_SECONDS,
    RECONNECTIONS_TOTAL, RETRIES_TOTAL, TIMEOUTS_TOTAL, WAITERS,
};
