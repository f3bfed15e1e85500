//! The command line, and the message for one that cannot be read.
//!
//! Options that do not work yet are not here. Which names and URLs are valid is not decided here.
//!
//! | file | what lives there |
//! | --- | --- |
//! | `definition` | the commands, and the options of every command |
//! | `run` | the options of `run`, `hold` and `fence` |
//! | `documented` | the commands that the guide shows, for tests |
//! | `parsing` | from the arguments to a request |

mod definition;
#[cfg(test)]
mod documented;
mod parsing;
mod run;

#[cfg(test)]
pub(crate) use crate::run::OnLoss;
pub(crate) use definition::{Cli, Command};
pub(crate) use parsing::{CliRequest, parse};
pub(crate) use run::{ClaimArgs, FenceArgs, OnRevoke, RunArgs};
