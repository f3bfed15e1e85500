//! The shape of a config file: its keys, read and checked. Which file is read is not decided here.

use std::path::Path;
use std::time::Duration;

use lockkeeper::ServiceUrl;
use lockkeeper::retry::RetryPolicy;
use lockkeeper_console::config::{MonitorSettings, MonitorTable, Span};
use serde::Deserialize;

use super::EXAMPLE_URL;
use super::retry::RetryTable;
use super::server::ServerSettings;
use crate::exit::CommandFailure;

/// What one config file says; a part is absent if the file does not have it.
#[derive(Debug)]
pub(super) struct ConfigFile {
    pub(super) locks: Option<LockSettings>,
    pub(super) server: Option<ServerSettings>,
    #[cfg_attr(
        not(any(test, feature = "monitor", feature = "top")),
        expect(dead_code, reason = "checked with the rest of the file in every build")
    )]
    pub(super) monitor: Option<MonitorSettings>,
}

#[derive(Debug)]
pub(super) struct LockSettings {
    /// The service; none if the file only says how any is used.
    pub(super) url: Option<String>,
    pub(super) user: Option<String>,
    pub(super) password_file: Option<String>,
    /// Settings of the service, by their names in its URL.
    service: Vec<(&'static str, String)>,
    pub(super) acquire_timeout: Option<Duration>,
    pub(super) retry: Option<RetryPolicy>,
}

/// A config file as it is written. It has the keys that take effect, and every other key is refused by its name.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ConfigTable {
    url: Option<String>,
    user: Option<String>,
    password_file: Option<String>,
    acquire_timeout: Option<Span>,
    session_timeout: Option<Span>,
    #[serde(alias = "connection_timeout")]
    connect_timeout: Option<Span>,
    operation_timeout: Option<Span>,
    #[serde(alias = "base_path")]
    base: Option<String>,
    retry: Option<RetryTable>,
    server: Option<ServerSettings>,
    monitor: Option<MonitorTable>,
}

impl ConfigFile {
    pub(super) fn parse(text: &str, path: &Path) -> Result<Self, CommandFailure> {
        let place = path.display();
        let mut table: ConfigTable = toml::from_str(text).map_err(|error| {
            // Its own text quotes the file, which may hold a password.
            let message = error.message();
            match error.span().map(|span| line_at(text, span.start)) {
                Some(line) => CommandFailure::ours(format!("{place}, line {line}: {message}")),
                None => CommandFailure::ours(format!("{place}: {message}")),
            }
        })?;
        let refuse = |what: String| CommandFailure::ours(format!("{place}: {what}"));
        let server = table.server.take().map(ServerSettings::of_file).transpose().map_err(refuse)?;
        let monitor = table.monitor.take().map(MonitorTable::check).transpose().map_err(refuse)?;
        let locks = if table.says_nothing_of_locks() { None } else { Some(table.locks(path)?) };
        Ok(Self { locks, server, monitor })
    }
}

impl ConfigTable {
    fn says_nothing_of_locks(&self) -> bool {
        let Self { url, user, password_file, base, retry, .. } = self;
        let spans = [&self.acquire_timeout, &self.session_timeout, &self.connect_timeout, &self.operation_timeout];
        [url, user, password_file, base].into_iter().all(Option::is_none)
            && retry.is_none()
            && spans.into_iter().all(Option::is_none)
    }

    fn locks(self, path: &Path) -> Result<LockSettings, CommandFailure> {
        let place = path.display();
        let is_nameless = self.url.is_none();
        let without_service = [
            ("url", self.url.as_deref() == Some("")),
            ("user", is_nameless && self.user.is_some()),
            ("password_file", is_nameless && self.password_file.is_some()),
        ];
        if let Some((key, _)) = without_service.into_iter().find(|(_, is_so)| *is_so) {
            return Err(CommandFailure::ours(format!(
                "the config file {place} has `{key}` and names no service; add a line such as url = \"{EXAMPLE_URL}\", \
                 or leave `{key}` out"
            )));
        }
        let retry = self.retry.map(RetryTable::policy).transpose();
        let service = [
            ("session_timeout", self.session_timeout.map(|span| span.text)),
            ("connect_timeout", self.connect_timeout.map(|span| span.text)),
            ("operation_timeout", self.operation_timeout.map(|span| span.text)),
            ("base", self.base),
        ];
        Ok(LockSettings {
            url: self.url,
            user: self.user,
            password_file: self.password_file,
            service: service.into_iter().filter_map(|(key, value)| Some((key, value?))).collect(),
            acquire_timeout: self.acquire_timeout.map(|span| span.duration),
            retry: retry.map_err(|what| CommandFailure::ours(format!("{place}: {what}")))?,
        })
    }
}

impl LockSettings {
    pub(super) fn has_service_settings(&self) -> bool {
        !self.service.is_empty()
    }

    /// Adds its settings of the service to a URL; the URL's own go first.
    pub(super) fn complete(&self, url: ServiceUrl) -> ServiceUrl {
        self.service.iter().fold(url, |url, (key, value)| url.with_default(key, value))
    }
}

fn line_at(text: &str, byte: usize) -> usize {
    1 + text.bytes().take(byte).filter(|&byte| byte == b'\n').count()
}
