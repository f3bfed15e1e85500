//! The command line, and the message for one that cannot be read.
//!
//! Options that do not work yet are not here. Which names and URLs are valid is not decided here.
//!
//! | file | what lives there |
//! | --- | --- |
//! | `definition` | the commands, and the options of every command |
//! | `run` | the options of `run` |
//! | `claim` | those that it has in common with `hold` |
//! | `fence` | those of `fence`; those of `server` are in `config`, the others in `crates/console` |
//! | `parsing` | from the arguments to a request |
//! | `refusal` | the message for a command line that cannot be read |

mod claim;
mod definition;
mod fence;
mod parsing;
mod refusal;
mod run;

#[cfg(test)]
pub(crate) use crate::run::OnLoss;
pub(crate) use claim::ClaimArgs;
pub(crate) use definition::{Cli, Command, Global};
pub(crate) use fence::FenceArgs;
pub(crate) use parsing::{CliRequest, parse};
pub(crate) use run::{OnRevoke, RunArgs};
