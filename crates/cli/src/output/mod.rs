//! Output of the commands on stdout: text tables and JSON. Those of locks are in `crates/console`.
//!
//! | file | what lives there |
//! | --- | --- |
//! | `remnants` | what users have left, for `gc` |
//! | `diagnosis` | what was found of a service, for `doctor` |
//! | `matrix` | what each service promises, for `capabilities` |
//! | `promises` | what the service in use promises, for `capabilities`; whether a lock is held, for `check` |

mod diagnosis;
mod matrix;
mod promises;
#[cfg(feature = "monitor")]
mod remnants;

pub(crate) use diagnosis::Diagnosis;
pub(crate) use lockkeeper_console::output::{
    ContenderView, Deed, ListedLock, ShownLock, brief, json_line, list, one_line, print, print_json, say, table, write,
};
#[cfg(feature = "monitor")]
pub(crate) use lockkeeper_console::output::{Deadlocks, OrderCommands, shell_line};
pub(crate) use matrix::Matrix;
pub(crate) use promises::{Checked, Promises};
#[cfg(feature = "monitor")]
pub(crate) use remnants::{RemnantOutcome, Remnants};
