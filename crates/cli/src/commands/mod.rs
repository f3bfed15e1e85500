//! The commands, one file each, and the way to them.
//!
//! | file | command |
//! | --- | --- |
//! | `dispatch` | all of them |
//! | `run` | `run` |
//! | `claim` | what `run` asks for: the kind of lock, and how long it is waited for |
//! | `restart` | when `run --restart` runs a command anew |
//! | `look` | `ls`, `show`, `capabilities`: looking at the service |
//! | `watch` | `show --watch` |
//! | `wait` | `wait` |
//! | `check` | `check` |
//! | `orders` | `revoke`, `break`, `freeze`, `thaw` |
//! | `server` | `server` |
//! | `completions`, `manual` | `completions`, `man` |

mod check;
mod claim;
mod completions;
mod dispatch;
mod look;
mod manual;
mod orders;
mod restart;
mod run;
mod server;
mod wait;
mod watch;

pub(crate) use dispatch::main;
