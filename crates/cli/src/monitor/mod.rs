//! `monitor`: what is known of all locks of a service, by HTTP.
//!
//! | file | what lives there |
//! | --- | --- |
//! | `listener` | connections, their limits, and the requests that are refused |
//! | `answers` | which path is answered with what |
//! | `metrics` | the metrics, in the text format of Prometheus |
//! | `pattern` | patterns of names |
//!
//! What is known is collected in `lockkeeper-monitor`; the shapes of the answers are in `output`.

mod answers;
mod listener;
mod metrics;
mod pattern;

pub(crate) use answers::Monitor;
pub(crate) use listener::Listener;
pub(crate) use pattern::Pattern;
