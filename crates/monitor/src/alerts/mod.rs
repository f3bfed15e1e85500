//! Alerts: what is wrong for long enough to tell an operator, told once when it begins and once when it ends.
//!
//! - `rule`: what is wrong, and from which thresholds on;
//! - `findings`: what is wrong now;
//! - `episode`: from what is wrong now and then to one alert;
//! - `outbox`: what a receiver is still to be told.
//!
//! Pure: who is told, and how, is the command's matter.

mod episode;
mod findings;
mod outbox;
mod rule;

pub use episode::{Alert, Alerts, News};
pub use findings::{About, Finding};
pub use outbox::{KEPT_FOR, NEWS_MAX, Outbox};
pub use rule::{Rule, Thresholds};
