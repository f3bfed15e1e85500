//! Reads a service URL for ZooKeeper and checks it once. It opens nothing.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::{Error, ErrorKind, Operation, Result, ServiceUrl};
use lockkeeper_zk_proto::message::Acl;
use lockkeeper_zk_proto::path::ZnodePath;

use crate::dial::{Dial, TcpDial};
use crate::layout::{ElectionLayout, ForeignPolicy, Layout, Naming};
#[cfg(feature = "tls")]
use crate::tls::TlsDial;

/// The port of a ZooKeeper server if the URL names no port.
pub const PORT_DEFAULT: u16 = 2181;

/// The session timeout that is asked for if the URL names none.
pub const SESSION_TIMEOUT_DEFAULT: Duration = Duration::from_secs(20);

/// How long the opening of a session may take when the URL does not say.
pub const CONNECT_TIMEOUT_DEFAULT: Duration = Duration::from_secs(10);

/// Where the queues lie when the URL does not say.
pub const BASE_DEFAULT: &str = "/lockkeeper";

/// The least session timeout that can be asked for: below it the margins of the safety rule leave nothing.
const SESSION_TIMEOUT_MIN: Duration = Duration::from_secs(1);

/// The greatest session timeout that can be asked for: a day; servers grant far less.
const SESSION_TIMEOUT_MAX: Duration = Duration::from_secs(24 * 3600);

/// The keys that a `zk:` URL may have; `zk+tls:` has more.
const KEYS: [&str; 9] =
    ["session_timeout", "connect_timeout", "operation_timeout", "tick", "base", "layout", "election", "foreign", "acl"];

/// One server's name and port, and one of the addresses behind the name once it was resolved.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
#[non_exhaustive]
pub struct Server {
    /// Its name or address.
    pub name: String,
    /// Its port.
    pub port: u16,
    /// The address to be dialled, with the same port; `None` before the name was resolved, and where a [`Dial`]
    /// resolves no names.
    pub address: Option<SocketAddr>,
}

impl Server {
    /// Names a server that was not resolved.
    pub fn new(name: impl Into<String>, port: u16) -> Self {
        Self { name: name.into(), port, address: None }
    }

    /// Returns the same server behind this address, whose port becomes the server's.
    #[must_use]
    pub fn at(&self, mut address: SocketAddr) -> Self {
        address.set_port(self.port);
        Self { address: Some(address), ..self.clone() }
    }

    /// Whether `way` is this server, behind any address.
    pub(crate) fn is_reached_by(&self, way: &Self) -> bool {
        (&self.name, self.port) == (&way.name, way.port)
    }
}

/// `h1:2181`, or `h1:2181 at 10.0.0.1` where the address says more than the name.
impl fmt::Display for Server {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (open, close) = if self.name.contains(':') { ("[", "]") } else { ("", "") };
        write!(formatter, "{open}{}{close}:{}", self.name, self.port)?;
        let Some(address) = self.address.filter(|address| self.name.parse() != Ok(address.ip())) else {
            return Ok(());
        };
        write!(formatter, " at {}", address.ip())?;
        match address {
            SocketAddr::V6(address) if address.scope_id() != 0 => write!(formatter, "%{}", address.scope_id()),
            SocketAddr::V4(_) | SocketAddr::V6(_) => Ok(()),
        }
    }
}

/// What is known of a ZooKeeper service before it is reached.
///
/// ```
/// use lockkeeper_zookeeper::Config;
///
/// let config = Config::from_url(&"zk://h1,h2:2182/app?session_timeout=30s&tick=2s".parse()?)?;
/// assert_eq!(config.servers().len(), 2);
/// assert_eq!(config.servers()[0].port, 2181);
/// # Ok::<(), lockkeeper_core::Error>(())
/// ```
#[derive(Clone)]
pub struct Config {
    pub(crate) service: String,
    pub(crate) servers: Vec<Server>,
    pub(crate) chroot: ZnodePath,
    /// `user:password`, sent as digest authentication on each connection.
    pub(crate) digest: Option<String>,
    pub(crate) session_timeout: Duration,
    pub(crate) tick: Option<Duration>,
    pub(crate) connect_timeout: Duration,
    /// How long one request may take.
    pub(crate) operation_timeout: Duration,
    pub(crate) base: ZnodePath,
    pub(crate) naming: Naming,
    pub(crate) foreign: ForeignPolicy,
    /// The access list of the nodes that are made for locks.
    pub(crate) acl: Vec<Acl>,
    #[cfg(feature = "tls")]
    tls: Option<lockkeeper_tls::Settings>,
}

impl Config {
    /// Reads a `zk:` URL: `zk://[user:password@]host[:port][,…][/chroot][?key=value…]`.
    ///
    /// The keys: `session_timeout` (20 s), `connect_timeout` (10 s), `operation_timeout` (how long one request may
    /// take; the session timeout), `tick` (the ensemble's, if it is known), `base` (`/lockkeeper`), `layout` (`curator`
    /// or `kazoo`), `election` (`latch`, `selector` or `kazoo`; without it `latch`, or `kazoo` in that layout),
    /// `foreign` (`refuse`, `ignore` or `wait`), `acl` (`open`, or `creator`: the nodes of locks belong to the URL's
    /// user alone, so all clients that share these locks need that user).
    ///
    /// With the feature `tls` also a `zk+tls:` URL, for servers that speak TLS. It has these keys and four more, whose
    /// files are in PEM form: `ca` (a file of the authorities that are trusted for servers; without it the system's),
    /// `cert` and `key` (files with our certificate, followed by its chain, and its key, for servers that ask for one),
    /// `server_name` (the name that the servers' certificates are for, if it is not the host's name in the URL).
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidUrl`], permanent, naming what is wrong; [`ErrorKind::Unsupported`] for a `zk+tls:` URL
    /// without the feature.
    pub fn from_url(url: &ServiceUrl) -> Result<Self> {
        match url.scheme() {
            "zk" => url.refuse_unknown_keys(&KEYS)?,
            #[cfg(feature = "tls")]
            "zk+tls" => url.refuse_unknown_keys(&[&KEYS[..], &lockkeeper_tls::KEYS].concat())?,
            #[cfg(not(feature = "tls"))]
            "zk+tls" => {
                let message =
                    "`zk+tls:` needs the feature `tls` of the crate `lockkeeper`, or of `lockkeeper-zookeeper`";
                return Err(Error::permanent(ErrorKind::Unsupported, Operation::Configure, message));
            }
            other => {
                return Err(invalid(format!("`{other}:` is not a ZooKeeper URL; it begins with `zk:` or `zk+tls:`")));
            }
        }
        if url.hosts().is_empty() {
            let scheme = url.scheme();
            return Err(invalid(format!(
                "a `{scheme}:` URL names at least one server, as in {scheme}://h1:2181,h2:2181"
            )));
        }
        if url.password().is_some() && url.user().is_none_or(str::is_empty) {
            return Err(invalid("a password is given without a user"));
        }
        if url.user().is_some_and(|user| user.contains(':')) {
            return Err(invalid("a user's name cannot have `:`, where digest authentication begins the password"));
        }
        let server =
            |host: &lockkeeper_core::url::Host| Server::new(host.name.clone(), host.port.unwrap_or(PORT_DEFAULT));
        let session_timeout = url.duration("session_timeout")?.unwrap_or(SESSION_TIMEOUT_DEFAULT);
        if !(SESSION_TIMEOUT_MIN..=SESSION_TIMEOUT_MAX).contains(&session_timeout) {
            return Err(invalid(format!(
                "a session timeout lies between {SESSION_TIMEOUT_MIN:?} and {SESSION_TIMEOUT_MAX:?}"
            )));
        }
        let layout = Layout::from_setting(url.query("layout").unwrap_or("curator"))?;
        Ok(Self {
            service: url.to_string(),
            servers: url.hosts().iter().map(server).collect(),
            chroot: path(url.path().trim_end_matches('/'), "the chroot")?,
            digest: url.user().map(|user| format!("{user}:{}", url.password().unwrap_or_default())),
            session_timeout,
            tick: url.duration("tick")?,
            connect_timeout: url.duration("connect_timeout")?.unwrap_or(CONNECT_TIMEOUT_DEFAULT),
            operation_timeout: url.duration("operation_timeout")?.unwrap_or(session_timeout),
            base: path(url.query("base").unwrap_or(BASE_DEFAULT).trim_end_matches('/'), "`base`")?,
            naming: Naming { layout, election: ElectionLayout::from_setting(url.query("election"), layout)? },
            foreign: ForeignPolicy::from_setting(url.query("foreign").unwrap_or("refuse"))?,
            acl: acl(url)?,
            #[cfg(feature = "tls")]
            tls: (url.scheme() == "zk+tls").then(|| lockkeeper_tls::Settings::from_url(url)).transpose()?,
        })
    }

    /// Returns what opens connections to the servers: TCP, or TLS if the URL says so. Files that the URL names are read
    /// now; later changes of them have no effect.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`], permanent, naming the file that cannot be read or used.
    pub fn dial(&self) -> Result<Arc<dyn Dial>> {
        #[cfg(feature = "tls")]
        if let Some(settings) = &self.tls {
            return Ok(Arc::new(TlsDial::open(settings)?));
        }
        Ok(Arc::new(TcpDial))
    }

    /// Returns the servers in the order of the URL.
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// Returns the session timeout that will be asked for; the server may grant another.
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

fn acl(url: &ServiceUrl) -> Result<Vec<Acl>> {
    match (url.query("acl").unwrap_or("open"), url.user()) {
        ("open", _) => Ok(vec![Acl::open()]),
        ("creator", Some(_)) => Ok(vec![Acl::creator()]),
        ("creator", None) => Err(invalid("`acl=creator` needs a user, as in zk://user:password@host".to_owned())),
        (other, _) => Err(invalid(format!("`acl` is `open` or `creator`, not `{other}`"))),
    }
}

fn path(text: &str, what: &str) -> Result<ZnodePath> {
    let text = if text.is_empty() { "/" } else { text };
    ZnodePath::parse(text).map_err(|error| invalid(format!("{what} is not usable")).caused_by(error))
}

pub(crate) fn invalid(message: impl Into<String>) -> Error {
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
        let config = config("zk://h1").unwrap();
        assert_eq!(config.operation_timeout, SESSION_TIMEOUT_DEFAULT);
        assert_eq!(config.servers, [Server::new("h1", 2181)]);
        assert_eq!((config.session_timeout, config.tick), (SESSION_TIMEOUT_DEFAULT, None));
        assert_eq!((config.chroot.as_str(), config.base.as_str()), ("/", "/lockkeeper"));
        assert_eq!((config.naming, config.foreign), (Naming::default(), ForeignPolicy::Refuse));
    }

    #[test]
    fn every_setting_is_read() {
        let url = "zk://ann:s%3Acret@h1:1,[::1]:2/a/b/?session_timeout=6s&tick=500ms&base=/x&layout=kazoo\
                   &foreign=wait&connect_timeout=3s&election=selector&operation_timeout=1500ms";
        let config = config(url).unwrap();
        assert_eq!(config.servers.iter().map(ToString::to_string).collect::<Vec<_>>(), ["h1:1", "[::1]:2"]);
        assert_eq!((config.chroot.as_str(), config.base.as_str()), ("/a/b", "/x"));
        assert_eq!(config.digest.as_deref(), Some("ann:s:cret"));
        assert_eq!(config.session_timeout, Duration::from_secs(6));
        assert_eq!(config.tick, Some(Duration::from_millis(500)));
        assert_eq!(config.connect_timeout, Duration::from_secs(3));
        assert_eq!(config.operation_timeout, Duration::from_millis(1_500));
        let naming = Naming { layout: Layout::Kazoo, election: ElectionLayout::Selector };
        assert_eq!((config.naming, config.foreign), (naming, ForeignPolicy::Wait));
        assert!(!format!("{config:?}").contains("cret"));
    }

    #[test]
    fn a_server_is_dialled_at_the_port_that_it_is_shown_with() {
        for (name, address, shown) in [
            ("h1", "10.0.0.1:999", "h1:2182 at 10.0.0.1"),
            ("10.0.0.1", "10.0.0.1:999", "10.0.0.1:2182"),
            ("::1", "[::1]:999", "[::1]:2182"),
            ("h1", "[fe80::1%3]:999", "h1:2182 at fe80::1%3"),
        ] {
            let server = Server::new(name, 2182).at(address.parse().unwrap());
            assert_eq!((server.to_string().as_str(), server.address.unwrap().port()), (shown, 2182));
        }
    }

    #[test]
    fn an_election_is_laid_out_as_the_locks_are_unless_it_is_said() {
        let election = |url| config(url).unwrap().naming.election;
        assert_eq!(election("zk://h1"), ElectionLayout::Latch);
        assert_eq!(election("zk://h1?layout=kazoo"), ElectionLayout::Kazoo);
        assert_eq!(election("zk://h1?layout=kazoo&election=latch"), ElectionLayout::Latch);
    }

    #[test]
    fn the_settings_of_tls_are_refused_without_it() {
        for key in ["ca", "cert", "key", "server_name"] {
            let error = config(&format!("zk://h1?{key}=x")).expect_err(key);
            assert_eq!(error.kind(), ErrorKind::InvalidUrl);
            assert!(format!("{error:#}").contains(&format!("no setting `{key}`")), "{error}");
        }
    }

    #[cfg(not(feature = "tls"))]
    #[test]
    fn tls_says_which_feature_it_needs() {
        let error = config("zk+tls://h1?ca=x").unwrap_err();
        assert_eq!((error.kind(), error.advice()), (ErrorKind::Unsupported, lockkeeper_core::Advice::Permanent));
        assert!(format!("{error:#}").contains("feature `tls`"), "{error}");
    }

    #[cfg(feature = "tls")]
    #[test]
    fn tls_has_the_settings_of_zk_and_its_own_and_refuses_others_by_name() {
        let config = config("zk+tls://h1,h2:2281/app?tick=2s&ca=x&server_name=h").unwrap();
        assert!(config.tls.is_some());
        assert_eq!(config.servers[1].port, 2281);
        assert_eq!(config.tick, Some(Duration::from_secs(2)));
        for (url, word) in
            [("zk+tls://h1?cacert=x", "`cacert`"), ("zk+tls:/path", "zk+tls://h1"), ("zk+tls://h1?key=x", "`cert`")]
        {
            let error = Config::from_url(&url.parse().unwrap()).expect_err(url);
            assert_eq!(error.kind(), ErrorKind::InvalidUrl, "{url}");
            assert!(format!("{error:#}").contains(word), "{url}: {error}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (url, word) in [
            ("zk:/path", "server"),
            ("zk://h1/../x", "chroot"),
            ("zk://h1/a//b", "chroot"),
            ("zk://h1?base=x", "base"),
            ("zk://h1?layout=zookeeper", "layout"),
            ("zk://h1?election=raft", "election"),
            ("zk://h1?foreign=eat", "foreign"),
            ("zk://h1?acl=mine", "acl"),
            ("zk://h1?acl=creator", "user"),
            ("zk://:1234@h1", "without a user"),
            ("zk://an%3An:1234@h1", "cannot have `:`"),
            ("zk://h1?session_timeout=10ms", "session timeout"),
            ("zk://h1?tick=0ms", "`tick` is zero"),
            ("zk://h1?operation_timeout=0s", "`operation_timeout` is zero"),
            ("zk://h1?session_timeout=30000", "write 30000ms or 30000s"),
            ("zk://h1?tick=soon", "tick"),
            ("zk://h1?sesion_timeout=3s", "sesion_timeout"),
            ("etcd://h1", "etcd"),
        ] {
            let error = config(url).expect_err(url);
            assert_eq!(error.kind(), ErrorKind::InvalidUrl, "{url}");
            assert!(format!("{error:#}").contains(word), "{url}: {error}");
        }
    }
}
