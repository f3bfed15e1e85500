//! Reads a service URL for PostgreSQL, MariaDB or MySQL and checks it once. It opens nothing but the files of
//! certificates.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::clock::Clock;
use lockkeeper_core::url::Unset::{Is, Means};
use lockkeeper_core::url::{Elsewhere, Given, Kind, Setting, Settings, invalid};
use lockkeeper_core::{Result, ServiceUrl};
use lockkeeper_session::{Finder, Names, Order, Server};

/// The port of a PostgreSQL server if the URL names no port.
pub const POSTGRES_PORT_DEFAULT: u16 = 5432;

/// The port of a MariaDB or MySQL server if the URL names no port.
pub const MYSQL_PORT_DEFAULT: u16 = 3306;

/// The schema with our tables, or on MySQL the database, when the URL does not say.
pub const SCHEMA_DEFAULT: &str = "lockkeeper";

/// The least session timeout: less leaves no room between two beats for a server that is slow once.
const SESSION_TIMEOUT_MIN: Duration = Duration::from_secs(2);

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
    /// How the names of servers are resolved.
    pub(crate) names: Names,
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
    /// Whether a server is used that only speaks as PostgreSQL or MySQL does, if a trial finds what locks need.
    pub(crate) is_unverified: bool,
    /// Whether a place is on the disk before it is taken, also where the server tells that it may have lost some.
    pub(crate) flushes_joins: bool,
    /// What is needed to speak TLS with the servers, if they must.
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<lockkeeper_tls::TlsMaterial>,
    session_timeout: Duration,
    pub(crate) connect_timeout: Duration,
    /// How long one request may take.
    pub(crate) operation_timeout: Duration,
}

const SESSION_TIMEOUT: Setting =
    Setting::session_timeout(SESSION_TIMEOUT_MIN..=SESSION_TIMEOUT_MAX, Duration::from_millis(1)).text(
        "how long a session may be silent until the others remove it; more than `60s` only where `setup \
         --max-session-timeout` allows it",
    );

/// The settings of a `postgres:`, `mysql:` or `mariadb:` URL.
pub const SETTINGS: &Settings = &Settings {
    package: env!("CARGO_PKG_NAME"),
    schemes: &["postgres", "postgres+tls", "mysql", "mysql+tls", "mariadb", "mariadb+tls"],
    rows: &[
        SESSION_TIMEOUT,
        Setting::CONNECT_TIMEOUT,
        Setting::OPERATION_TIMEOUT,
        Setting::new(
            "schema",
            Kind::Text("at most 48 lower-case letters, digits and `_`, and begins with a letter", is_schema),
            Is(SCHEMA_DEFAULT),
        )
        .text("the schema with the tables; on MariaDB and MySQL the database"),
        Setting::new("setup", Kind::Word(&["auto", "never"]), Is("auto"))
            .text("`never`: a missing schema is an error; `auto`: it is made at the first connection, if the user may"),
        Setting::new("wake", Kind::Word(&["auto", "look"]), Is("auto"))
            .text("`look`: waiters only look, also where the server could tell them"),
        Setting::new("galera", Kind::Word(&["one-node"]), Means("a node of Galera is refused"))
            .text("`one-node`: this node of a Galera cluster is the only one that clients of locks reach"),
        Setting::new("server", Kind::Word(&["unverified"]), Means("look-alikes of PostgreSQL and MySQL are refused"))
            .text("`unverified`: one is used that has what locks need in a trial; its locks are best effort"),
        Setting::new("commit", Kind::Word(&["sync"]), Means("PostgreSQL flushes a place soon after it is taken"))
            .text("`sync`: a place is flushed before it is taken; else a crash may lose it, and locks rest behind one"),
        Setting::SSLMODE,
    ],
    #[cfg(feature = "tls")]
    tls: lockkeeper_tls::SETTINGS,
    #[cfg(not(feature = "tls"))]
    tls: &[],
    elsewhere: &[
        Elsewhere::new(
            "host",
            "what stands before the path here; a Unix socket too, as in postgres://%2Frun%2Fpostgresql",
        ),
        Elsewhere::new("socket", "the host here, as in mysql://%2Frun%2Fmysqld%2Fmysqld.sock"),
        Elsewhere::new("ssl-mode", "`sslmode=verify-full` here"),
        Elsewhere::new("sslrootcert", "`ca` here"),
        Elsewhere::new("sslcert", "`cert` here"),
        Elsewhere::new("sslkey", "`key` here"),
        Elsewhere::new("target_session_attrs", "`read-write` here: locks are written").same(&["read-write", "primary"]),
    ],
};

impl Config {
    /// Reads a `postgres:`, `mysql:` or `mariadb:` URL:
    /// `postgres://[user[:password]@]host[:port][,host…][/database][?key=value…]`.
    ///
    /// MariaDB and MySQL have no path: the schema is the database there.
    ///
    /// A host that begins with `%2F` is the path of a Unix socket, on PostgreSQL of its folder.
    ///
    /// All servers are those of one database: the first that takes writes is used. The keys are those of
    /// [`SETTINGS`]. With `sslmode=verify-full`, or a `postgres+tls:`, `mysql+tls:` or `mariadb+tls:`
    /// URL, the servers must speak TLS and show who they are; the files of its settings are read now.
    ///
    /// # Errors
    ///
    /// [`InvalidUrl`](lockkeeper_core::ErrorKind::InvalidUrl), permanent, naming what is wrong;
    /// [`InvalidConfig`](lockkeeper_core::ErrorKind::InvalidConfig), permanent, naming a file that cannot be used;
    /// [`Unsupported`](lockkeeper_core::ErrorKind::Unsupported) for a URL with TLS without the feature `tls`.
    pub fn from_url(url: &ServiceUrl) -> Result<Self> {
        let given = SETTINGS.read(url)?;
        if url.scheme().ends_with("+tls") && given.text("sslmode") == "disable" {
            return Err(invalid(format!("`sslmode=disable` and `{}:` say the opposite", url.scheme())));
        }
        let (dialect, port_default) = match url.scheme() {
            "postgres" | "postgres+tls" => (Dialect::Postgres, POSTGRES_PORT_DEFAULT),
            _ => (Dialect::Mysql, MYSQL_PORT_DEFAULT),
        };
        Ok(Self {
            service: url.to_string(),
            dialect,
            servers: Server::or_sockets_of_url(url, port_default, |path, port| match dialect {
                Dialect::Postgres => format!("{path}/.s.PGSQL.{port}"),
                Dialect::Mysql => path.to_owned(),
            })?,
            names: Names::default(),
            user: url.user().filter(|user| !user.is_empty()).map(str::to_owned),
            password: url.password().map(str::to_owned),
            database: database(url, dialect, given.text("schema"))?,
            schema: given.text("schema").to_owned(),
            sets_up: given.text("setup") == "auto",
            only_looks: given.text("wake") == "look",
            is_only_node: is_only_node(url, &given, dialect)?,
            is_unverified: given.text("server") == "unverified",
            flushes_joins: given.text("commit") == "sync",
            #[cfg(feature = "tls")]
            tls: SETTINGS.is_secured(url).then(|| lockkeeper_tls::TlsSettings::from_url(url)?.read()).transpose()?,
            session_timeout: given.time("session_timeout"),
            connect_timeout: given.time("connect_timeout"),
            operation_timeout: given.operation_timeout(),
        })
    }

    /// Reads the URL of a database that a pool of the program's leads to. Its first host names it in messages; how to
    /// connect, the pool knows.
    #[cfg(feature = "postgres")]
    pub(crate) fn of_pool(url: &ServiceUrl) -> Result<Self> {
        let config = Self::from_url(url)?;
        if config.dialect != Dialect::Postgres {
            return Err(invalid(format!("the pool is one of PostgreSQL, and `{}:` is not", url.scheme())));
        }
        let servers = config.servers.iter().take(1).cloned().collect();
        Ok(Self { servers, names: Names::unresolved(), ..config })
    }

    /// Begins to find the server that serves.
    pub(crate) fn finder(&self, clock: &Arc<dyn Clock>) -> Finder {
        Finder::new(&self.names, self.servers.clone(), Order::Listed, clock.clone())
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

/// Refuses a session timeout that does not lie within its limits.
pub(crate) fn check_session_timeout(timeout: Duration) -> Result<()> {
    SESSION_TIMEOUT.check_time(timeout)
}

fn database(url: &ServiceUrl, dialect: Dialect, schema: &str) -> Result<Option<String>> {
    let database = url.path().trim_matches('/');
    if dialect == Dialect::Mysql {
        return match database {
            "" => Ok(None),
            same if same == schema => Ok(None),
            other => Err(invalid(format!(
                "on MariaDB and MySQL locks have a database for themselves: leave `/{other}` out, or name it by \
                 `schema`"
            ))),
        };
    }
    if database.contains('/') {
        return Err(invalid(format!(
            "the path is the name of one database, not `{database}`; `schema` says where our tables are"
        )));
    }
    Ok((!database.is_empty()).then(|| database.to_owned()))
}

fn is_only_node(url: &ServiceUrl, given: &Given, dialect: Dialect) -> Result<bool> {
    let is_said = given.text("galera") == "one-node";
    if is_said && (dialect != Dialect::Mysql || url.hosts().len() != 1) {
        return Err(invalid("`galera=one-node` is for a `mysql:` or `mariadb:` URL with one server"));
    }
    Ok(is_said)
}

fn is_schema(schema: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    let begins_well = schema.starts_with(|first: char| first.is_ascii_lowercase());
    begins_well && schema.bytes().all(is_plain) && schema.len() <= SCHEMA_BYTES_MAX
}

#[cfg(test)]
mod tests;
