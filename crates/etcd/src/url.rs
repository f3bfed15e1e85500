//! Reads a service URL for etcd and checks it once. It opens nothing.

use std::fmt;
use std::time::Duration;

use lockkeeper_core::{ContenderId, Error, ErrorKind, Operation, QueueName, Result, ServiceUrl};
use lockkeeper_session::Server;

use crate::layout::{Layout, Naming};

/// The port of an etcd server if the URL names no port.
pub const PORT_DEFAULT: u16 = 2379;

/// The session timeout if the URL names none.
pub const SESSION_TIMEOUT_DEFAULT: Duration = Duration::from_secs(20);

/// How long the opening of a session may take when the URL does not say.
pub const CONNECT_TIMEOUT_DEFAULT: Duration = Duration::from_secs(10);

/// Below which keys the queues lie when the URL does not say.
pub const BASE_DEFAULT: &str = "/lockkeeper";

/// The least session timeout: etcd grants no shorter lease.
const SESSION_TIMEOUT_MIN: Duration = Duration::from_secs(2);

/// The greatest session timeout. Of longer leases etcd notes from time to time how much is left, and a new leader then
/// keeps them no longer than that.
const SESSION_TIMEOUT_MAX: Duration = Duration::from_secs(300);

/// The longest base, in bytes: it stands in every key.
const BASE_BYTES_MAX: usize = 200;

/// The scheme of a service that speaks TLS.
const TLS_SCHEME: &str = "etcd+tls";

/// The keys that an `etcd:` URL may have; `etcd+tls:` has more.
const KEYS: [&str; 5] = ["session_timeout", "connect_timeout", "operation_timeout", "base", "layout"];

/// Who we are to a cluster that asks for it.
#[derive(Clone)]
pub(crate) struct Credentials {
    pub(crate) user: String,
    pub(crate) password: String,
}

/// How we show ourselves to a member, and how it shows itself to us.
#[derive(Clone, Default)]
pub(crate) struct Access {
    pub(crate) credentials: Option<Credentials>,
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<tonic::transport::ClientTlsConfig>,
}

impl Access {
    /// Whether members must speak TLS.
    #[cfg(feature = "tls")]
    pub(crate) const fn is_secured(&self) -> bool {
        self.tls.is_some()
    }

    /// Whether members must speak TLS.
    #[cfg(not(feature = "tls"))]
    pub(crate) const fn is_secured(&self) -> bool {
        false
    }
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
    pub(crate) access: Access,
    /// Without a slash at its end.
    pub(crate) base: String,
    /// Whose names the keys of contenders have.
    pub(crate) naming: Naming,
    session_timeout: Duration,
    pub(crate) connect_timeout: Duration,
    /// How long one request may take.
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

impl Config {
    /// Reads an `etcd:` URL: `etcd://[user:password@]host[:port][,…][/base][?key=value…]`.
    ///
    /// The base is what all keys of the service begin with; without it `/lockkeeper`. The settings: `session_timeout`
    /// (20 s; whole seconds from 2 to 300), `connect_timeout` (10 s), `operation_timeout` (how long one request may
    /// take; the session timeout), `base` (the base, if it is not the path), `layout` (`etcdctl`: a lock's name is the
    /// prefix of its contenders' keys, and the lock has one queue with `etcdctl lock`, `etcdctl elect` and Go's
    /// `clientv3/concurrency`, of mutexes and elections alone).
    ///
    /// With the feature `tls` also an `etcd+tls:` URL, for servers that speak TLS. It has four keys more, whose files
    /// are in PEM form and are read now: `ca` (a file of the authorities that are trusted for servers; without it the
    /// system's), `cert` and `key` (files with our certificate, followed by its chain, and its key, for servers that
    /// ask for one), `server_name` (the name that the servers' certificates are for, if it is not the host's name in
    /// the URL).
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidUrl`], permanent, naming what is wrong; [`ErrorKind::InvalidConfig`], permanent, naming a
    /// file that cannot be used; [`ErrorKind::Unsupported`] for an `etcd+tls:` URL without the feature.
    pub fn from_url(url: &ServiceUrl) -> Result<Self> {
        refuse_unknown(url)?;
        let session_timeout = session_timeout(url)?;
        Ok(Self {
            service: url.to_string(),
            servers: Server::of_url(url, PORT_DEFAULT)?,
            access: Access {
                credentials: credentials(url)?,
                #[cfg(feature = "tls")]
                tls: (url.scheme() == TLS_SCHEME).then(|| crate::tls::settings(url)).transpose()?,
            },
            base: base(url)?,
            naming: naming(url)?,
            session_timeout,
            connect_timeout: url.duration("connect_timeout")?.unwrap_or(CONNECT_TIMEOUT_DEFAULT),
            operation_timeout: url.duration("operation_timeout")?.unwrap_or(session_timeout),
        })
    }

    /// Returns where a contender of a lock is stored.
    pub fn contender_key(&self, queue: &QueueName, contender: &ContenderId) -> ContenderKey {
        let (key, create_revision) = self.layout().contender(queue, contender);
        ContenderKey { key, create_revision }
    }

    /// Returns where the keys of the service lie.
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

/// Refuses a URL of another service, and keys that mean nothing here.
fn refuse_unknown(url: &ServiceUrl) -> Result<()> {
    match url.scheme() {
        "etcd" => url.refuse_unknown_keys(&KEYS),
        #[cfg(feature = "tls")]
        TLS_SCHEME => url.refuse_unknown_keys(&[&KEYS[..], &lockkeeper_tls::KEYS].concat()),
        #[cfg(not(feature = "tls"))]
        TLS_SCHEME => {
            let message = "`etcd+tls:` needs the feature `tls` of the crate `lockkeeper`, or of `lockkeeper-etcd`";
            Err(Error::permanent(ErrorKind::Unsupported, Operation::Configure, message))
        }
        other => Err(invalid(format!("`{other}:` is no URL of etcd"))),
    }
}

fn session_timeout(url: &ServiceUrl) -> Result<Duration> {
    let timeout = url.duration("session_timeout")?.unwrap_or(SESSION_TIMEOUT_DEFAULT);
    if timeout.subsec_nanos() != 0 {
        return Err(invalid("`session_timeout` is in whole seconds, since etcd counts leases in seconds"));
    }
    if !(SESSION_TIMEOUT_MIN..=SESSION_TIMEOUT_MAX).contains(&timeout) {
        let message =
            format!("a session timeout on etcd lies between {SESSION_TIMEOUT_MIN:?} and {SESSION_TIMEOUT_MAX:?}");
        return Err(invalid(message));
    }
    Ok(timeout)
}

fn credentials(url: &ServiceUrl) -> Result<Option<Credentials>> {
    match (url.user().filter(|user| !user.is_empty()), url.password()) {
        (None, None) => Ok(None),
        (None, Some(_)) => Err(invalid("a password is given without a user")),
        (Some(user), password) => {
            let password = password.unwrap_or_default().to_owned();
            Ok(Some(Credentials { user: user.to_owned(), password }))
        }
    }
}

fn base(url: &ServiceUrl) -> Result<String> {
    let path = url.path().trim_end_matches('/');
    let base = match url.query("base").map(|base| base.trim_end_matches('/')) {
        None => path,
        Some(base) if !base.starts_with('/') => return Err(invalid("`base` begins with `/`")),
        Some(base) if path.is_empty() || path == base => base,
        Some(base) => return Err(invalid(format!("the URL's path is `{path}`, and its `base` is `{base}`"))),
    };
    if base.len() > BASE_BYTES_MAX {
        return Err(invalid(format!("the path of an `etcd:` URL has at most {BASE_BYTES_MAX} bytes")));
    }
    if base.contains("//") {
        return Err(invalid(format!("`{base}` has an empty part; the keys of all locks would begin with it")));
    }
    Ok(if base.is_empty() { BASE_DEFAULT.to_owned() } else { base.to_owned() })
}

fn naming(url: &ServiceUrl) -> Result<Naming> {
    match url.query("layout") {
        None => Ok(Naming::Ours),
        Some("etcdctl") => Ok(Naming::Etcdctl),
        Some(other) => Err(invalid(format!("`layout` is `etcdctl` or left out, not `{other}`"))),
    }
}

fn invalid(message: impl Into<String>) -> Error {
    Error::permanent(ErrorKind::InvalidUrl, Operation::Configure, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(url: &str) -> Result<Config> {
        Config::from_url(&url.parse()?)
    }

    #[test]
    fn a_url_without_settings_has_the_defaults() {
        let config = config("etcd://h1").unwrap();
        assert_eq!(config.servers, [Server { name: "h1".to_owned(), port: 2379 }]);
        assert_eq!((config.base.as_str(), config.session_timeout), ("/lockkeeper", SESSION_TIMEOUT_DEFAULT));
        assert_eq!(config.operation_timeout, SESSION_TIMEOUT_DEFAULT);
        assert!(config.access.credentials.is_none());
    }

    #[test]
    fn every_setting_is_read() {
        let url =
            "etcd://ann:s%3Acret@h1:1,[::1]:2/a/b/?session_timeout=6s&connect_timeout=3s&operation_timeout=1500ms";
        let config = config(url).unwrap();
        assert_eq!(config.servers.iter().map(ToString::to_string).collect::<Vec<_>>(), ["h1:1", "[::1]:2"]);
        assert_eq!((config.base.as_str(), config.session_timeout), ("/a/b", Duration::from_secs(6)));
        assert_eq!(self::config("etcd://h1?base=/x/").unwrap().base, "/x");
        let timeouts = (config.connect_timeout, config.operation_timeout);
        assert_eq!(timeouts, (Duration::from_secs(3), Duration::from_millis(1_500)));
        let credentials = config.access.credentials.clone().unwrap();
        assert_eq!((credentials.user.as_str(), credentials.password.as_str()), ("ann", "s:cret"));
        assert!(!format!("{config:?}").contains("cret"));
        assert_eq!(self::config("etcd://h1?layout=etcdctl").unwrap().naming, Naming::Etcdctl);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (url, word) in [
            ("etcd:/path", "server"),
            ("etcd://h1?session_timeout=1s", "session timeout"),
            ("etcd://h1?session_timeout=301s", "session timeout"),
            ("etcd://h1?session_timeout=2500ms", "whole seconds"),
            ("etcd://h1?operation_timeout=0s", "`operation_timeout` is zero"),
            ("etcd://h1/y?base=/x", "`base`"),
            ("etcd://h1?base=x", "begins with"),
            ("etcd://h1/a//b", "empty part"),
            ("etcd://h1?layout=kazoo", "`layout`"),
            ("etcd://:1234@h1", "without a user"),
            ("zk://h1", "`zk:`"),
        ] {
            let error = config(url).expect_err(url);
            assert_eq!(error.kind(), ErrorKind::InvalidUrl, "{url}");
            assert!(format!("{error:#}").contains(word), "{url}: {error}");
        }
    }
}
