//! The command as its users see it: real commands, in real processes, on the locks of this machine.
//!
//! | file | what is claimed there |
//! | --- | --- |
//! | `bad_input` | what cannot be done is refused in one line |
//! | `capabilities` | what services promise |
//! | `commands` | the commands, with real holders and waiters |
//! | `deadlocks`, `deadlocks_curator`, `crossing` | commands that wait for each other |
//! | `deadlocks_owners` | programs that do, by owner keys |
//! | `monitor`, `monitor_alerts` | what a monitor serves by HTTP; who is told of its alerts |
//! | `monitor_operate`, `page_operate` | its orders, of programs and on its page, and who may not give any |
//! | `monitor_losses` | what it tells of holders that died or give no sign of life |
//! | `default_directory` | where the locks lie when no service is named |
//! | `doctor` | what is found of a service, and how that ends |
//! | `documented` | the scripts of the guide for files, run word for word |
//! | `escaping` | names, data and nodes that would steer a terminal, printed by every command |
//! | `fence`, `fence_crash` | a holder that was overtaken does not run its command, also after a crash of the machine |
//! | `gc` | what is left is printed, and removed if it is still dead |
//! | `held_up`, `permanent`, `replaced_directory` | how fast a run ends that cannot go on |
//! | `history`, `history_fleets` | what a monitor remembers; on each service, beside fleets with short holds |
//! | `hold` | a lock without a command |
//! | `ignored_signals` | signals that the caller ignores stay ignored |
//! | `kinds` | read/write locks and semaphores |
//! | `looking` | looking as a user who may only read, and from a shell's prompt |
//! | `main_job` | one at a time and in their order |
//! | `orders` | `revoke`, `break`, `freeze`, `thaw` |
//! | `page`, `page_services`, `page_keyboard` | the monitor's page in a real browser; on each service; by keys |
//! | `run_command`, `run_terminal` | the command of a `run` is its caller's in all but its end |
//! | `run_containers` | runs in several containers with one directory |
//! | `run_slots` | a command that is run once for each slot |
//! | `run_killed`, `run_namespace`, `run_set_user` | a `run` whose processes are struck |
//! | `server` | a server, its locks and its end |
//! | `server_data` | what a server keeps on disk, backed up and restored by the commands of its document |
//! | `server_metrics` | its metrics, as Prometheus reads them |
//! | `server_nodes` | what a server removes by itself, beside Curator |
//! | `server_operation` | what its operator is told, and how it is watched |
//! | `server_settings` | its settings, as clients meet them |
//! | `server_tls` | TLS of a server |
//! | `top` | the busiest locks on a real terminal |
//! | `service`, `unreachable` | `run --restart`; servers that all refuse |
//! | `watch` | `show --watch` |

#![cfg_attr(
    not(all(feature = "etcd", feature = "metrics", feature = "monitor", feature = "top")),
    expect(dead_code, reason = "the tests of some features use a part of the support")
)]

mod bad_input;
mod capabilities;
mod commands;
#[cfg(feature = "monitor")]
mod crossing;
#[cfg(feature = "monitor")]
mod deadlocks;
#[cfg(feature = "monitor")]
mod deadlocks_curator;
#[cfg(feature = "monitor")]
mod deadlocks_owners;
mod default_directory;
mod doctor;
mod documented;
#[cfg(feature = "monitor")]
mod escaping;
mod fence;
mod fence_crash;
#[cfg(feature = "monitor")]
mod gc;
mod held_up;
#[cfg(feature = "monitor")]
mod history;
#[cfg(feature = "monitor")]
mod history_fleets;
mod hold;
mod ignored_signals;
mod kinds;
mod looking;
mod main_job;
#[cfg(feature = "monitor")]
mod monitor;
#[cfg(feature = "monitor")]
mod monitor_alerts;
#[cfg(feature = "monitor")]
mod monitor_losses;
#[cfg(feature = "monitor")]
mod monitor_operate;
mod orders;
#[cfg(feature = "monitor")]
mod page;
#[cfg(feature = "monitor")]
mod page_keyboard;
#[cfg(feature = "monitor")]
mod page_operate;
#[cfg(feature = "monitor")]
mod page_services;
mod permanent;
mod replaced_directory;
mod run_command;
mod run_containers;
mod run_killed;
mod run_namespace;
mod run_set_user;
mod run_slots;
mod run_terminal;
mod server;
mod server_attacks;
mod server_data;
mod server_metrics;
mod server_nodes;
mod server_operation;
mod server_settings;
mod server_tls;
mod server_trouble;
mod service;
#[path = "../support/services.rs"]
mod services;
#[path = "../support/mod.rs"]
mod support;
#[cfg(all(feature = "monitor", feature = "top"))]
mod top;
#[cfg(all(feature = "monitor", feature = "top"))]
mod top_services;
mod unreachable;
mod verify;
mod watch;
