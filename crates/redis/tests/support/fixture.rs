//! The fixture of the conformance suite: a real server for each case, and a proxy for each client; and the run of the
//! suite.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ::redis::FromRedisValue;
use lockkeeper_conformance as suite;
use lockkeeper_conformance::{Arguments, Fault, FaultKind, Fixture, HANDOFFS, Sessions, soon};
use lockkeeper_core::clock::SystemClock;
use lockkeeper_core::{Backend, BoxFuture, ContenderId, Result};
use lockkeeper_faults::redis::{Flush, Release, Server, Setup};
use lockkeeper_faults::{long, redis};
use lockkeeper_redis::{ClientTesting, Config, RedisBackend};
use lockkeeper_trials::fixture::{CASES_AT_ONCE, Clients, Survivor, Way, failed, on_one_thread, until_seen};

/// How much later than its time a session may end: a sixth of the timeout until the next renewal of another one, and a
/// second for a busy machine.
const SESSION_LATE_MAX: Duration = Duration::from_millis(1_700);

#[derive(Clone, Debug)]
pub(crate) struct RedisFixture {
    server: Arc<tokio::sync::Mutex<Server>>,
    address: SocketAddr,
    /// Whether it keeps a log of its writes.
    has_log: bool,
    is_setnx: bool,
    clients: Clients<ClientTesting>,
    survivor: Survivor<RedisBackend>,
}

impl RedisFixture {
    pub(crate) fn new(server: Server, has_log: bool, is_setnx: bool) -> Self {
        let address = server.address();
        Self {
            server: Arc::new(tokio::sync::Mutex::new(server)),
            address,
            has_log,
            is_setnx,
            clients: Clients::default(),
            survivor: Survivor::default(),
        }
    }

    const fn base(&self) -> &'static str {
        if self.is_setnx { "{lockkeeper}:setnx" } else { "{lockkeeper}" }
    }

    const fn setting(&self) -> &'static str {
        if self.is_setnx { "&layout=setnx" } else { "" }
    }

    /// Does what an operator does, past all clients.
    async fn operate<T: FromRedisValue + Send + 'static>(&self, words: &[&str]) -> Result<T> {
        let words: Vec<_> = words.iter().map(|&word| word.to_owned()).collect();
        on_one_thread(&self.server, async move |server| {
            let words: Vec<_> = words.iter().map(String::as_str).collect();
            server.ask(&words).await
        })
        .await
    }
}

impl Fixture for RedisFixture {
    fn prepare(&self, sessions: Sessions) {
        self.clients.prepare(sessions);
    }

    fn client(&self) -> BoxFuture<Result<Arc<dyn suite::Client>>> {
        let fixture = self.clone();
        Box::pin(async move {
            let open = |servers: &[SocketAddr]| {
                let (seconds, layout) = (fixture.clients.session_timeout().as_secs(), fixture.setting());
                let url = format!("redis://{}?session_timeout={seconds}s{layout}", servers[0]);
                let backend = Arc::new(RedisBackend::with(Config::from_url(&url.parse()?)?, Arc::new(SystemClock)));
                let testing = backend.testing();
                Ok((backend, testing))
            };
            let (backend, way) = fixture.clients.add(&[fixture.address], open).await?;
            Ok(Arc::new(RedisClient { fixture, way, backend }) as Arc<dyn suite::Client>)
        })
    }

    fn can_inflict(&self, _kind: FaultKind) -> bool {
        true
    }

    fn session_timeout(&self) -> Option<Duration> {
        Some(self.clients.session_timeout() + SESSION_LATE_MAX)
    }

    /// The contenders and values, by the server's own account.
    fn leftovers(&self) -> BoxFuture<Result<Vec<String>>> {
        let fixture = self.clone();
        Box::pin(async move {
            let survivor = || async {
                let url = format!("redis://{}?session_timeout=2s{}", fixture.address, fixture.setting());
                let backend = RedisBackend::open(&url.parse()?)?;
                let session = backend.session().await?;
                Ok((backend, session))
            };
            fixture.survivor.living(survivor).await?;
            let stored: Vec<String> = fixture.operate(&["KEYS", "*"]).await?;
            let is_left = |key: &String| match key.strip_prefix(fixture.base()) {
                Some(rest) => {
                    let is_value = rest.starts_with(":v:") && !rest.starts_with(":v:p:");
                    rest.starts_with(":q:") || rest.starts_with(":c:") || is_value || rest == ":n"
                }
                None => true,
            };
            Ok(stored.into_iter().filter(is_left).collect())
        })
    }
}

#[derive(Clone, Debug)]
struct RedisClient {
    fixture: RedisFixture,
    way: Way<ClientTesting>,
    backend: Arc<RedisBackend>,
}

impl RedisClient {
    /// Has the service end the session. A session that runs out at its timeout is known to its owner before the service
    /// ends it; here the owner is told first, and then the others.
    async fn expire(self) -> Result<()> {
        let (clients, testing, base) = (&self.fixture.clients, &self.way.testing, self.fixture.base());
        let ending = async {
            let (session, losses) = (testing.session(), testing.losses());
            let ended: u64 = self.fixture.operate(&["ZADD", &format!("{base}:ss"), "XX", "CH", "0", &session]).await?;
            if ended == 1 {
                let _: u64 = self.fixture.operate(&["DEL", &format!("{base}:a:{session}")]).await?;
                // A client that stands still is told later.
                let is_told = || testing.losses() > losses;
                let _ = tokio::time::timeout(clients.session_timeout(), until_seen(is_told)).await;
            }
            Ok(())
        };
        clients.before_others(&self.way, ending).await
    }

    /// Deletes a contender's record. Its owner and those behind it are told in no certain order; here the owner is told
    /// first, unless its runtime stands still.
    async fn remove(self, contender: ContenderId, stands_still: bool) -> Result<()> {
        let (clients, base) = (&self.fixture.clients, self.fixture.base());
        let fields: Vec<_> = contender.as_str().split(':').collect();
        let (ticket, session) = (fields[2], fields[3]);
        let owner = clients.ways().into_iter().find(|way| way.testing.session() == session);
        let owner = owner.expect("one of the clients owns it");
        let removing = async {
            let removals = owner.testing.removals();
            let deleted: u64 = self.fixture.operate(&["DEL", &format!("{base}:c:{ticket}")]).await?;
            assert_eq!(deleted, 1, "{contender} is there");
            // A client whose runtime stands still is told later.
            if !stands_still {
                let is_told = || owner.testing.removals() > removals;
                soon("the owner's word that its record is gone", until_seen(is_told)).await;
            }
            Ok(())
        };
        clients.before_others(&owner, removing).await
    }
}

impl suite::Client for RedisClient {
    fn backend(&self) -> Arc<dyn Backend> {
        self.backend.clone()
    }

    fn inflict(&self, fault: Fault) -> BoxFuture<Result<()>> {
        match fault {
            Fault::ExpireSession => return Box::pin(self.clone().expire()),
            Fault::Cut => self.way.cut(),
            Fault::Heal => self.way.heal(),
            Fault::Pause => return on_one_thread(&self.fixture.server, async |mut server| server.pause()),
            Fault::Resume => return on_one_thread(&self.fixture.server, async |mut server| server.resume()),
            Fault::LoseReply(operation) => self.way.testing.lose_reply(operation),
            Fault::RemoveContender { contender, stands_still, .. } => {
                return Box::pin(self.clone().remove(contender, stands_still));
            }
            Fault::Wipe => return on_one_thread(&self.fixture.server, async |mut server| server.wipe().await),
            Fault::Restart => {
                let has_log = self.fixture.has_log;
                return on_one_thread(&self.fixture.server, async move |mut server| {
                    // Without a log its data is what it was told to save.
                    if !has_log {
                        server.ask::<String>(&["SAVE"]).await?;
                    }
                    server.restart().await
                });
            }
        }
        Box::pin(std::future::ready(Ok(())))
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Suite {
    pub(crate) release: Release,
    /// The way in which servers flush the log of their writes (AOF), if they keep one.
    pub(crate) log: Option<Flush>,
    pub(crate) is_setnx: bool,
    /// What the names of the cases have in them that the plain run has, if it has not all.
    pub(crate) plain: Option<&'static str>,
}

impl Suite {
    /// Debian's servers, which keep nothing.
    pub(crate) const DEBIAN: Self = Self { release: Release::Debian, log: None, is_setnx: false, plain: None };

    /// Runs it, or skips the whole binary by its name.
    pub(crate) fn run(self, binary: &str) -> ExitCode {
        if !redis::availability_of(self.release).or_skip(binary) {
            return ExitCode::SUCCESS;
        }
        static SUITE: OnceLock<Suite> = OnceLock::new();
        SUITE.set(self).expect("set once");
        let mut arguments = Arguments::from_args();
        arguments.test_threads.get_or_insert(CASES_AT_ONCE);
        if !long::is_asked_for() {
            arguments.filter = arguments.filter.or_else(|| self.plain.map(str::to_owned));
        }
        let start = || -> BoxFuture<Result<Arc<dyn Fixture>>> {
            Box::pin(async {
                // The harness's futures stay on one thread.
                let runtime = tokio::runtime::Handle::current();
                let Self { release, log, is_setnx, .. } = *SUITE.get().expect("just set");
                let mut setup = Setup::new().release(release);
                if let Some(flush) = log {
                    setup = setup.append_only(flush);
                }
                let starting = tokio::task::spawn_blocking(move || runtime.block_on(setup.start()));
                let server = starting.await.expect("no panic").map_err(failed)?;
                Ok(Arc::new(RedisFixture::new(server, log.is_some(), is_setnx)) as Arc<dyn Fixture>)
            })
        };
        let handoffs = if self.is_setnx || !long::is_asked_for() { &HANDOFFS[..1] } else { &HANDOFFS };
        suite::run_under(&arguments, start, handoffs)
    }
}
