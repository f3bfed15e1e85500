//! `monitor`: what is known of all locks of a service, by HTTP.
//!
//! | file | what lives there |
//! | --- | --- |
//! | `serve` | the life of a monitor |
//! | `listener` | connections, their limits, and the requests that are refused |
//! | `answers`, `plain` | which path for programs is answered with what, and in which form |
//! | `view` | what all answers are made from |
//! | `metrics` | the metrics, in the text format of Prometheus |
//! | `page` | the page for people |
//! | `operate` | orders from the page and from programs, if it was started for that |
//! | `alerting` | which alerts there are, and what is said of them on stderr |
//! | `sender` | which of several monitors sends them |
//! | `state_file` | what is known of them at the next start |
//! | `receiver`, `webhook` | who else is told: a webhook, a command |
//!
//! What is known is collected in `lockkeeper-monitor`; the shapes of the answers are in `output`.

mod alerting;
mod answers;
mod listener;
mod metrics;
mod operate;
mod page;
mod plain;
mod receiver;
mod sender;
mod serve;
mod state_file;
mod view;
mod webhook;

pub use serve::Monitor;
