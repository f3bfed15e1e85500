//! `monitor`: what is known of all locks of a service, by HTTP.
//!
//! | file | what lives there |
//! | --- | --- |
//! | `listener` | connections, their limits, and the requests that are refused |
//! | `answers` | which path is answered with what |
//! | `metrics` | the metrics, in the text format of Prometheus |
//! | `alerting` | what is told of alerts |
//!
//! What is known is collected in `lockkeeper-monitor`; the shapes of the answers are in `output`.

mod alerting;
mod answers;
mod listener;
mod metrics;

pub(crate) use alerting::Alerting;
pub(crate) use answers::Monitor;
pub(crate) use listener::Listener;
