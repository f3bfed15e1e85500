//! A running server's measurements of itself, for `mntr` and for Prometheus. It imports nothing of the server.
//!
//! - `histogram`: durations, counted in buckets; `collected`: all that is measured;
//! - `exposition`: all of it as Prometheus reads it;
//! - `load`: what four-letter words show of it; `descriptors`: how many files the process has open.

mod collected;
mod descriptors;
mod exposition;
mod histogram;
mod load;

pub(crate) use collected::{HANDSHAKE, ServerMeasures};
pub(crate) use exposition::Stock;
pub(crate) use histogram::Histogram;
pub(crate) use load::Load;
