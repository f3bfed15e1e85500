//! The commands, one file each, and the way to them.
//!
//! | file | command |
//! | --- | --- |
//! | `dispatch` | all of them |
//! | `service` | what they share: the keeper, the runtime, the form of an answer |
//! | `run` | `run` |
//! | `hold` | `hold` |
//! | `claim` | what both ask for, and how both wait for it |
//! | `restart` | when `run --restart` runs a command anew |
//! | `fence` | `fence` |
//! | `look` | `ls`, `show`: looking at the service |
//! | `monitor` | `monitor`: what is known of all locks, by HTTP; `history`, `deadlocks`, `gc` |
//! | `top` | `top`: the busiest locks on a terminal |
//! | `doctor` | `doctor`: examining the service |
//! | `watch` | `show --watch` |
//! | `orders` | `revoke`, `break`, `freeze`, `thaw` |
//! | `server`, `metrics` | `server`; what it tells Prometheus |
//! | `verify` | `verify`: judging what programs have written |
//! | `completions` | `completions`, `man` |

mod claim;
mod completions;
mod dispatch;
mod doctor;
mod fence;
mod hold;
mod look;
mod metrics;
#[cfg(feature = "monitor")]
mod monitor;
mod orders;
mod restart;
mod run;
mod server;
mod service;
#[cfg(feature = "top")]
mod top;
mod verify;
mod watch;

pub(crate) use dispatch::main;
