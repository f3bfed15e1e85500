//! `monitor`: what is known of all locks of a service, by HTTP.
//!
//! | file | what lives there |
//! | --- | --- |
//! | `serve` | the life of a monitor |
//! | `listener` | connections, their limits, and the requests that are refused |
//! | `answers` | which path for programs is answered with what, and in which form |
//! | `past` | the same for questions about the past |
//! | `recording` | the directory that keeps the history over a restart |
//! | `metrics` | the metrics, in the text format of Prometheus |
//! | `page` | the page for people |
//! | `operate` | orders from the page and from programs, if it was started for that |
//! | `alerting` | which alerts there are, and what is said of them on stderr |
//! | `sender` | which of several monitors sends them |
//! | `asking` | questions to a monitor that runs elsewhere |
//! | `receiver` | who else is told: a webhook, a command |
//!
//! What is known is collected in `lockkeeper-monitor`; the shapes of the answers are in `output`.

mod alerting;
mod answers;
mod asking;
mod listener;
mod metrics;
mod operate;
mod page;
mod past;
mod receiver;
mod recording;
mod sender;
mod serve;

pub use asking::{HistoryForm, ask_history};
pub use serve::Monitor;
