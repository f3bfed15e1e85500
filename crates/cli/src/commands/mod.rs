//! The commands, one file each, and the way to them.
//!
//! | file | command |
//! | --- | --- |
//! | `dispatch` | all of them |
//! | `service` | what they share: the keeper, the runtime, the form of an answer |
//! | `run` | `run` |
//! | `hold` | `hold` |
//! | `claim` | what both ask for: the kind of lock, and how long it is waited for |
//! | `acquire` | how both wait for it |
//! | `restart` | when `run --restart` runs a command anew |
//! | `fence` | `fence` |
//! | `look` | `ls`, `show`: looking at the service |
//! | `capabilities` | `capabilities`: what services promise |
//! | `deadlocks` | `deadlocks`: contenders that wait for each other |
//! | `monitor` | `monitor`: what is known of all locks, by HTTP |
//! | `top` | `top`: the busiest locks on a terminal |
//! | `gc` | `gc`: removing what users have left |
//! | `doctor` | `doctor`: examining the service |
//! | `setup` | `setup`: what a service needs before the first lock |
//! | `watch` | `show --watch` |
//! | `wait` | `wait` |
//! | `check` | `check` |
//! | `orders` | `revoke`, `break`, `freeze`, `thaw` |
//! | `server`, `metrics` | `server`; what it tells Prometheus |
//! | `completions`, `manual` | `completions`, `man` |

mod acquire;
mod capabilities;
mod check;
mod claim;
mod completions;
#[cfg(feature = "monitor")]
mod deadlocks;
mod dispatch;
mod doctor;
mod fence;
#[cfg(feature = "monitor")]
mod gc;
mod hold;
mod look;
mod manual;
mod metrics;
#[cfg(feature = "monitor")]
mod monitor;
mod orders;
mod restart;
mod run;
mod server;
mod service;
mod setup;
#[cfg(feature = "top")]
mod top;
mod wait;
mod watch;

pub(crate) use dispatch::main;
