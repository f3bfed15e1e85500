//! The configuration in a service URL for Redis or Valkey, read and checked once. Only the files of certificates are
//! opened here.

#[cfg(test)]
mod tests;

use std::fmt;
use std::time::Duration;

use lockkeeper_core::url::Unset::{Is, Means};
use lockkeeper_core::url::{Elsewhere, Given, Kind, Setting, Settings, invalid};
use lockkeeper_core::{Error, ErrorKind, Operation, Result, ServiceUrl};
use lockkeeper_session::{Effect, Failure, FailureKind, Lookable as _, Names, Server};

use crate::connection::{Connection, LoadingNote};
use crate::layout::Layout;
use crate::script::KeyScheme;

/// The port of a server if the URL names no port.
pub const PORT_DEFAULT: u16 = 6379;

/// The port of a sentinel if the URL names no port.
pub const SENTINEL_PORT_DEFAULT: u16 = 26379;

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

/// The scheme of a service whose master is named by sentinels.
const SENTINEL_SCHEME: &str = "redis+sentinel";

/// The same with TLS, to the sentinels and to the master.
const SENTINEL_TLS_SCHEME: &str = "redis+sentinel+tls";

/// The settings of a `redis:` URL.
pub const SETTINGS: &Settings = &Settings {
    package: env!("CARGO_PKG_NAME"),
    schemes: &["redis", "redis+tls", SENTINEL_SCHEME, SENTINEL_TLS_SCHEME],
    rows: &[
        Setting::session_timeout(SESSION_TIMEOUT_MIN..=SESSION_TIMEOUT_MAX, Duration::from_millis(1)),
        Setting::CONNECT_TIMEOUT,
        Setting::OPERATION_TIMEOUT,
        Setting::new(
            "base",
            Kind::Text("a text of 1 to 200 bytes without braces and control characters", is_base),
            Is(BASE_DEFAULT),
        )
        .text("what all keys carry in their hash tag: `{lockkeeper}:…`"),
        Setting::new("replicas", Kind::Number(0..=REPLICAS_MAX), Is("0")).text(
            "how many replicas must have each join and each renewal; with fewer they fail and can be tried again. It \
             narrows the time in which a failover loses a grant, and does not end it",
        ),
        Setting::new("clock", Kind::Word(&["trust"]), Means("no jump ends sessions")).text(
            "`trust`: a jump of the server's clock may end sessions; in return those that died in a long silence are \
             removed at once after it",
        ),
        Setting::new("layout", Kind::Word(&["setnx"]), Means("our own keys")).text(
            "`setnx`: a lock's name is also the key of a plain `SET key random NX PX` lock, and \
             [shared](../mixed-fleets.md#redis-and-valkey) with clients of those",
        ),
        Setting::new("sentinel_user", Kind::Text("a user's name", is_named), Means("as for the master"))
            .text("with sentinels: the user that they know us by"),
        Setting::new("sentinel_password_file", Kind::File, Means("as for the master"))
            .text("with sentinels: the file with the password for them, where it is another than the master's"),
    ],
    #[cfg(feature = "tls")]
    tls: lockkeeper_tls::SETTINGS,
    #[cfg(not(feature = "tls"))]
    tls: &[],
    elsewhere: &[
        Elsewhere::new("protocol", "3 here: locks need RESP3").same(&["3", "resp3"]),
        Elsewhere::new("db", "the path here, as in redis://h1/2"),
    ],
};

/// How the server with the keys is found.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Address {
    /// It is one of those that the URL names, or one that they name: of a cluster each knows where the keys lie.
    Servers(Vec<Server>),
    /// Sentinels know it by a name.
    Sentinels { sentinels: Vec<Server>, master: String },
}

/// A user of the server.
#[derive(Clone)]
pub(crate) struct RedisCredentials {
    /// Without it the server's default user.
    pub(crate) user: Option<String>,
    pub(crate) password: String,
}

/// How this client and a server authenticate each other, which database is used, and whether it is being loaded.
#[derive(Clone, Default)]
pub(crate) struct RedisAccess {
    pub(crate) credentials: Option<RedisCredentials>,
    /// The user of sentinels, if it is another one.
    pub(crate) of_sentinels: Option<RedisCredentials>,
    pub(crate) database: u32,
    pub(crate) is_secured: bool,
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<lockkeeper_tls::Connector>,
    /// Whether the URL names this server alone: then none serves while it loads its data.
    pub(crate) is_alone: bool,
    pub(crate) loading: LoadingNote,
}

/// Whether a jump of the server's clock can push the service's time.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ClockGuard {
    /// It cannot: the service's time goes on by steps of a bounded length.
    Guarded,
    /// It can. In return sessions that died in a long silence are removed at once after it.
    Trusting,
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
    pub(crate) names: Names,
    pub(crate) access: RedisAccess,
    /// What all keys carry in their hash tag; it has no brace.
    pub(crate) base: String,
    pub(crate) naming: KeyScheme,
    session_timeout: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) operation_timeout: Duration,
    /// How many replicas must have each join and each renewal.
    pub(crate) replicas: u32,
    pub(crate) clock_guard: ClockGuard,
}

pub(crate) type RedisSite = lockkeeper_session::Site<Config, Layout>;

impl Config {
    /// Reads a `redis:` URL: `redis://[[user]:password@]host[:port][,…][/database][?key=value…]`.
    ///
    /// All hosts must be of one service. Of several the first that is a master is used; of a cluster any of them leads
    /// to the one with the keys: one slot has them all, by the base. The keys are those of
    /// [`SETTINGS`]; with `layout=setnx` there are only mutexes, not fair towards the other clients,
    /// and not in a cluster. A host that begins with `%2F` is the path of a Unix socket.
    ///
    /// With `redis+sentinel://host[:port][,…]/MASTER[/database]` the hosts are sentinels, which know the master by that
    /// name. `redis+tls:` and `redis+sentinel+tls:` are for servers that speak TLS; the files of their settings are
    /// read now.
    ///
    /// # Errors
    ///
    /// [`InvalidUrl`](lockkeeper_core::ErrorKind::InvalidUrl), permanent, naming what is wrong;
    /// [`InvalidConfig`](lockkeeper_core::ErrorKind::InvalidConfig), permanent, naming a file that cannot be used;
    /// [`Unsupported`](lockkeeper_core::ErrorKind::Unsupported) for a URL with `+tls` without the feature `tls`.
    pub fn from_url(url: &ServiceUrl) -> Result<Self> {
        let given = SETTINGS.read(url)?;
        let (address, database) = address(url)?;
        let of_sentinels = of_sentinels(&given, &address)?;
        let is_alone = matches!(&address, Address::Servers(servers) if servers.len() == 1);
        Ok(Self {
            service: url.to_string(),
            address,
            names: Names::default(),
            access: RedisAccess {
                credentials: credentials(url),
                of_sentinels,
                database,
                is_secured: SETTINGS.is_secured(url),
                #[cfg(feature = "tls")]
                tls: SETTINGS.is_secured(url).then(|| lockkeeper_tls::Connector::from_url(url)).transpose()?,
                is_alone,
                loading: LoadingNote::default(),
            },
            base: given.text("base").to_owned(),
            naming: if given.text("layout") == "setnx" { KeyScheme::Setnx } else { KeyScheme::Ours },
            session_timeout: given.time("session_timeout"),
            connect_timeout: given.time("connect_timeout"),
            operation_timeout: given.operation_timeout(),
            replicas: given.number("replicas"),
            clock_guard: if given.text("clock") == "trust" { ClockGuard::Trusting } else { ClockGuard::Guarded },
        })
    }

    /// Refuses a server that cannot have both our keys and those of others.
    pub(crate) fn check(&self, connection: &Connection) -> Result<(), Failure> {
        if self.naming == KeyScheme::Setnx && connection.greeting.is_of_cluster {
            let message = "`layout=setnx` needs a server that is in no cluster: there the lock's own key and our queue \
                           would lie on different servers";
            return Err(Failure::new(FailureKind::Settings, Effect::None, message).at(connection.server()));
        }
        Ok(())
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

/// Reads the hosts and the path: how the server is found, and the number of the database.
fn address(url: &ServiceUrl) -> Result<(Address, u32)> {
    let is_sentinel = url.scheme().starts_with(SENTINEL_SCHEME);
    let port_default = if is_sentinel { SENTINEL_PORT_DEFAULT } else { PORT_DEFAULT };
    let servers = Server::or_sockets_of_url(url, port_default, |path, _| path.to_owned())?;
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

/// A user without a password is one that needs none.
fn credentials(url: &ServiceUrl) -> Option<RedisCredentials> {
    let user = url.user().filter(|user| !user.is_empty()).map(str::to_owned);
    match (user, url.password()) {
        (None, None) => None,
        (user, password) => Some(RedisCredentials { user, password: password.unwrap_or_default().to_owned() }),
    }
}

/// Reads who we are to sentinels, if that is said apart.
fn of_sentinels(given: &Given, address: &Address) -> Result<Option<RedisCredentials>> {
    let [user, file] = ["sentinel_user", "sentinel_password_file"].map(|key| given.text(key));
    if user.is_empty() && file.is_empty() {
        return Ok(None);
    }
    if matches!(address, Address::Servers(_)) {
        return Err(invalid("`sentinel_user` and `sentinel_password_file` are for `redis+sentinel:`"));
    }
    let password = match file {
        "" => String::new(),
        file => {
            let text = std::fs::read_to_string(file).map_err(|error| {
                let message = format!("`sentinel_password_file`: {file} cannot be read");
                Error::permanent(ErrorKind::InvalidConfig, Operation::Configure, message).caused_by(error)
            })?;
            text.trim_end_matches(['\r', '\n']).to_owned()
        }
    };
    let user = Some(user).filter(|user| !user.is_empty()).map(str::to_owned);
    Ok(Some(RedisCredentials { user, password }))
}

fn is_named(name: &str) -> bool {
    !name.is_empty()
}

/// Whether the keys can carry this in their hash tag, which stands in braces.
fn is_base(base: &str) -> bool {
    (1..=BASE_BYTES_MAX).contains(&base.len()) && !base.contains(['{', '}']) && !base.chars().any(char::is_control)
}
