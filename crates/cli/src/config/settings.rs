//! The chosen settings: the service and its options, for locks; and those of a server.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use lockkeeper::retry::RetryPolicy;
use lockkeeper::{KeeperBuilder, ServiceUrl};

use super::credentials::PlaceCredentials;
use super::file::LockSettings;
use super::places::{ConfigPlaces, URL_VARIABLE};
use super::server::ServerSettings;
use crate::exit::CommandFailure;

/// The files of this machine, in the directory that the library chooses.
const DEFAULT_URL: &str = "file:";

/// What every command takes.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Options of every command")]
pub(crate) struct Global {
    /// The service to use, as in --connect file:/srv/locks; a password belongs into LOCKKEEPER_PASSWORD
    #[arg(long, value_name = "URL", global = true)]
    pub(crate) connect: Option<String>,
    /// The config file to read, as in --config /etc/backup/lockkeeper.toml
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) config: Option<PathBuf>,
    /// Print JSON, as in `lockkeeper --json ls`
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Say which service is used and what happens, as in `lockkeeper -v run x -- true`
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
}

#[cfg(any(feature = "monitor", feature = "top"))]
impl Global {
    /// Orders that reach the same service, also in a shell without these options.
    pub(crate) fn orders(&self) -> lockkeeper_console::output::OrderCommands {
        lockkeeper_console::output::OrderCommands::new(self.connect.as_deref(), self.config.as_deref())
    }
}

#[derive(Debug)]
pub(crate) struct ServiceSettings {
    pub(super) url: ServiceUrl,
    /// Where the URL and its settings were found, for messages about one that cannot be used; `None` for the default.
    origin: Option<String>,
    is_named: bool,
    /// When to try again after a transient failure, if a config file says it.
    pub(crate) retry: Option<RetryPolicy>,
    /// How long to wait for a lock when the command line does not say.
    pub(crate) acquire_timeout: Option<Duration>,
}

impl ServiceSettings {
    /// Chooses a service, by the options, this process's environment and the config files of this machine.
    pub(crate) fn load(global: &Global) -> Result<Self, CommandFailure> {
        Self::settle(global, &ConfigPlaces::here())
    }

    pub(super) fn settle(global: &Global, places: &ConfigPlaces<'_>) -> Result<Self, CommandFailure> {
        // A file without a service says how one is used that is named elsewhere.
        let files = places.find_until(global.config.as_deref(), |file| file.locks, |locks| locks.url.is_some())?;
        let from_file = files.last().and_then(|(path, locks)| Some((locks.url.clone()?, path.display().to_string())));
        let from_environment = places.url()?;
        let (url, origin) = if let Some(url) = &global.connect {
            (url.clone(), Some("--connect".to_owned()))
        } else if let Some(url) = from_environment {
            (url, Some(URL_VARIABLE.to_owned()))
        } else if let Some((url, path)) = from_file {
            (url, Some(path))
        } else {
            (DEFAULT_URL.to_owned(), None)
        };
        let is_option = global.connect.is_some();
        let url = match &origin {
            Some(origin) => checked(&url, origin, is_option)?,
            None => ServiceUrl::parse(&url)?,
        };
        let url = PlaceCredentials::of_environment(places)?.complete(url)?;
        let is_named = origin.is_some();
        let mut settled = Self { url, origin, is_named, retry: None, acquire_timeout: None };
        for (path, locks) in files {
            settled.take_in(&path.display().to_string(), locks)?;
        }
        Ok(settled)
    }

    /// Takes in what a file says where no other place did before.
    fn take_in(&mut self, path: &str, locks: LockSettings) -> Result<(), CommandFailure> {
        let is_of_file = self.origin.as_deref() == Some(path);
        if !is_of_file && locks.has_service_settings() {
            let origin = self.origin.as_deref().unwrap_or("the default directory");
            self.origin = Some(format!("{origin} with the settings of {path}"));
        }
        self.url = locks.complete(self.url.clone());
        // Another service is not to be told what is meant for the file's own.
        if is_of_file {
            let credentials = PlaceCredentials::of_file(locks.user, locks.password_file.as_deref(), path)?;
            self.url = credentials.complete(self.url.clone())?;
        }
        self.retry = self.retry.take().or(locks.retry);
        self.acquire_timeout = self.acquire_timeout.or(locks.acquire_timeout);
        Ok(())
    }

    pub(crate) fn keeper(&self) -> Result<KeeperBuilder, CommandFailure> {
        self.builder().map_err(|error| self.refused(error))
    }

    /// The same with the service's own error, for a caller that weighs it.
    pub(crate) fn builder(&self) -> lockkeeper::Result<KeeperBuilder> {
        let builder = lockkeeper::builder(&self.url)?;
        Ok(match &self.retry {
            Some(retry) => builder.retry(retry.clone()),
            None => builder,
        })
    }

    /// That the service cannot be used, with where it was named.
    pub(crate) fn refused(&self, error: lockkeeper::Error) -> CommandFailure {
        match &self.origin {
            Some(origin) => CommandFailure::ours(format!("{origin}: {error:#}")),
            None => CommandFailure::from(error),
        }
    }

    /// Whether a service was named at all; else it is the files of this machine.
    pub(crate) const fn is_named(&self) -> bool {
        self.is_named
    }

    /// The settings of the service, each with what is so by the URL.
    pub(crate) fn in_force(&self) -> Vec<(&'static str, String)> {
        lockkeeper::settings_in_force(&self.url)
    }

    /// The service's URL, without its password.
    pub(crate) fn service(&self) -> String {
        self.url.to_string()
    }
}

/// Reads what the config files say of the monitor; nothing if none of them does.
#[cfg(any(feature = "monitor", feature = "top"))]
pub(crate) fn monitor_settings(global: &Global) -> Result<lockkeeper_console::config::MonitorSettings, CommandFailure> {
    let found = ConfigPlaces::here().find(global.config.as_deref(), |file| file.monitor)?;
    Ok(found.map(|(_, settings)| settings).unwrap_or_default())
}

impl ServerSettings {
    /// Reads what the config files say of `lockkeeper server`; nothing if none of them does.
    pub(crate) fn load(global: &Global) -> Result<Self, CommandFailure> {
        Self::settle(global, &ConfigPlaces::here())
    }

    pub(super) fn settle(global: &Global, places: &ConfigPlaces<'_>) -> Result<Self, CommandFailure> {
        let named = global.config.as_deref();
        match (places.find(named, |file| file.server)?, named) {
            (Some((_, settings)), _) => Ok(settings),
            (None, None) => Ok(Self::default()),
            (None, Some(path)) => Err(CommandFailure::ours(format!(
                "--config: {} has no [server], so it says nothing of a server; add it, or leave --config out",
                path.display()
            ))),
        }
    }
}

/// Reads a URL, and refuses one that should not stand where it was found.
fn checked(url: &str, origin: &str, is_option: bool) -> Result<ServiceUrl, CommandFailure> {
    let parsed = ServiceUrl::parse(url).map_err(|error| CommandFailure::ours(format!("{origin}: {error:#}")))?;
    if is_option && parsed.password().is_some() {
        return Err(CommandFailure::ours(format!(
            "--connect: a password on a command line is visible to every user; give it in LOCKKEEPER_PASSWORD, \
             in a file that LOCKKEEPER_PASSWORD_FILE names, or with this URL in {URL_VARIABLE} or a config file"
        )));
    }
    // A URL that belongs to a user or a machine must not depend on the current directory.
    if !is_option && url.strip_prefix("file:").is_some_and(|path| !path.is_empty() && !path.starts_with('/')) {
        return Err(CommandFailure::ours(format!(
            "{origin}: `{url}` depends on the current directory; write its path from the root"
        )));
    }
    Ok(parsed)
}
