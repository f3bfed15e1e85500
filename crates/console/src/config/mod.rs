//! The settings of the monitor in a config file, and the kinds of value that all of its tables share.

mod monitor;
mod receiver;
mod values;

pub use monitor::{MonitorSettings, MonitorTable};
#[cfg(feature = "monitor")]
pub(crate) use receiver::{Webhook, WebhookFormat};
pub use values::{Listen, Span, duration, one, one_or_more, text_or_number};
