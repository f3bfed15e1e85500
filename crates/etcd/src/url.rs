//! The configuration in a service URL for etcd, read and checked once. Nothing is opened here.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::clock::Clock;
use lockkeeper_core::url::Unset::{Is, Means};
use lockkeeper_core::url::{Given, Kind, Setting, Settings, invalid};
use lockkeeper_core::{ContenderId, QueueName, Result, ServiceUrl};
use lockkeeper_session::{Finder, Names, Order, Server};

use crate::layout::{KeyNaming, Layout};

/// The port of an etcd server if the URL names no port.
pub const PORT_DEFAULT: u16 = 2379;

/// Below which keys the queues lie when the URL does not say.
pub const BASE_DEFAULT: &str = "/lockkeeper";

/// The least session timeout: etcd grants no shorter lease.
const SESSION_TIMEOUT_MIN: Duration = Duration::from_secs(2);

/// The greatest session timeout. Of longer leases etcd notes from time to time how much is left, and a new leader then
/// keeps them no longer than that.
const SESSION_TIMEOUT_MAX: Duration = Duration::from_secs(300);

/// The longest base, in bytes: it stands in every key.
const BASE_BYTES_MAX: usize = 200;

/// The settings of an `etcd:` URL.
pub const SETTINGS: &Settings = &Settings {
    package: env!("CARGO_PKG_NAME"),
    schemes: &["etcd", "etcd+tls"],
    rows: &[
        Setting::session_timeout(SESSION_TIMEOUT_MIN..=SESSION_TIMEOUT_MAX, Duration::from_secs(1)),
        Setting::CONNECT_TIMEOUT,
        Setting::OPERATION_TIMEOUT,
        Setting::new("base", Kind::Text(BASE_WORDS, is_base), Is(BASE_DEFAULT))
            .text("what all keys begin with, if that is not the path behind the hosts"),
        Setting::new("layout", Kind::Word(&["etcdctl"]), Means("our own keys")).text(
            "`etcdctl`: a lock's name is the prefix of its keys, and [shared](../mixed-fleets.md#etcd) with `etcdctl` \
             and `clientv3/concurrency`",
        ),
    ],
    #[cfg(feature = "tls")]
    tls: lockkeeper_tls::SETTINGS,
    #[cfg(not(feature = "tls"))]
    tls: &[],
    elsewhere: &[],
};

/// A user of the cluster.
#[derive(Clone)]
pub(crate) struct EtcdCredentials {
    pub(crate) user: String,
    pub(crate) password: String,
}

/// How this client and a member authenticate each other.
#[derive(Clone, Default)]
pub(crate) struct EtcdAccess {
    pub(crate) credentials: Option<EtcdCredentials>,
    pub(crate) is_secured: bool,
    pub(crate) rights: Arc<str>,
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<lockkeeper_tls::Connector>,
}

/// What is known of an etcd service before it is reached.
///
/// ```
/// use lockkeeper_etcd::Config;
///
/// let config = Config::from_url(&"etcd://h1,h2:2479/app?session_timeout=30s".parse()?)?;
/// assert_eq!(config.session_timeout().as_secs(), 30);
/// # Ok::<(), lockkeeper_core::Error>(())
/// ```
#[derive(Clone)]
pub struct Config {
    pub(crate) service: String,
    pub(crate) servers: Vec<Server>,
    pub(crate) names: Names,
    pub(crate) access: EtcdAccess,
    /// Without a slash at its end.
    pub(crate) base: String,
    /// The scheme of the keys of contenders.
    pub(crate) naming: KeyNaming,
    session_timeout: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) operation_timeout: Duration,
}

/// Where a contender is stored: while this key has this revision, the contender is there.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct ContenderKey {
    /// The key.
    pub key: Vec<u8>,
    /// The revision at which the key was created; 0, as no key was, if no contender has this identity.
    pub create_revision: i64,
}

pub(crate) type EtcdSite = lockkeeper_session::Site<Config, Layout>;

impl Config {
    /// Reads an `etcd:` URL: `etcd://[user:password@]host[:port][,…][/base][?key=value…]`.
    ///
    /// The base is what all keys of the service begin with. The keys are those of [`SETTINGS`]; with
    /// `layout=etcdctl` a lock has mutexes and elections alone. `etcd+tls:` is for servers that speak TLS; the files of
    /// its settings are read now.
    ///
    /// # Errors
    ///
    /// [`InvalidUrl`](lockkeeper_core::ErrorKind::InvalidUrl), permanent, naming what is wrong;
    /// [`InvalidConfig`](lockkeeper_core::ErrorKind::InvalidConfig), permanent, naming a file that cannot be used;
    /// [`Unsupported`](lockkeeper_core::ErrorKind::Unsupported) for an `etcd+tls:` URL without the feature `tls`.
    pub fn from_url(url: &ServiceUrl) -> Result<Self> {
        let given = SETTINGS.read(url)?;
        let naming = if given.text("layout") == "etcdctl" { KeyNaming::Etcdctl } else { KeyNaming::Ours };
        let base = base(url, &given)?;
        Ok(Self {
            service: url.to_string(),
            servers: Server::of_url(url, PORT_DEFAULT)?,
            names: Names::default(),
            access: EtcdAccess {
                credentials: credentials(url)?,
                is_secured: SETTINGS.is_secured(url),
                rights: Layout::new(&base, naming).rights().into(),
                #[cfg(feature = "tls")]
                tls: SETTINGS.is_secured(url).then(|| secured(url)).transpose()?,
            },
            base,
            naming,
            session_timeout: given.time("session_timeout"),
            connect_timeout: given.time("connect_timeout"),
            operation_timeout: given.operation_timeout(),
        })
    }

    /// Returns where a contender of a lock is stored.
    pub fn contender_key(&self, queue: &QueueName, contender: &ContenderId) -> ContenderKey {
        let (key, create_revision) = self.layout().contender(queue, contender);
        ContenderKey { key, create_revision }
    }

    /// A finder of members that begins with this one of the URL.
    pub(crate) fn finder(&self, first: usize, clock: &Arc<dyn Clock>) -> Finder {
        let mut servers = self.servers.clone();
        servers.rotate_left(first % self.servers.len());
        Finder::new(&self.names, servers, Order::Onward, clock.clone())
    }

    pub(crate) fn layout(&self) -> Layout {
        Layout::new(&self.base, self.naming)
    }

    /// Returns the session timeout that is asked for.
    pub const fn session_timeout(&self) -> Duration {
        self.session_timeout
    }
}

/// Without the password.
impl fmt::Debug for Config {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Config").field(&self.service).finish()
    }
}

/// Reads the files that a URL names. What goes over TLS is HTTP/2.
#[cfg(feature = "tls")]
fn secured(url: &ServiceUrl) -> Result<lockkeeper_tls::Connector> {
    Ok(lockkeeper_tls::Connector::from_url(url)?.speaking(b"h2"))
}

fn credentials(url: &ServiceUrl) -> Result<Option<EtcdCredentials>> {
    match (url.user().filter(|user| !user.is_empty()), url.password()) {
        (None, None) => Ok(None),
        (None, Some(_)) => Err(invalid("a password is given without a user")),
        (Some(user), password) => {
            let password = password.unwrap_or_default().to_owned();
            Ok(Some(EtcdCredentials { user: user.to_owned(), password }))
        }
    }
}

fn base(url: &ServiceUrl, given: &Given) -> Result<String> {
    let (path, base) = (url.path().trim_end_matches('/'), given.text("base").trim_end_matches('/'));
    if path.is_empty() {
        return Ok(base.to_owned());
    }
    if url.query("base").is_some() && path != base {
        return Err(invalid(format!("the URL's path is `{path}`, and its `base` is `{base}`")));
    }
    if !is_base(path) {
        return Err(invalid(format!("the path of an `etcd:` URL is {BASE_WORDS}, and not `{path}`")));
    }
    Ok(path.to_owned())
}

/// What a base is. The keys of all locks begin with it: an empty part would stand in each.
const BASE_WORDS: &str = "a text of at most 200 bytes that begins with `/` and has no empty part";

fn is_base(text: &str) -> bool {
    let base = text.trim_end_matches('/');
    base.starts_with('/') && base.len() <= BASE_BYTES_MAX && !base.contains("//")
}

#[cfg(test)]
mod tests {
    use lockkeeper_core::ErrorKind;

    use super::*;

    fn config(url: &str) -> Result<Config> {
        Config::from_url(&url.parse()?)
    }

    #[test]
    fn a_url_without_settings_has_the_defaults() {
        let config = config("etcd://h1").unwrap();
        assert_eq!(config.servers, [Server::new("h1", 2379)]);
        assert_eq!((config.base.as_str(), config.naming), ("/lockkeeper", KeyNaming::Ours));
        assert!(config.access.credentials.is_none());
    }

    #[test]
    fn every_setting_is_read() {
        let url = "etcd://ann:s%3Acret@h1:1,[::1]:2/a/b/?session_timeout=6s&layout=etcdctl";
        let config = config(url).unwrap();
        assert_eq!(config.servers.iter().map(ToString::to_string).collect::<Vec<_>>(), ["h1:1", "[::1]:2"]);
        assert_eq!((config.base.as_str(), config.naming), ("/a/b", KeyNaming::Etcdctl));
        assert_eq!(config.session_timeout, Duration::from_secs(6));
        assert_eq!(self::config("etcd://h1?base=/x/").unwrap().base, "/x");
        let credentials = config.access.credentials.clone().unwrap();
        assert_eq!((credentials.user.as_str(), credentials.password.as_str()), ("ann", "s:cret"));
        assert!(!format!("{config:?}").contains("cret"));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (url, word) in [
            ("etcd:/path", "server"),
            ("etcd://%2Frun%2Fetcd.sock", "reached by TCP alone"),
            ("etcd://h1?session_timeout=2500ms", "a multiple of `1s`"),
            ("etcd://h1/y?base=/x", "its `base` is `/x`"),
            ("etcd://h1?base=x", "begins with"),
            ("etcd://h1?base=/", "begins with"),
            ("etcd://h1/a//b", "empty part"),
            ("etcd://:1234@h1", "without a user"),
        ] {
            let error = config(url).expect_err(url);
            assert_eq!(error.kind(), ErrorKind::InvalidUrl, "{url}");
            assert!(format!("{error:#}").contains(word), "{url}: {error}");
        }
    }
}
