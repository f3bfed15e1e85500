//! Output of the commands on stdout: text tables and JSON. Those of locks are in `crates/console`.
//!
//! | file | what lives there |
//! | --- | --- |
//! | `remnants` | what users have left, for `gc` |
//! | `matrix` | what each service promises, for `capabilities` |
//! | `promises` | what the service in use promises, for `capabilities`; what was found of it, for `doctor`; `check` |

mod matrix;
mod promises;
#[cfg(feature = "monitor")]
mod remnants;

pub(crate) use lockkeeper_console::output::{
    ContenderView, Deed, ListedLock, ShownLock, brief, json_line, list, one_line, print, print_json, say, table, write,
};
#[cfg(feature = "monitor")]
pub(crate) use lockkeeper_console::output::{Deadlocks, OrderCommands, shell_line};
pub(crate) use matrix::Matrix;
pub(crate) use promises::{Checked, Diagnosis, Promises};
#[cfg(feature = "monitor")]
pub(crate) use remnants::{RemnantOutcome, Remnants};
