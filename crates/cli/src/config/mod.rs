//! Which service is used, and with which settings: options, then the environment, then config files, then the files of
//! this machine.
//!
//! What is there but cannot be used is an error that names it and the cure. There is no fall-back from it: a user who
//! named a service in vain would otherwise lock something else than the rest of the fleet. The current directory is
//! never looked at, since it would split a lock by where one stands.
//!
//! | file | what lives there |
//! | --- | --- |
//! | `settings` | what is settled on, for locks and for a server |
//! | `places` | the environment and the config files: where they are, and which of them counts |
//! | `file` | the keys of a config file |
//! | `credentials` | user and password that are kept apart from the URL |
//! | `retry`, `server`, `monitor` | its tables |

mod credentials;
mod file;
mod monitor;
mod places;
mod retry;
mod server;
mod settings;
#[cfg(test)]
mod tests;

pub(crate) use self::server::{ServerSettings, TICK_MIN};
pub(crate) use self::settings::Settings;

const EXAMPLE_URL: &str = "file:/var/lib/lockkeeper";
