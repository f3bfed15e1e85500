//! The command line, and the message for one that cannot be read.
//!
//! Options that do not work yet are not here. Which names and URLs are valid is not decided here.
//!
//! | file | what lives there |
//! | --- | --- |
//! | `definition` | the commands, and the options of every command |
//! | `run`, `hold` | the options of `run` and `hold` |
//! | `claim` | what both have in common |
//! | `fence`, `gc`, `monitor`, `server` | those of `fence`, `gc`, `monitor` and `server` |
//! | `orders` | those of `revoke`, `break`, `freeze` and `thaw` |
//! | `parsing` | from the arguments to a request |
//! | `refusal` | the message for a command line that cannot be read |
mod claim;
mod definition;
mod fence;
mod gc;
mod hold;
mod monitor;
mod orders;
mod parsing;
mod refusal;
mod run;
mod server;

pub(crate) use claim::ClaimArgs;
pub(crate) use definition::{Cli, Command, Global};
pub(crate) use fence::FenceArgs;
pub(crate) use gc::GcArgs;
pub(crate) use hold::HoldArgs;
pub(crate) use monitor::MonitorArgs;
#[cfg(any(feature = "monitor", feature = "top"))]
pub(crate) use orders::reason;
pub(crate) use orders::{BreakArgs, FreezeArgs, Kind, RevokeArgs, ThawArgs};
pub(crate) use parsing::{Request, parse};
pub(crate) use run::{OnLoss, OnRevoke, RunArgs};
