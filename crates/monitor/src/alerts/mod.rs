//! Alerts: what is wrong for long enough to tell an operator, told once when it begins and once when it ends.
//!
//! - `findings`: what is wrong now, and from which thresholds on;
//! - `episode`: from what is wrong now and then to one alert;
//! - `outbox`: what a receiver is still to be told;
//! - `desk`: what one of several monitors tells its receivers;
//! - `notes`: what outlives it, for itself after a restart and for the next sender.
//!
//! Pure: who is told, and how, is the command's matter.

mod desk;
mod episode;
mod findings;
mod notes;
mod outbox;

pub use crate::snapshot::SENDERS;
pub use desk::{Desk, is_of_service};
pub use episode::{Alert, AlertNews, Alerts, Outage};
pub use findings::{About, AlertFinding};
pub use findings::{Rule, Thresholds};
pub use notes::{AlertNotes, NotedAlert, NotesError};
pub use outbox::{AlertOutbox, KEPT_FOR, NEWS_MAX};
