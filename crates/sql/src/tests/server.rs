//! Real servers of each kind, and what an operator does there.

use std::sync::Arc;
use std::thread;

use lockkeeper_conformance::SOON;
use lockkeeper_core::clock::{BootInstant, Clock, SystemClock};
use lockkeeper_faults::authority::CertificateFiles;
use lockkeeper_faults::sql::Setup;
use lockkeeper_faults::{Availability, Result, mariadb, postgres};
use lockkeeper_session::Failure;

use super::client::Client;
pub(super) use super::database::Server;
use super::database::either;
pub(super) use super::operator::Kind;
use crate::engine::{Connected, Intent};
use crate::site::SqlSite;
use crate::url::Config;

/// The settings of most URLs: long enough for any answer of a busy machine.
pub(super) const SETTINGS: &str = "session_timeout=30s&connect_timeout=60s";

/// How often a planted fault is tried at most until it is seen: on a busy machine one may come too late to do harm.
const TRIES_MAX: u32 = 10;

/// How long a function takes that was made slow, in seconds.
const SLOW_S: &str = "1";

#[derive(Clone, Debug)]
pub(super) enum Need {
    /// Our schema is not there, and transactions are as the server has them by default.
    Nothing,
    Durability,
    Clock,
    /// A log that a standby follows, and durability.
    Standby,
    /// A password of each user's own, which all must know.
    Password,
    /// TLS alone, with these files, and certificates of the clients.
    Certificates(CertificateFiles),
    Room(u64),
    Settings([&'static [(&'static str, &'static str)]; 2]),
}

/// Whether the test that asks may go on; if not, it is skipped by the name that the harness gave to its thread.
pub(super) fn can_run(availability: Availability) -> bool {
    availability.or_skip(thread::current().name().expect("the harness names the thread of a test"))
}

/// A server of each kind for a test; the others are skipped.
pub(super) async fn each() -> impl Iterator<Item = Server> {
    each_with(Need::Nothing).await
}

/// The same with what each needs. A test is skipped once, though all kinds were missing.
pub(super) async fn each_with(need: Need) -> impl Iterator<Item = Server> {
    let (mut servers, mut missing) = (Vec::new(), None);
    for kind in [Kind::Postgres, Kind::Mariadb] {
        match kind.can(&need) {
            Availability::Present => servers.push(kind.start(need.clone()).await),
            availability @ Availability::Missing(_) => missing = Some(availability),
        }
    }
    missing.map(can_run);
    servers.into_iter().inspect(|server| println!("on {:?}", server.kind()))
}

/// A server for a test of one kind; `None` if there is none here.
pub(super) async fn server(kind: Kind) -> Option<Server> {
    server_with(kind, Need::Nothing).await
}

/// The same with what it needs.
pub(super) async fn server_with(kind: Kind, need: Need) -> Option<Server> {
    if can_run(kind.can(&need)) { Some(kind.start(need).await) } else { None }
}

/// Whether a planted fault shows itself in one of several tries.
pub(super) async fn is_seen(is_it: impl AsyncFn() -> bool) -> bool {
    for _ in 0..TRIES_MAX {
        if is_it().await {
            return true;
        }
    }
    false
}

pub(super) fn deadline() -> BootInstant {
    SystemClock.now().saturating_add(SOON)
}

pub(super) fn site(url: &str) -> SqlSite {
    let config = Config::from_url(&url.parse().expect("a URL")).expect("a good URL");
    SqlSite::new(config, Arc::new(SystemClock)).expect("it is compiled in")
}

pub(super) async fn connect(url: &str) -> std::result::Result<Connected, Failure> {
    let SqlSite { engine, config, .. } = site(url);
    engine.connect(&config.servers[0], deadline(), Intent::Serve).await
}

impl Kind {
    fn can(self, need: &Need) -> Availability {
        let there = self.availability();
        match need {
            Need::Clock => there.and(postgres::clock_availability),
            Need::Room(_) => there.and(postgres::disk_availability),
            _ => there,
        }
    }

    pub(super) async fn start(self, need: Need) -> Server {
        match self {
            Self::Postgres => {
                let setup = prepared(postgres::Setup::new(), &need, 0);
                let setup = match need {
                    Need::Clock => setup.setting("max_prepared_transactions", "1"),
                    _ => setup,
                };
                Server::Postgres(setup.start().await.expect("a server"))
            }
            Self::Mariadb => {
                let setup = prepared(mariadb::Setup::new(), &need, 1);
                let setup = match need {
                    Need::Standby => setup.replicated(),
                    _ => setup,
                };
                Server::Mariadb(setup.start().await.expect("a server"))
            }
        }
    }
}

/// Prepares what a server needs of either kind, which has this place in [`Need::Settings`].
fn prepared<Own>(setup: Setup<Own>, need: &Need, at: usize) -> Setup<Own> {
    match need {
        Need::Nothing => setup,
        Need::Durability | Need::Standby => setup.durable(),
        Need::Clock => setup.durable().movable_clock(),
        Need::Password => setup.password("root's"),
        Need::Certificates(certificates) => setup.tls(certificates.clone()),
        Need::Room(bytes) => setup.room_bytes(*bytes),
        Need::Settings(settings) => {
            settings[at].iter().fold(setup.durable(), |setup, (name, value)| setup.setting(name, value))
        }
    }
}

impl Server {
    pub(crate) async fn restart(&mut self) -> Result<()> {
        either!(self, server => server.restart().await)
    }

    pub(super) const fn kind(&self) -> Kind {
        match self {
            Self::Postgres(_) => Kind::Postgres,
            Self::Mariadb(_) => Kind::Mariadb,
        }
    }

    pub(super) fn postgres(&self) -> &postgres::Server {
        match self {
            Self::Postgres(server) => server,
            Self::Mariadb(_) => panic!("it is MariaDB"),
        }
    }

    pub(super) fn url(&self) -> String {
        let url = match self {
            Self::Postgres(server) => server.url("postgres"),
            Self::Mariadb(server) => server.url(""),
        };
        format!("{url}?{SETTINGS}")
    }

    pub(super) fn url_as(&self, user: &str, password: Option<&str>) -> String {
        let url = match self {
            Self::Postgres(server) => server.url_as(user, password, "postgres"),
            Self::Mariadb(server) => server.url_as(user, password, ""),
        };
        format!("{url}?{SETTINGS}")
    }

    /// The way of an ordinary user, which is made for it.
    pub(super) async fn url_of_user(&self, user: &str) -> String {
        either!(self, server => server.create_user(user, "secret").await).expect("a user");
        self.url_as(user, Some("secret"))
    }

    /// Connects, and opens a session with this number.
    pub(super) async fn open(&self, session: u128) -> Client {
        Client::open(&self.url(), session).await
    }

    pub(super) async fn connect(&self, session: u128) -> Client {
        Client::connect(&self.url(), session).await
    }

    pub(super) async fn value(&self, sql: &str) -> Result<String> {
        either!(self, server => server.value(sql).await)
    }

    pub(super) async fn wipe(&self) {
        self.ask(self.either("DROP SCHEMA lockkeeper CASCADE", "DROP DATABASE lockkeeper")).await.expect("it is gone");
    }

    pub(super) async fn crash(&mut self) {
        self.kill();
        self.start_again().await;
    }

    pub(super) async fn end_connections(&self) {
        let clients = self.either(
            "SELECT pid FROM pg_stat_activity WHERE application_name = 'lockkeeper'",
            "SELECT id FROM information_schema.processlist WHERE host LIKE '127.0.0.1:%'",
        );
        self.end(clients, ["SELECT pg_terminate_backend", "KILL "]).await;
    }

    pub(super) fn fill_disk(&self) {
        either!(self, server => server.fill_disk()).expect("filled");
    }

    pub(super) fn free_disk(&self) {
        either!(self, server => server.free_disk()).expect("freed");
    }

    /// What sends a statement's function to sleep for so many seconds, before the text that follows there.
    pub(super) fn sleeping(&self, seconds: &str, before: &str) -> String {
        let sleep = self.either(format!("PERFORM pg_sleep({seconds})"), format!("DO SLEEP({seconds})"));
        format!("{sleep};\n{before}")
    }

    /// The same for long enough that others come in between.
    pub(super) fn slow(&self, before: &str) -> String {
        self.sleeping(SLOW_S, before)
    }

    /// Changes the text of the functions. What is to be changed must be there.
    pub(super) async fn plant(&self, changes: &[(&str, &str)]) {
        let mut text = site(&self.url()).set_up_text();
        for (is, becomes) in changes {
            assert!(text.contains(is), "there is no `{is}` to be changed");
            text = text.replace(is, becomes);
        }
        self.send(&text).await;
    }

    /// Sends a text that makes a schema, as a database's own client does.
    pub(super) async fn send(&self, text: &str) {
        match self {
            Self::Postgres(server) => drop(server.ask(text).await.expect("functions")),
            Self::Mariadb(server) => {
                let (_, statements) = text.split_once("DELIMITER //\n").expect("its own client reads that");
                let (statements, _) = statements.split_once("DELIMITER ;\n").expect("and that");
                for statement in statements.split_terminator("\n//\n") {
                    server.ask(statement).await.expect("a procedure");
                }
            }
        }
    }
}
