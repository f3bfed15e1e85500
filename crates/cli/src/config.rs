//! Which service is used, and with which settings: options, then the environment, then one config file, then the files
//! of this machine.
//!
//! What is there but cannot be used is an error that names it and the cure. There is no fall-back from it: somebody who
//! named a service in vain would otherwise lock something else than the rest of the fleet. The current directory is
//! never looked at, since it would split a lock by where one stands.

use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use lockkeeper::retry::{DEFAULT_BASE, DEFAULT_MAX_DELAY, RetryPolicy};
use lockkeeper::{KeeperBuilder, ServiceUrl};
use serde::Deserialize;
use serde::de::{self, Deserializer, Visitor};

use crate::args::Global;
use crate::exit::Failure;

/// The longest config file, in bytes: hundreds of times what its keys need.
const CONFIG_BYTES_MAX: u64 = 65_536;

/// The config file of the whole machine.
const SYSTEM_CONFIG: &str = "/etc/lockkeeper/config.toml";

const URL_VARIABLE: &str = "LOCKKEEPER_URL";

const CONFIG_VARIABLE: &str = "LOCKKEEPER_CONFIG";

/// The files of this machine, in the directory that the library chooses.
const DEFAULT_URL: &str = "file:";

const EXAMPLE_URL: &str = "file:/var/lib/lockkeeper";

/// What was settled on.
#[derive(Debug)]
pub(crate) struct Settings {
    url: String,
    /// Where the URL was found, for what is said when it cannot be used; `None` for the default.
    origin: Option<String>,
    retry: Option<RetryPolicy>,
    /// How long to wait for a lock when the command line does not say.
    pub(crate) acquire_timeout: Option<Duration>,
}

impl Settings {
    /// Settles on a service, by the options, this process's environment and the config files of this machine.
    pub(crate) fn load(global: &Global) -> Result<Self, Failure> {
        let places = Places { variable: &|name| std::env::var_os(name), system_config: Path::new(SYSTEM_CONFIG) };
        Self::settle(global, &places)
    }

    fn settle(global: &Global, places: &Places<'_>) -> Result<Self, Failure> {
        let config = places.config(global.config.as_deref())?;
        let from_environment = places.url()?;
        let (url, origin) = if let Some(url) = &global.connect {
            (checked_option(url)?, Some("--connect".to_owned()))
        } else if let Some(url) = from_environment {
            (url, Some(URL_VARIABLE.to_owned()))
        } else if let Some((path, config)) = &config {
            (config.url.clone(), Some(path.display().to_string()))
        } else {
            (DEFAULT_URL.to_owned(), None)
        };
        // The place of a URL that goes along with a user or a machine must not depend on where one stands.
        if let Some(origin) = origin.as_ref().filter(|_| global.connect.is_none())
            && url.strip_prefix("file:").is_some_and(|path| !path.is_empty() && !path.starts_with('/'))
        {
            return Err(Failure::ours(format!(
                "{origin}: `{url}` would be another directory wherever one stands; write its path from the root"
            )));
        }
        let (retry, acquire_timeout) = match config {
            Some((path, config)) => {
                (config.retry.map(|retry| retry.policy(&path)).transpose()?, config.acquire_timeout)
            }
            None => (None, None),
        };
        Ok(Self { url, origin, retry, acquire_timeout: acquire_timeout.map(|span| span.0) })
    }

    /// Starts a keeper for the service, with these settings.
    pub(crate) fn keeper(&self) -> Result<KeeperBuilder, Failure> {
        let builder = lockkeeper::builder(&self.url).map_err(|error| match &self.origin {
            Some(origin) => Failure::ours(format!("{origin}: {error}")),
            None => Failure::from(error),
        })?;
        Ok(match &self.retry {
            Some(retry) => builder.retry(retry.clone()),
            None => builder,
        })
    }
}

/// Refuses a password where every user of the machine can read it.
fn checked_option(url: &str) -> Result<String, Failure> {
    // What cannot be parsed is told by whoever connects.
    if ServiceUrl::parse(url).is_ok_and(|url| url.password().is_some()) {
        return Err(Failure::ours(format!(
            "--connect: a password on a command line is seen by everybody; give this URL in {URL_VARIABLE} or in a config file"
        )));
    }
    Ok(url.to_owned())
}

/// Where settings are looked for.
struct Places<'a> {
    variable: &'a dyn Fn(&str) -> Option<OsString>,
    system_config: &'a Path,
}

impl Places<'_> {
    /// Returns the URL of the environment, if there is one.
    fn url(&self) -> Result<Option<String>, Failure> {
        let Some(url) = (self.variable)(URL_VARIABLE) else { return Ok(None) };
        if url.is_empty() {
            return Err(Failure::ours(format!(
                "{URL_VARIABLE} is empty; unset it for the default service, or name one, such as {EXAMPLE_URL}"
            )));
        }
        let url = url.into_string().map_err(|_| Failure::ours(format!("{URL_VARIABLE} is not UTF-8")))?;
        Ok(Some(url))
    }

    /// Reads the one config file that counts: the one that is named, or else the first that is there.
    fn config(&self, option: Option<&Path>) -> Result<Option<(PathBuf, Config)>, Failure> {
        let named = match (option, (self.variable)(CONFIG_VARIABLE)) {
            (Some(path), _) => Some(path.to_owned()),
            (None, Some(path)) if path.is_empty() => {
                return Err(Failure::ours(format!("{CONFIG_VARIABLE} is empty; unset it, or name a config file")));
            }
            (None, path) => path.map(PathBuf::from),
        };
        if let Some(path) = named {
            let text = read(&path).map_err(|error| unreadable(&path, &error))?;
            return Config::parse(&text, &path).map(|config| Some((path, config)));
        }
        for path in self.user_config().into_iter().chain([self.system_config.to_owned()]) {
            match read(&path) {
                Ok(text) => return Config::parse(&text, &path).map(|config| Some((path, config))),
                Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {}
                Err(error) => return Err(unreadable(&path, &error)),
            }
        }
        Ok(None)
    }

    /// Returns the place of the user's config file. A relative path says nothing, as the XDG specification has it.
    fn user_config(&self) -> Option<PathBuf> {
        let directory = |name| (self.variable)(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let config_home =
            directory("XDG_CONFIG_HOME").or_else(|| directory("HOME").map(|home| home.join(".config")))?;
        Some(config_home.join("lockkeeper/config.toml"))
    }
}

fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(CONFIG_BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > CONFIG_BYTES_MAX {
        return Err(io::Error::other(format!("it has more than {CONFIG_BYTES_MAX} bytes")));
    }
    Ok(text)
}

fn unreadable(path: &Path, error: &io::Error) -> Failure {
    let path = path.display();
    Failure::ours(format!(
        "cannot read the config file {path}: {error}; mend that, or name another with --config or {CONFIG_VARIABLE}"
    ))
}

/// A config file. It has the keys that take effect, and every other is refused by its name.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    url: String,
    acquire_timeout: Option<Span>,
    retry: Option<Retry>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Retry {
    base_sleep: Option<Span>,
    max_sleep: Option<Span>,
    max_retries: Option<u32>,
}

impl Config {
    fn parse(text: &str, path: &Path) -> Result<Self, Failure> {
        let place = path.display();
        let config: Self = toml::from_str(text).map_err(|error| {
            // Its own text quotes the file, which may hold a password.
            let message = error.message();
            if message.contains("missing field `url`") {
                return no_url(path);
            }
            match error.span().map(|span| line_at(text, span.start)) {
                Some(line) => Failure::ours(format!("{place}, line {line}: {message}")),
                None => Failure::ours(format!("{place}: {message}")),
            }
        })?;
        if config.url.is_empty() {
            return Err(no_url(path));
        }
        Ok(config)
    }
}

fn no_url(path: &Path) -> Failure {
    let path = path.display();
    Failure::ours(format!("the config file {path} names no service; add a line such as url = \"{EXAMPLE_URL}\""))
}

fn line_at(text: &str, byte: usize) -> usize {
    1 + text.bytes().take(byte).filter(|&byte| byte == b'\n').count()
}

impl Retry {
    fn policy(self, path: &Path) -> Result<RetryPolicy, Failure> {
        let base = self.base_sleep.map_or(DEFAULT_BASE, |span| span.0);
        let max = self.max_sleep.map_or_else(|| DEFAULT_MAX_DELAY.max(base), |span| span.0);
        let refuse = |what| Err(Failure::ours(format!("{}: {what}", path.display())));
        if base.is_zero() {
            return refuse("retry.base_sleep is zero, which would try again without a pause");
        }
        if max < base {
            return refuse("retry.max_sleep is shorter than retry.base_sleep");
        }
        Ok(match self.max_retries {
            Some(retries) => RetryPolicy::exponential_backoff(base, max, retries),
            None => RetryPolicy::forever(base, max),
        })
    }
}

/// A duration in a config file: a text such as `"2.5s"`, or whole seconds.
#[derive(Clone, Copy, Debug)]
struct Span(Duration);

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct SpanVisitor;

        impl Visitor<'_> for SpanVisitor {
            type Value = Span;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a duration, such as \"500ms\", \"2.5s\", \"1m\" or whole seconds")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Span, E> {
                lockkeeper::parse_duration(text).map(Span).map_err(E::custom)
            }

            fn visit_i64<E: de::Error>(self, seconds: i64) -> Result<Span, E> {
                self.visit_str(&seconds.to_string())
            }
        }

        deserializer.deserialize_any(SpanVisitor)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// A machine of its own: variables, and files under a temporary directory.
    struct Machine {
        directory: tempfile::TempDir,
        variables: BTreeMap<&'static str, OsString>,
        global: Global,
    }

    impl Machine {
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let variables = BTreeMap::from([("HOME", directory.path().join("person").into_os_string())]);
            Self { directory, variables, global: Global::default() }
        }

        fn file(&self, name: &str, text: &str) -> PathBuf {
            let path = self.directory.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, text).unwrap();
            path
        }

        fn set(&mut self, name: &'static str, value: impl Into<OsString>) {
            self.variables.insert(name, value.into());
        }

        fn settle(&self) -> Result<Settings, String> {
            let system_config = self.directory.path().join("etc/config.toml");
            let places = Places { variable: &|name| self.variables.get(name).cloned(), system_config: &system_config };
            Settings::settle(&self.global, &places).map_err(|failure| failure.message)
        }

        fn url(&self) -> String {
            self.settle().unwrap().url
        }

        fn refusal(&self) -> String {
            self.settle().unwrap_err()
        }
    }

    #[test]
    fn options_go_before_the_environment_and_that_before_files() {
        let mut machine = Machine::new();
        machine.file("etc/config.toml", "url = 'file:/system'");
        assert_eq!(machine.url(), "file:/system");
        machine.file("person/.config/lockkeeper/config.toml", "url = 'file:/person'");
        assert_eq!(machine.url(), "file:/person");
        machine.file("xdg/lockkeeper/config.toml", "url = 'file:/xdg'");
        let config_home = machine.directory.path().join("xdg");
        machine.set("XDG_CONFIG_HOME", config_home);
        assert_eq!(machine.url(), "file:/xdg");
        let path = machine.file("by-variable.toml", "url = 'file:/variable'");
        machine.set("LOCKKEEPER_CONFIG", path);
        assert_eq!(machine.url(), "file:/variable");
        machine.global.config = Some(machine.file("by-option.toml", "url = 'file:/option'"));
        assert_eq!(machine.url(), "file:/option");
        machine.set("LOCKKEEPER_URL", "file:/url");
        assert_eq!(machine.url(), "file:/url");
        machine.global.connect = Some("file:here".to_owned());
        assert_eq!(machine.url(), "file:here");
    }

    #[test]
    fn relative_directories_of_the_environment_are_not_looked_at() {
        let mut machine = Machine::new();
        machine.file("etc/config.toml", "url = 'file:/system'");
        machine.set("XDG_CONFIG_HOME", "xdg");
        machine.set("HOME", "");
        assert_eq!(machine.url(), "file:/system");
    }

    #[test]
    fn the_settings_of_a_file_take_effect_whoever_names_the_service() {
        let mut machine = Machine::new();
        machine.file(
            "etc/config.toml",
            "url = 'file:/x'\nacquire_timeout = '2.5s'\n[retry]\nbase_sleep = 2\nmax_sleep = '1m'\nmax_retries = 7",
        );
        machine.global.connect = Some("memory:".to_owned());
        let settings = machine.settle().unwrap();
        assert_eq!(settings.acquire_timeout, Some(Duration::from_millis(2_500)));
        let expected = RetryPolicy::exponential_backoff(Duration::from_secs(2), Duration::from_secs(60), 7);
        assert_eq!(settings.retry, Some(expected));
        assert!(settings.keeper().is_ok());
    }

    #[test]
    fn what_is_wrong_with_a_file_is_said_with_its_name_and_the_cure() {
        for (text, words) in [
            ("", vec!["names no service", "url = "]),
            ("url = ''", vec!["names no service", "url = "]),
            ("acquire_timeout = '1s'", vec!["names no service"]),
            ("url = 'file:/x'\nsesion_timeout = 3", vec!["line 2", "`sesion_timeout`", "`acquire_timeout`"]),
            ("url = 'file:/x'\nsession_timeout = '20s'", vec!["`session_timeout`"]),
            ("url = 'file:/x'\n[retry]\nmax_tries = 3", vec!["line 3", "`max_tries`", "`max_retries`"]),
            ("url = 'file:/x'\nacquire_timeout = 'soon'", vec!["line 2", "`soon` is not a duration"]),
            ("url = 'file:/x'\nacquire_timeout = -1", vec!["line 2", "`-1` is not a duration"]),
            ("url = 'file:/x'\nacquire_timeout = true", vec!["line 2", "a duration, such as"]),
            ("url = 'file:/x'\n[retry]\nbase_sleep = '0s'", vec!["retry.base_sleep"]),
            ("url = 'file:/x'\n[retry]\nbase_sleep = '3s'\nmax_sleep = '2s'", vec!["retry.max_sleep"]),
            ("url = 'file:/x", vec!["line 1"]),
            ("url = 'file:locks'", vec!["`file:locks`", "from the root"]),
        ] {
            let mut machine = Machine::new();
            let path = machine.file("named.toml", text);
            machine.global.config = Some(path.clone());
            let refusal = machine.refusal();
            assert!(refusal.contains(path.to_str().unwrap()), "{text}: {refusal}");
            assert!(!refusal.trim_end().contains('\n'), "{text}: {refusal}");
            for word in words {
                assert!(refusal.contains(word), "{text}: {refusal}");
            }
        }
    }

    #[test]
    fn a_file_that_is_named_must_be_there_and_readable() {
        let mut machine = Machine::new();
        machine.global.config = Some("/nowhere/x.toml".into());
        assert!(machine.refusal().contains("/nowhere/x.toml"));
        machine.global.config = None;
        machine.set("LOCKKEEPER_CONFIG", "/");
        assert!(machine.refusal().contains("LOCKKEEPER_CONFIG"));
        let path = machine.file("long.toml", &"#".repeat(65_537));
        machine.set("LOCKKEEPER_CONFIG", path);
        assert!(machine.refusal().contains("65536 bytes"));
        machine.set("LOCKKEEPER_CONFIG", "");
        assert!(machine.refusal().contains("LOCKKEEPER_CONFIG is empty"));
    }

    #[test]
    fn a_file_that_cannot_be_read_is_not_passed_over() {
        let machine = Machine::new();
        machine.file("etc/config.toml", "url = 'file:/system'");
        let user_config = machine.directory.path().join("person/.config/lockkeeper/config.toml");
        std::fs::create_dir_all(&user_config).unwrap();
        assert!(machine.refusal().contains(user_config.to_str().unwrap()));
    }

    #[test]
    fn an_empty_url_is_refused_and_no_password_is_quoted() {
        let mut machine = Machine::new();
        machine.set("LOCKKEEPER_URL", "");
        assert!(machine.refusal().contains("LOCKKEEPER_URL is empty"));
        machine.set("LOCKKEEPER_URL", "file:locks");
        assert!(machine.refusal().contains("from the root"));
        machine.set("LOCKKEEPER_URL", "postgres://ann:secret@db/app");
        let failure = machine.settle().unwrap().keeper().unwrap_err().message;
        assert!(failure.starts_with("LOCKKEEPER_URL: ") && !failure.contains("secret"), "{failure}");
        machine.global.connect = Some("postgres://ann:secret@db/app".to_owned());
        let refusal = machine.refusal();
        assert!(refusal.contains("LOCKKEEPER_URL") && !refusal.contains("secret"), "{refusal}");
        machine.global.connect = None;
        let path = machine.file("x.toml", "url = 'postgres://ann:secret@db/app\n");
        machine.set("LOCKKEEPER_CONFIG", path);
        assert!(!machine.refusal().contains("secret"));
    }
}
