//! The settings of the monitor in a config file, and the kinds of value that all of its tables share.

mod listen;
mod monitor;
mod receiver;
mod span;

pub use listen::{Listen, one, one_or_more};
pub use monitor::{MonitorSettings, MonitorTable};
#[cfg(feature = "monitor")]
pub(crate) use receiver::{Webhook, WebhookFormat};
pub use span::{Span, duration, text_or_number};
