//! Output of the commands on stdout: text tables and JSON. What is shown of locks and contenders is in `crates/console`.
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
#[cfg(feature = "monitor")]
pub(crate) use lockkeeper_console::output::{Deadlocks, Orders, shell_line};
pub(crate) use lockkeeper_console::output::{
    Deed, ListedLock, ShownLock, Who, brief, json_line, list, one_line, print, print_json, say, table, write,
};
pub(crate) use matrix::Matrix;
pub(crate) use promises::{Checked, Promises};
#[cfg(feature = "monitor")]
pub(crate) use remnants::{Outcome, Remnants};
