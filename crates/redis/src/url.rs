//! Reads a service URL for Redis or Valkey and checks it once. It opens nothing but the files of certificates.

#[cfg(test)]
mod tests;

use std::fmt;
use std::time::Duration;

use lockkeeper_core::{Error, ErrorKind, Operation, Result, ServiceUrl};
use lockkeeper_session::{Effect, Failure, FailureKind, Server};

use crate::connection::Connection;
use crate::layout::Layout;

/// The port of a server if the URL names no port.
pub const PORT_DEFAULT: u16 = 6379;

/// The port of a sentinel if the URL names no port.
pub const SENTINEL_PORT_DEFAULT: u16 = 26379;

/// The session timeout if the URL names none.
pub const SESSION_TIMEOUT_DEFAULT: Duration = Duration::from_secs(20);

/// How long the opening of a session may take when the URL does not say.
pub const CONNECT_TIMEOUT_DEFAULT: Duration = Duration::from_secs(10);

/// What all keys carry in their hash tag when the URL does not say.
pub const BASE_DEFAULT: &str = "lockkeeper";

/// The least session timeout: less leaves no room between two renewals for a server that is slow once.
pub(crate) const SESSION_TIMEOUT_MIN: Duration = Duration::from_secs(2);

/// The greatest session timeout: as long a holder that died keeps its locks.
const SESSION_TIMEOUT_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// The longest base, in bytes: it stands in every key.
const BASE_BYTES_MAX: usize = 200;

/// The greatest number of a database: a server has 16 unless its configuration says otherwise.
const DATABASE_MAX: u32 = i32::MAX as u32;

/// The most replicas that can be waited for: more than any master has.
const REPLICAS_MAX: u32 = 100;

/// The scheme of servers that speak TLS.
const TLS_SCHEME: &str = "redis+tls";

/// The scheme of a service whose master is named by sentinels.
const SENTINEL_SCHEME: &str = "redis+sentinel";

/// The keys that every URL may have; `redis+tls:` has more.
const KEYS: [&str; 7] =
    ["session_timeout", "connect_timeout", "operation_timeout", "base", "replicas", "clock", "layout"];

/// How the server with the keys is found.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Address {
    /// It is one of those that the URL names, or one that they name: of a cluster each knows where the keys lie.
    Servers(Vec<Server>),
    /// Sentinels know it by a name.
    Sentinels { sentinels: Vec<Server>, master: String },
}

/// Who we are to a server that asks for it.
#[derive(Clone)]
pub(crate) struct Credentials {
    /// Without it the server's default user.
    pub(crate) user: Option<String>,
    pub(crate) password: String,
}

/// How we show ourselves to a server, how it shows itself to us, and which of its databases is used.
#[derive(Clone, Default)]
pub(crate) struct Access {
    pub(crate) credentials: Option<Credentials>,
    pub(crate) database: u32,
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<lockkeeper_tls::Connector>,
}

impl Access {
    /// Whether servers must speak TLS.
    #[cfg(feature = "tls")]
    pub(crate) const fn is_secured(&self) -> bool {
        self.tls.is_some()
    }

    /// Whether servers must speak TLS.
    #[cfg(not(feature = "tls"))]
    pub(crate) const fn is_secured(&self) -> bool {
        false
    }
}

/// Whether a jump of the server's clock can push the service's time.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ClockGuard {
    /// It cannot: the service's time goes on by steps of a bounded length.
    Guarded,
    /// It can. In return those that died in a long silence are buried at once after it.
    Trusting,
}

/// Whose keys a lock's holders are.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Naming {
    /// Those below the base alone.
    Ours,
    /// Besides, the key that has the lock's name, which others set by `SET key random NX PX`.
    Setnx,
}

/// What is known of a Redis or Valkey service before it is reached.
///
/// ```
/// use lockkeeper_redis::Config;
///
/// let config = Config::from_url(&"redis://h1:6380/2?session_timeout=30s".parse()?)?;
/// assert_eq!(config.session_timeout().as_secs(), 30);
/// # Ok::<(), lockkeeper_core::Error>(())
/// ```
#[derive(Clone)]
pub struct Config {
    pub(crate) service: String,
    pub(crate) address: Address,
    pub(crate) access: Access,
    /// What all keys carry in their hash tag; it has no brace.
    pub(crate) base: String,
    pub(crate) naming: Naming,
    session_timeout: Duration,
    pub(crate) connect_timeout: Duration,
    /// How long one request may take.
    pub(crate) operation_timeout: Duration,
    /// How many replicas must have each join and each renewal.
    pub(crate) replicas: u32,
    pub(crate) clock_guard: ClockGuard,
}

impl Config {
    /// Reads a `redis:` URL: `redis://[[user]:password@]host[:port][,…][/database][?key=value…]`.
    ///
    /// All hosts must be of one service. Of several the first that is a master is used; of a cluster any of them leads
    /// to the one with the keys. The settings: `base` (what all keys carry in their hash tag, and so one slot of a
    /// cluster has them all; `lockkeeper`), `session_timeout` (20 s; from 2 s to a day), `connect_timeout` (10 s),
    /// `operation_timeout` (how long one request may take; the session timeout), `replicas` (how many replicas must
    /// have each join and each renewal; 0), `clock` (`trust`: a jump of the server's clock may push the time by which
    /// sessions end; without it none can), `layout` (`setnx`: a lock's name is also the key of a plain `SET key random
    /// NX PX` lock of others; only mutexes, not fair towards those others, and not in a cluster).
    ///
    /// With `redis+sentinel://host[:port][,…]/MASTER[/database]` the hosts are sentinels, which know the master by that
    /// name.
    ///
    /// With the feature `tls` also a `redis+tls:` URL, for servers that speak TLS. It has four keys more, whose files
    /// are in PEM form and are read now: `ca` (a file of the authorities that are trusted for servers; without it the
    /// system's), `cert` and `key` (files with our certificate, followed by its chain, and its key, for servers that
    /// ask for one), `server_name` (the name that the servers' certificates are for, if it is not the host's name in
    /// the URL).
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidUrl`], permanent, naming what is wrong; [`ErrorKind::InvalidConfig`], permanent, naming a
    /// file that cannot be used; [`ErrorKind::Unsupported`] for a `redis+tls:` URL without the feature.
    pub fn from_url(url: &ServiceUrl) -> Result<Self> {
        refuse_unknown(url)?;
        let (address, database) = address(url)?;
        let session_timeout = session_timeout(url)?;
        Ok(Self {
            service: url.to_string(),
            address,
            access: Access {
                credentials: credentials(url),
                database,
                #[cfg(feature = "tls")]
                tls: (url.scheme() == TLS_SCHEME).then(|| crate::tls::connector(url)).transpose()?,
            },
            base: base(url)?,
            naming: naming(url)?,
            session_timeout,
            connect_timeout: url.duration("connect_timeout")?.unwrap_or(CONNECT_TIMEOUT_DEFAULT),
            operation_timeout: url.duration("operation_timeout")?.unwrap_or(session_timeout),
            replicas: replicas(url)?,
            clock_guard: clock_guard(url)?,
        })
    }

    /// Refuses a server that cannot have both our keys and those of others.
    pub(crate) fn check(&self, connection: &Connection) -> Result<(), Failure> {
        if self.naming == Naming::Setnx && connection.greeting.is_of_cluster {
            let message = "`layout=setnx` needs a server that is in no cluster: there the lock's own key and our queue \
                           would lie on different servers";
            return Err(Failure::new(FailureKind::Settings, Effect::None, message).at(connection.server()));
        }
        Ok(())
    }

    /// Where its keys lie.
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
        "redis" | SENTINEL_SCHEME => url.refuse_unknown_keys(&KEYS),
        #[cfg(feature = "tls")]
        TLS_SCHEME => url.refuse_unknown_keys(&[&KEYS[..], &lockkeeper_tls::KEYS].concat()),
        #[cfg(not(feature = "tls"))]
        TLS_SCHEME => {
            let message = "`redis+tls:` needs the feature `tls` of the crate `lockkeeper`, or of `lockkeeper-redis`";
            Err(Error::permanent(ErrorKind::Unsupported, Operation::Configure, message))
        }
        other => Err(invalid(format!("`{other}:` is no URL of Redis"))),
    }
}

/// Reads the hosts and the path: how the server is found, and the number of the database.
fn address(url: &ServiceUrl) -> Result<(Address, u32)> {
    let is_sentinel = url.scheme() == SENTINEL_SCHEME;
    let port_default = if is_sentinel { SENTINEL_PORT_DEFAULT } else { PORT_DEFAULT };
    let servers = Server::of_url(url, port_default)?;
    let path = url.path().trim_matches('/');
    if !is_sentinel {
        return Ok((Address::Servers(servers), database(path)?));
    }
    let (master, database_path) = path.split_once('/').unwrap_or((path, ""));
    if master.is_empty() {
        let message = "a `redis+sentinel:` URL names the master, as in redis+sentinel://h1:26379,h2:26379/MASTER";
        return Err(invalid(message));
    }
    Ok((Address::Sentinels { sentinels: servers, master: master.to_owned() }, database(database_path)?))
}

/// Reads the path's number of a database.
fn database(path: &str) -> Result<u32> {
    if path.is_empty() {
        return Ok(0);
    }
    let is_number = path.bytes().all(|byte| byte.is_ascii_digit());
    path.parse().ok().filter(|&number| is_number && number <= DATABASE_MAX).ok_or_else(|| {
        let message = format!(
            "the path is the number of a database, such as `/0`, and not `{path}`; what all keys \
                               begin with is `base`"
        );
        invalid(message)
    })
}

fn session_timeout(url: &ServiceUrl) -> Result<Duration> {
    let timeout = url.duration("session_timeout")?.unwrap_or(SESSION_TIMEOUT_DEFAULT);
    if !(SESSION_TIMEOUT_MIN..=SESSION_TIMEOUT_MAX).contains(&timeout) {
        let message =
            format!("a session timeout on Redis lies between {SESSION_TIMEOUT_MIN:?} and {SESSION_TIMEOUT_MAX:?}");
        return Err(invalid(message));
    }
    if timeout.subsec_nanos() % 1_000_000 != 0 {
        return Err(invalid("`session_timeout` is in whole milliseconds, since Redis counts in milliseconds"));
    }
    Ok(timeout)
}

/// A user without a password is one that needs none.
fn credentials(url: &ServiceUrl) -> Option<Credentials> {
    let user = url.user().filter(|user| !user.is_empty()).map(str::to_owned);
    match (user, url.password()) {
        (None, None) => None,
        (user, password) => Some(Credentials { user, password: password.unwrap_or_default().to_owned() }),
    }
}

fn base(url: &ServiceUrl) -> Result<String> {
    let base = url.query("base").unwrap_or(BASE_DEFAULT);
    if base.is_empty() {
        return Err(invalid("`base` is empty"));
    }
    if base.len() > BASE_BYTES_MAX {
        return Err(invalid(format!("`base` has at most {BASE_BYTES_MAX} bytes")));
    }
    if base.contains(['{', '}']) {
        return Err(invalid(format!("`base` has no braces, since it stands in them: `{base}`")));
    }
    if base.chars().any(char::is_control) {
        return Err(invalid("`base` has a control character"));
    }
    Ok(base.to_owned())
}

fn replicas(url: &ServiceUrl) -> Result<u32> {
    let Some(text) = url.query("replicas") else {
        return Ok(0);
    };
    text.parse().ok().filter(|&replicas| replicas <= REPLICAS_MAX).ok_or_else(|| {
        invalid(format!("`replicas` is a number of replicas, from 0 to {REPLICAS_MAX}, and not `{text}`"))
    })
}

fn clock_guard(url: &ServiceUrl) -> Result<ClockGuard> {
    match url.query("clock") {
        None => Ok(ClockGuard::Guarded),
        Some("trust") => Ok(ClockGuard::Trusting),
        Some(other) => Err(invalid(format!("`clock` is `trust` or left out, not `{other}`"))),
    }
}

fn naming(url: &ServiceUrl) -> Result<Naming> {
    match url.query("layout") {
        None => Ok(Naming::Ours),
        Some("setnx") => Ok(Naming::Setnx),
        Some(other) => Err(invalid(format!("`layout` is `setnx` or left out, not `{other}`"))),
    }
}

fn invalid(message: impl Into<String>) -> Error {
    Error::permanent(ErrorKind::InvalidUrl, Operation::Configure, message)
}
