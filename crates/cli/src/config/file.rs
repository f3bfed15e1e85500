//! The shape of a config file: its keys, read and checked. `places` has where it is looked for.

use std::path::{Path, PathBuf};
use std::time::Duration;

use lockkeeper::ServiceUrl;
use lockkeeper::retry::{DEFAULT_BASE, DEFAULT_MAX_DELAY, RetryPolicy};
use lockkeeper_console::config::{MonitorSettings, MonitorTable, Span};
use serde::Deserialize;

use super::places::{ConfigPlaces, EXAMPLE_URL, is_none_of_ours, read, unreadable};
use super::server::ServerSettings;
use crate::exit::CommandFailure;
use crate::output::say;

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

impl ConfigPlaces<'_> {
    /// Finds a part of the config: in the file that is named and in no other, or else in the first file that has it.
    pub(super) fn find<Part>(
        &self,
        option: Option<&Path>,
        part: impl Fn(ConfigFile) -> Option<Part>,
    ) -> Result<Option<(PathBuf, Part)>, CommandFailure> {
        self.find_until(option, part, |_| true).map(|found| found.into_iter().next())
    }

    /// Finds a part of the config in one file after the other, up to the first that is enough; in no other than the
    /// file that is named, if one is.
    pub(super) fn find_until<Part>(
        &self,
        option: Option<&Path>,
        part: impl Fn(ConfigFile) -> Option<Part>,
        is_enough: impl Fn(&Part) -> bool,
    ) -> Result<Vec<(PathBuf, Part)>, CommandFailure> {
        let named = self.named(option)?;
        let is_named = named.is_some();
        let paths = match named {
            Some(path) => vec![path],
            None => self.user_config().into_iter().chain([self.system_config.to_owned()]).collect(),
        };
        let mut found = Vec::new();
        for path in paths {
            let text = match read(&path) {
                Ok(text) => text,
                Err(error) if !is_named && is_none_of_ours(&error) => {
                    if path.symlink_metadata().is_ok() {
                        say(&format!("{} is left out: {error}; name it with --config if it is meant", path.display()));
                    }
                    continue;
                }
                Err(error) => return Err(unreadable(&path, &error)),
            };
            if let Some(part) = part(ConfigFile::parse(&text, &path)?) {
                let is_last = is_enough(&part);
                found.push((path, part));
                if is_last {
                    break;
                }
            }
        }
        Ok(found)
    }
}

fn line_at(text: &str, byte: usize) -> usize {
    1 + text.bytes().take(byte).filter(|&byte| byte == b'\n').count()
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RetryTable {
    policy: Option<PolicyName>,
    base_sleep: Option<Span>,
    max_sleep: Option<Span>,
    max_retries: Option<u32>,
    max_elapsed: Option<Span>,
}

#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "kebab-case")]
enum PolicyName {
    /// Delays that double, for the given number of retries.
    Exponential,
    /// The same delay each time, for the given number of retries.
    NTimes,
    /// The same delay each time, until the given time has passed.
    UntilElapsed,
    /// Delays that double, without end.
    Forever,
}

impl PolicyName {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Exponential => "exponential",
            Self::NTimes => "n-times",
            Self::UntilElapsed => "until-elapsed",
            Self::Forever => "forever",
        }
    }
}

impl RetryTable {
    pub(super) fn policy(self) -> Result<RetryPolicy, String> {
        // A file without a policy means the doubling delays, without end if it does not say how often.
        let without_name = if self.max_retries.is_some() { PolicyName::Exponential } else { PolicyName::Forever };
        let policy = self.policy.unwrap_or(without_name);
        self.refuse_others(policy)?;
        let base = self.base_sleep.map_or(DEFAULT_BASE, |span| span.duration);
        let max = self.max_sleep.map_or_else(|| DEFAULT_MAX_DELAY.max(base), |span| span.duration);
        if base.is_zero() {
            return Err("retry.base_sleep is zero, which would try again without a pause".to_owned());
        }
        if max < base {
            return Err("retry.max_sleep is shorter than retry.base_sleep".to_owned());
        }
        let needs = |key: &str| format!("retry.policy = \"{}\" needs retry.{key}", policy.as_str());
        Ok(match policy {
            PolicyName::Exponential => {
                RetryPolicy::exponential_backoff(base, max, self.max_retries.ok_or_else(|| needs("max_retries"))?)
            }
            PolicyName::NTimes => RetryPolicy::n_times(self.max_retries.ok_or_else(|| needs("max_retries"))?, base),
            PolicyName::UntilElapsed => {
                let elapsed_max = self.max_elapsed.ok_or_else(|| needs("max_elapsed"))?;
                RetryPolicy::until_elapsed(elapsed_max.duration, base)
            }
            PolicyName::Forever => RetryPolicy::forever(base, max),
        })
    }

    /// Refuses the keys that a policy does not use.
    fn refuse_others(&self, policy: PolicyName) -> Result<(), String> {
        use PolicyName::{Exponential, Forever, NTimes, UntilElapsed};

        let refused = [
            ("max_sleep", self.max_sleep.is_some(), &[Exponential, Forever][..]),
            ("max_retries", self.max_retries.is_some(), &[Exponential, NTimes]),
            ("max_elapsed", self.max_elapsed.is_some(), &[UntilElapsed]),
        ];
        match refused.into_iter().find(|(_, is_given, policies)| *is_given && !policies.contains(&policy)) {
            None => Ok(()),
            Some((key, _, policies)) => {
                let policies: Vec<_> = policies.iter().map(|policy| format!("\"{}\"", policy.as_str())).collect();
                let (name, policies) = (policy.as_str(), policies.join(" and "));
                Err(format!("retry.policy \"{name}\" has no retry.{key}; it belongs to {policies}"))
            }
        }
    }
}
