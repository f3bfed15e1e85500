//! Reads a service URL for PostgreSQL, MariaDB or MySQL and checks it once. It opens nothing but the files of
//! certificates.

use std::fmt;
use std::time::Duration;

use lockkeeper_core::{Error, ErrorKind, Operation, Result, ServiceUrl};
use lockkeeper_session::Server;

/// The port of a PostgreSQL server if the URL names no port.
pub const POSTGRES_PORT_DEFAULT: u16 = 5432;

/// The port of a MariaDB or MySQL server if the URL names no port.
pub const MYSQL_PORT_DEFAULT: u16 = 3306;

/// The session timeout if the URL names none.
pub const SESSION_TIMEOUT_DEFAULT: Duration = Duration::from_secs(20);

/// How long the opening of a session may take when the URL does not say.
pub const CONNECT_TIMEOUT_DEFAULT: Duration = Duration::from_secs(10);

/// The schema with our tables, or on MySQL the database, when the URL does not say.
pub const SCHEMA_DEFAULT: &str = "lockkeeper";

/// The least session timeout: less leaves no room between two beats for a server that is slow once.
pub(crate) const SESSION_TIMEOUT_MIN: Duration = Duration::from_secs(2);

/// The greatest session timeout: as long a holder that died keeps its locks, and a new primary keeps all waiting.
const SESSION_TIMEOUT_MAX: Duration = Duration::from_secs(10 * 60);

/// The longest name of a schema, in bytes: a longer one PostgreSQL cuts off unsaid.
const SCHEMA_BYTES_MAX: usize = 48;

/// Which database's language is spoken.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Dialect {
    Postgres,
    Mysql,
}

/// What is known of a database before it is reached.
///
/// ```
/// use lockkeeper_sql::Config;
///
/// let config = Config::from_url(&"postgres://ann@h1,h2/app?session_timeout=30s".parse()?)?;
/// assert_eq!(config.session_timeout().as_secs(), 30);
/// # Ok::<(), lockkeeper_core::Error>(())
/// ```
#[derive(Clone)]
pub struct Config {
    pub(crate) service: String,
    pub(crate) dialect: Dialect,
    pub(crate) servers: Vec<Server>,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    /// The database that is connected to; none on MySQL, where the schema is one itself.
    pub(crate) database: Option<String>,
    /// A plain identifier: lower-case letters, digits and `_`.
    pub(crate) schema: String,
    /// Whether a missing schema is made at the first connection.
    pub(crate) sets_up: bool,
    /// Whether waiters only look, also where the server could tell them.
    pub(crate) only_looks: bool,
    /// Whether a Galera node is used as the only one of its cluster.
    pub(crate) is_only_node: bool,
    /// What is needed to speak TLS with the servers, if they must.
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<lockkeeper_tls::Papers>,
    session_timeout: Duration,
    pub(crate) connect_timeout: Duration,
    /// How long one request may take.
    pub(crate) operation_timeout: Duration,
}

/// The keys that every URL may have; one with TLS has more.
const KEYS: [&str; 8] =
    ["session_timeout", "connect_timeout", "operation_timeout", "schema", "setup", "wake", "galera", "sslmode"];

/// What is behind a scheme's name if servers must speak TLS.
const TLS_SUFFIX: &str = "+tls";

impl Config {
    /// Reads a `postgres:`, `mysql:` or `mariadb:` URL:
    /// `postgres://[user[:password]@]host[:port][,host…][/database][?key=value…]`.
    ///
    /// MariaDB and MySQL have no path: the schema is the database there.
    ///
    /// All servers are those of one database: the first that takes writes is used. The keys:
    ///
    /// - `session_timeout`: after how long others may have the locks of a process that died; from 2 s to 10 min, 20 s
    ///   if it is left out.
    /// - `connect_timeout`: how long the opening of a session may take; 10 s if it is left out.
    /// - `operation_timeout`: how long one request may take; the session timeout if it is left out.
    /// - `schema`: the schema with our tables, and on MySQL the database; `lockkeeper` if it is left out.
    /// - `setup`: `auto`, or `never` if a missing schema is not to be made at the first connection.
    /// - `wake`: `auto`, or `look` if waiters are only to look, also where the server could tell them.
    /// - `galera=one-node`: the one server is a node of a Galera cluster, and no other node of it is used for locks.
    /// - `sslmode`: `verify-full` if the servers must speak TLS and show who they are, or `disable`, as if it is left
    ///   out. A `postgres+tls:`, `mysql+tls:` or `mariadb+tls:` URL says the former.
    ///
    /// A URL with TLS needs the feature `tls`. It has four keys more, whose files are in PEM form and are read now:
    /// `ca` (a file of the authorities that are trusted for servers; without it the system's), `cert` and `key` (files
    /// with our certificate, followed by its chain, and its key, for servers that ask for one), `server_name` (the name
    /// that the servers' certificates are for, if it is not the host's name in the URL).
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidUrl`], permanent, naming what is wrong; [`ErrorKind::InvalidConfig`], permanent, naming a
    /// file that cannot be used; [`ErrorKind::Unsupported`] for a URL with TLS without the feature.
    pub fn from_url(url: &ServiceUrl) -> Result<Self> {
        let dialect = dialect(url)?;
        let is_secured = is_secured(url)?;
        refuse_unknown(url, is_secured)?;
        let port_default = match dialect {
            Dialect::Postgres => POSTGRES_PORT_DEFAULT,
            Dialect::Mysql => MYSQL_PORT_DEFAULT,
        };
        let session_timeout = session_timeout(url)?;
        Ok(Self {
            service: url.to_string(),
            dialect,
            servers: Server::of_url(url, port_default)?,
            user: url.user().filter(|user| !user.is_empty()).map(str::to_owned),
            password: url.password().map(str::to_owned),
            database: database(url, dialect)?,
            schema: schema(url)?,
            sets_up: one_of(url, "setup", &["auto", "never"])? != Some("never"),
            only_looks: one_of(url, "wake", &["auto", "look"])? == Some("look"),
            is_only_node: is_only_node(url, dialect)?,
            #[cfg(feature = "tls")]
            tls: is_secured.then(|| lockkeeper_tls::Settings::from_url(url)?.read()).transpose()?,
            session_timeout,
            connect_timeout: url.duration("connect_timeout")?.unwrap_or(CONNECT_TIMEOUT_DEFAULT),
            operation_timeout: url.duration("operation_timeout")?.unwrap_or(session_timeout),
        })
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

fn dialect(url: &ServiceUrl) -> Result<Dialect> {
    let scheme = url.scheme();
    match scheme.strip_suffix(TLS_SUFFIX).unwrap_or(scheme) {
        "postgres" => Ok(Dialect::Postgres),
        "mysql" | "mariadb" => Ok(Dialect::Mysql),
        _ => Err(invalid(format!("`{scheme}:` is no URL of a database with locks"))),
    }
}

/// Whether the servers must speak TLS. There is no way between: one that encrypts for any other end protects nothing.
fn is_secured(url: &ServiceUrl) -> Result<bool> {
    let by_scheme = url.scheme().ends_with(TLS_SUFFIX);
    match one_of(url, "sslmode", &["verify-full", "disable"])? {
        Some("disable") if by_scheme => {
            Err(invalid(format!("`sslmode=disable` and `{}:` say the opposite", url.scheme())))
        }
        Some(mode) => Ok(mode == "verify-full"),
        None => Ok(by_scheme),
    }
}

/// Refuses keys that mean nothing here.
#[cfg(feature = "tls")]
fn refuse_unknown(url: &ServiceUrl, is_secured: bool) -> Result<()> {
    if is_secured {
        return url.refuse_unknown_keys(&[&KEYS[..], &lockkeeper_tls::KEYS].concat());
    }
    if let Some(key) = lockkeeper_tls::KEYS.iter().find(|key| url.query(key).is_some()) {
        return Err(invalid(format!("`{key}` is for TLS, which `sslmode=verify-full` asks for")));
    }
    url.refuse_unknown_keys(&KEYS)
}

/// Refuses keys that mean nothing here.
#[cfg(not(feature = "tls"))]
fn refuse_unknown(url: &ServiceUrl, is_secured: bool) -> Result<()> {
    if is_secured {
        let message = "TLS needs the feature `tls` of the crate `lockkeeper`, or of `lockkeeper-sql`";
        return Err(Error::permanent(ErrorKind::Unsupported, Operation::Configure, message));
    }
    url.refuse_unknown_keys(&KEYS)
}

fn session_timeout(url: &ServiceUrl) -> Result<Duration> {
    let timeout = url.duration("session_timeout")?.unwrap_or(SESSION_TIMEOUT_DEFAULT);
    check_session_timeout(timeout).map(|()| timeout)
}

/// Refuses a session timeout that does not lie within its limits.
pub(crate) fn check_session_timeout(timeout: Duration) -> Result<()> {
    if !(SESSION_TIMEOUT_MIN..=SESSION_TIMEOUT_MAX).contains(&timeout) {
        let message =
            format!("a session timeout on a database lies between {SESSION_TIMEOUT_MIN:?} and {SESSION_TIMEOUT_MAX:?}");
        return Err(invalid(message));
    }
    Ok(())
}

fn database(url: &ServiceUrl, dialect: Dialect) -> Result<Option<String>> {
    let database = url.path().trim_matches('/');
    if dialect == Dialect::Mysql && !database.is_empty() {
        return Err(invalid(format!(
            "on MariaDB and MySQL the database with our tables is named by `schema`; the URL names no other, as \
             `{database}`"
        )));
    }
    if database.contains('/') {
        return Err(invalid(format!(
            "the path is the name of one database, not `{database}`; `schema` says where our tables are"
        )));
    }
    Ok((!database.is_empty()).then(|| database.to_owned()))
}

fn is_only_node(url: &ServiceUrl, dialect: Dialect) -> Result<bool> {
    if one_of(url, "galera", &["one-node"])?.is_none() {
        return Ok(false);
    }
    if dialect != Dialect::Mysql || url.hosts().len() != 1 {
        return Err(invalid("`galera=one-node` is for a `mysql:` or `mariadb:` URL with one server"));
    }
    Ok(true)
}

fn schema(url: &ServiceUrl) -> Result<String> {
    let schema = url.query("schema").unwrap_or(SCHEMA_DEFAULT);
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    let begins_well = schema.as_bytes().first().is_some_and(u8::is_ascii_lowercase);
    if !begins_well || !schema.bytes().all(is_plain) || schema.len() > SCHEMA_BYTES_MAX {
        return Err(invalid(format!(
            "`schema` has at most {SCHEMA_BYTES_MAX} lower-case letters, digits and `_`, and begins with a letter, \
             not `{schema}`"
        )));
    }
    Ok(schema.to_owned())
}

/// Reads a key that has one of these words.
fn one_of<'a>(url: &'a ServiceUrl, key: &str, words: &[&str]) -> Result<Option<&'a str>> {
    match url.query(key) {
        Some(word) if !words.contains(&word) => {
            Err(invalid(format!("`{key}` is one of {}, not `{word}`", words.join(", "))))
        }
        word => Ok(word),
    }
}

fn invalid(message: impl Into<String>) -> Error {
    Error::permanent(ErrorKind::InvalidUrl, Operation::Configure, message)
}

#[cfg(test)]
mod tests;
