//! The service and its settings: options, then the environment, then config files, then the files of this machine.
//!
//! A setting that is there but cannot be used is an error that names it and the cure. There is no fall-back: a user who
//! named a service that cannot be used would otherwise take other locks than the rest of the fleet. The current
//! directory is never looked at, since a lock would then depend on it.
//!
//! | file | what lives there |
//! | --- | --- |
//! | `settings` | what was chosen, for locks and for a server |
//! | `places` | the environment and the config files: where they are, and which of them counts |
//! | `file` | the keys of a config file, but for the monitor's, which are in `crates/console` |
//! | `credentials` | user and password that are kept apart from the URL |
//! | `server` | those of a server, which are options too |

mod credentials;
mod file;
mod places;
mod server;
mod settings;
#[cfg(test)]
mod tests;

pub(crate) use self::server::{ServerSettings, TlsFiles, Words};
#[cfg(any(feature = "monitor", feature = "top"))]
pub(crate) use self::settings::monitor_settings;
pub(crate) use self::settings::{Global, ServiceSettings};
