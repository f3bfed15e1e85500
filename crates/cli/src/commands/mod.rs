//! The commands, one file each, and the way to them.
//!
//! | file | command |
//! | --- | --- |
//! | `dispatch` | all of them |
//! | `run` | `run` |
//! | `look` | `ls`, `show`, `capabilities`: looking at the service |
//! | `wait` | `wait` |
//! | `check` | `check` |
//! | `server` | `server` |
//! | `texts` | `completions`, `man` |

mod check;
mod dispatch;
mod look;
mod run;
mod server;
mod texts;
mod wait;

pub(crate) use dispatch::main;
