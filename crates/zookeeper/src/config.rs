//! Reads a service URL for ZooKeeper and checks it once. It opens nothing.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::url::Unset::{Is, Means};
use lockkeeper_core::url::{Kind, Setting, Settings, invalid};
use lockkeeper_core::{Result, ServiceUrl};
use lockkeeper_session::Server;
use lockkeeper_zk_proto::message::Acl;
use lockkeeper_zk_proto::path::ZnodePath;

#[cfg(feature = "tls")]
use crate::dial::TlsDial;
use crate::dial::{Dial, TcpDial};
use crate::layout::{ElectionLayout, ForeignPolicy, Layout, NodeNaming};

/// The port of a ZooKeeper server if the URL names no port.
pub const PORT_DEFAULT: u16 = 2181;

/// Where the queues lie when the URL does not say.
pub const BASE_DEFAULT: &str = "/lockkeeper";

/// The least session timeout that can be asked for: below it the margins of the safety rule leave nothing.
const SESSION_TIMEOUT_MIN: Duration = Duration::from_secs(1);

/// The greatest session timeout that can be asked for: a day; servers grant far less.
const SESSION_TIMEOUT_MAX: Duration = Duration::from_secs(24 * 3600);

/// The settings of a `zk:` URL.
pub const SETTINGS: &Settings = &Settings {
    package: env!("CARGO_PKG_NAME"),
    schemes: &["zk", "zk+tls"],
    rows: &[
        Setting::session_timeout(SESSION_TIMEOUT_MIN..=SESSION_TIMEOUT_MAX, Duration::from_millis(1)),
        Setting::CONNECT_TIMEOUT,
        Setting::OPERATION_TIMEOUT,
        Setting::new("tick", Kind::Time, Means("half of the session timeout stands for it"))
            .text("the ensemble's `tickTime`, if it is known: holds may be believed for longer"),
        Setting::new(
            "base",
            Kind::Text("the path of a node, from `/` on", |path| path.starts_with('/')),
            Is(BASE_DEFAULT),
        )
        .text("the node below which the queues of plain names lie"),
        Setting::new("layout", Kind::Word(&["curator", "kazoo"]), Is("curator"))
            .text("the client whose names our contenders have"),
        Setting::new("election", Kind::Word(&["latch", "selector", "kazoo"]), Means("`latch`; `kazoo` in that layout"))
            .text("the recipe whose names our candidates have"),
        Setting::new("foreign", Kind::Word(&["refuse", "ignore", "wait"]), Is("refuse"))
            .text("what to do with a node that may be an unknown client's contender"),
        Setting::new("acl", Kind::Word(&["open", "creator"]), Is("open"))
            .text("`creator`: only the URL's user can use the nodes of locks, so all clients that share them need it"),
    ],
    #[cfg(feature = "tls")]
    tls: lockkeeper_tls::SETTINGS,
    #[cfg(not(feature = "tls"))]
    tls: &[],
    elsewhere: &[],
};

/// The settings of a ZooKeeper service.
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
    pub(crate) naming: NodeNaming,
    pub(crate) foreign: ForeignPolicy,
    /// The access list of the nodes that are made for locks.
    pub(crate) acl: Vec<Acl>,
    #[cfg(feature = "tls")]
    tls: Option<lockkeeper_tls::TlsSettings>,
}

impl Config {
    /// Reads a `zk:` URL: `zk://[user:password@]host[:port][,…][/chroot][?key=value…]`. The keys are those of
    /// [`SETTINGS`]; `zk+tls:` is for servers that speak TLS.
    ///
    /// # Errors
    ///
    /// [`InvalidUrl`](lockkeeper_core::ErrorKind::InvalidUrl), permanent, naming the mistake;
    /// [`Unsupported`](lockkeeper_core::ErrorKind::Unsupported) for a `zk+tls:` URL without the feature `tls`.
    pub fn from_url(url: &ServiceUrl) -> Result<Self> {
        let given = SETTINGS.read(url)?;
        let servers = Server::of_url(url, PORT_DEFAULT)?;
        if url.password().is_some() && url.user().is_none_or(str::is_empty) {
            return Err(invalid("a password is given without a user"));
        }
        if url.user().is_some_and(|user| user.contains(':')) {
            return Err(invalid("a user's name cannot have `:`, where digest authentication begins the password"));
        }
        let acl = match given.text("acl") {
            "creator" if url.user().is_none() => {
                return Err(invalid("`acl=creator` needs a user, as in zk://user:password@host"));
            }
            "creator" => Acl::creator(),
            _ => Acl::open(),
        };
        let layout = match given.text("layout") {
            "kazoo" => Layout::Kazoo,
            _ => Layout::Curator,
        };
        Ok(Self {
            service: url.to_string(),
            servers,
            chroot: path(url.path().trim_end_matches('/'), "the chroot")?,
            digest: url.user().map(|user| format!("{user}:{}", url.password().unwrap_or_default())),
            session_timeout: given.time("session_timeout"),
            tick: Some(given.time("tick")).filter(|tick| !tick.is_zero()),
            connect_timeout: given.time("connect_timeout"),
            operation_timeout: given.operation_timeout(),
            base: path(given.text("base").trim_end_matches('/'), "`base`")?,
            naming: NodeNaming { layout, election: ElectionLayout::of(given.text("election"), layout) },
            foreign: match given.text("foreign") {
                "ignore" => ForeignPolicy::Ignore,
                "wait" => ForeignPolicy::Wait,
                _ => ForeignPolicy::Refuse,
            },
            acl: vec![acl],
            #[cfg(feature = "tls")]
            tls: SETTINGS.is_secured(url).then(|| lockkeeper_tls::TlsSettings::from_url(url)).transpose()?,
        })
    }

    /// Returns what opens connections to the servers: TCP, or TLS if the URL says so. Files that the URL names are read
    /// now; later changes of them have no effect.
    ///
    /// # Errors
    ///
    /// [`InvalidConfig`](lockkeeper_core::ErrorKind::InvalidConfig), permanent, naming the file that cannot be read or
    /// used.
    pub fn dial(&self) -> Result<Arc<dyn Dial>> {
        #[cfg(feature = "tls")]
        if let Some(settings) = &self.tls {
            return Ok(Arc::new(TlsDial::open(settings)?));
        }
        Ok(Arc::new(TcpDial))
    }

    pub(crate) const fn dial_share(&self) -> DialShare {
        DialShare { connect_timeout: self.connect_timeout, session_timeout: self.session_timeout }
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

fn path(text: &str, what: &str) -> Result<ZnodePath> {
    let text = if text.is_empty() { "/" } else { text };
    ZnodePath::parse(text).map_err(|error| invalid(format!("{what} is not usable")).caused_by(error))
}

/// The least time one way gets, however many there are.
const SHARE_MIN: Duration = Duration::from_millis(500);

/// A connection, and a handshake, take at most this part of the session timeout, so that a live session survives a
/// silent server.
const SESSION_DIVISOR: u32 = 3;

#[derive(Clone, Copy, Debug)]
pub(crate) struct DialShare {
    connect_timeout: Duration,
    session_timeout: Duration,
}

impl DialShare {
    /// Returns how long a connection, or the resolving of a name, may take for this number of ways.
    pub(crate) fn dial_max(self, ways: usize) -> Duration {
        share(self.connect_timeout.min(self.session_timeout / SESSION_DIVISOR), ways)
    }

    /// Returns how long a server may take to answer the handshake for this number of ways.
    pub(crate) fn handshake_max(self, ways: usize) -> Duration {
        let longest = (self.session_timeout / SESSION_DIVISOR).max(SHARE_MIN);
        share(self.connect_timeout.min(self.session_timeout), ways).min(longest)
    }
}

fn share(whole: Duration, ways: usize) -> Duration {
    let ways = u128::try_from(ways).unwrap_or(u128::MAX).max(1);
    // In whole milliseconds, as errors show it.
    Duration::from_millis(u64::try_from(whole.as_millis() / ways).unwrap_or(u64::MAX)).max(SHARE_MIN)
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
        let config = config("zk://h1").unwrap();
        assert_eq!((&config.servers[..], config.tick), (&[Server::new("h1", 2181)][..], None));
        assert_eq!((config.chroot.as_str(), config.base.as_str()), ("/", "/lockkeeper"));
        assert_eq!((config.naming, config.foreign), (NodeNaming::default(), ForeignPolicy::Refuse));
    }

    #[test]
    fn every_setting_is_read() {
        let url = "zk://ann:s%3Acret@h1:1,[::1]:2/a/b/?session_timeout=6s&tick=500ms&base=/x&layout=kazoo&foreign=wait\
                   &election=selector&acl=creator";
        let config = config(url).unwrap();
        assert_eq!(config.servers.iter().map(ToString::to_string).collect::<Vec<_>>(), ["h1:1", "[::1]:2"]);
        assert_eq!((config.chroot.as_str(), config.base.as_str()), ("/a/b", "/x"));
        assert_eq!(config.digest.as_deref(), Some("ann:s:cret"));
        assert_eq!((config.session_timeout, config.tick), (Duration::from_secs(6), Some(Duration::from_millis(500))));
        let naming = NodeNaming { layout: Layout::Kazoo, election: ElectionLayout::Selector };
        assert_eq!((config.naming, config.foreign), (naming, ForeignPolicy::Wait));
        assert_eq!(config.acl, [Acl::creator()]);
        assert!(!format!("{config:?}").contains("cret"));
    }

    #[test]
    fn an_election_is_laid_out_as_the_locks_are_unless_it_is_said() {
        let election = |url| config(url).unwrap().naming.election;
        assert_eq!(election("zk://h1"), ElectionLayout::Latch);
        assert_eq!(election("zk://h1?layout=kazoo"), ElectionLayout::Kazoo);
        assert_eq!(election("zk://h1?layout=kazoo&election=latch"), ElectionLayout::Latch);
    }

    #[cfg(feature = "tls")]
    #[test]
    fn tls_has_its_own_settings() {
        let config = config("zk+tls://h1,h2:2281/app?tick=2s&ca=x&server_name=h").unwrap();
        assert!(config.tls.is_some() && config.tick == Some(Duration::from_secs(2)));
        assert!(self::config("zk+tls://h1?key=x").unwrap_err().to_string().contains("`cert`"));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (url, word) in [
            ("zk:/path", "server"),
            ("zk://%2Frun%2Fzk.sock", "reached by TCP alone"),
            ("zk://h1/../x", "chroot"),
            ("zk://h1/a//b", "chroot"),
            ("zk://h1?base=x", "from `/` on"),
            ("zk://h1?base=/a//b", "`base` is not usable"),
            ("zk://h1?acl=creator", "user"),
            ("zk://:1234@h1", "without a user"),
            ("zk://an%3An:1234@h1", "cannot have `:`"),
        ] {
            let error = config(url).expect_err(url);
            assert_eq!(error.kind(), ErrorKind::InvalidUrl, "{url}");
            assert!(format!("{error:#}").contains(word), "{url}: {error}");
        }
    }

    #[test]
    fn shares_of_the_time_follow_the_number_of_ways_and_leave_a_session_time_to_live() {
        let share = |url| config(url).unwrap().dial_share();
        let millis = Duration::from_millis;
        let usual = share("zk://h1");
        assert_eq!((usual.dial_max(1), usual.dial_max(4)), (millis(6_666), millis(1_666)));
        assert_eq!((usual.handshake_max(1), usual.handshake_max(4)), (Duration::from_secs(20) / 3, millis(2_500)));
        let hasty = share("zk://h1?connect_timeout=3s");
        assert_eq!((hasty.dial_max(3), hasty.handshake_max(3)), (millis(1_000), millis(1_000)));
        assert_eq!((hasty.dial_max(64), hasty.handshake_max(64)), (SHARE_MIN, SHARE_MIN));
    }
}
