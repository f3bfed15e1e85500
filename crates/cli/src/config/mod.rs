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
//! | `file` | the keys of a config file |
//! | `credentials` | user and password that are kept apart from the URL |
//! | `retry`, `server` | its tables; that of the monitor is in `crates/console` |
//! | `size`, `words` | a number of bytes, four-letter words |

mod credentials;
mod file;
mod places;
mod retry;
mod server;
mod settings;
mod size;
#[cfg(test)]
mod tests;
mod words;

pub(crate) use self::server::{ServerSettings, TlsFiles};
pub(crate) use self::settings::ServiceSettings;
#[cfg(any(feature = "monitor", feature = "top"))]
pub(crate) use self::settings::monitor_settings;
pub(crate) use self::words::Words;

const EXAMPLE_URL: &str = "file:/var/lib/lockkeeper";
