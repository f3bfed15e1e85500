//! The command line, and the message for one that cannot be read.
//!
//! Options that do not work yet are not here. Which names and URLs are valid is not decided here.
//!
//! | file | what lives there |
//! | --- | --- |
//! | `definition` | the commands, and the options of every command |
//! | `run` | the options of `run` |
//! | `claim` | those that it has in common with `hold` |
//! | `fence`, `monitor` | those of `fence` and `monitor`; those of `server` are in `config` |
//! | `orders` | those of `revoke`, `break`, `freeze` and `thaw` |
//! | `parsing` | from the arguments to a request |
//! | `refusal` | the message for a command line that cannot be read |

mod claim;
mod definition;
mod fence;
mod monitor;
mod orders;
mod parsing;
mod refusal;
mod run;

#[cfg(test)]
pub(crate) use crate::run::OnLoss;
pub(crate) use claim::ClaimArgs;
pub(crate) use definition::{Cli, Command, Global};
pub(crate) use fence::FenceArgs;
#[cfg(feature = "monitor")]
pub(crate) use monitor::MonitorArgs;
#[cfg(any(feature = "monitor", feature = "top"))]
pub(crate) use orders::reason;
pub(crate) use orders::{BreakArgs, FreezeArgs, Kind, RevokeArgs, ThawArgs};
pub(crate) use parsing::{Request, parse};
pub(crate) use run::{OnRevoke, RunArgs};
