//! The fixture of the conformance suite: a real server for each case, and a proxy for each client.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock, PoisonError};
use std::time::Duration;

use lockkeeper_conformance as suite;
use lockkeeper_conformance::{Fault, FaultKind, Fixture, Sessions, soon};
use lockkeeper_core::clock::SystemClock;
use lockkeeper_core::{Backend, BoxFuture, ContenderId, Error, ErrorKind, Operation, Result, Session};
use lockkeeper_faults::proxy::{Direction, Flow, Proxy};
use lockkeeper_faults::redis::Server;
use lockkeeper_redis::{Config, RedisBackend, Testing};
use redis::FromRedisValue;
use tokio::sync::OwnedMutexGuard;

/// The session timeout of all clients of a case that waits for the end of a session …
const BRIEF: Duration = Duration::from_secs(4);

/// … and of others: longer than a busy machine keeps any of them waiting.
const LASTING: Duration = Duration::from_secs(30);

/// How much later than its time a session may end: a sixth of the timeout until the next renewal of another one, and a
/// second for a busy machine.
const SESSION_LATE_MAX: Duration = Duration::from_millis(1_700);

/// One case's server.
#[derive(Clone, Debug)]
pub(crate) struct RedisFixture {
    server: Arc<tokio::sync::Mutex<Server>>,
    address: SocketAddr,
    /// Whether it keeps a log of its writes.
    has_log: bool,
    /// Whether its holders have plain locks too.
    is_setnx: bool,
    /// The session timeout of its clients, once it is known.
    session_timeout: Arc<OnceLock<Duration>>,
    clients: Arc<std::sync::Mutex<Vec<Way>>>,
    /// One harm at a time, where others are held back meanwhile.
    turn: Arc<tokio::sync::Mutex<()>>,
    /// A session that lives on when a case has ended: what a client leaves that died, the living remove.
    survivor: Arc<tokio::sync::OnceCell<(RedisBackend, Arc<dyn Session>)>>,
}

/// How one client reaches the service, and what it lets tests know.
#[derive(Clone, Debug)]
struct Way {
    proxy: Arc<Proxy>,
    testing: Testing,
}

pub(crate) fn failed(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::permanent(ErrorKind::Backend, Operation::Configure, "the fixture failed").caused_by(error)
}

impl RedisFixture {
    pub(crate) fn new(server: Server, has_log: bool, is_setnx: bool) -> Self {
        let address = server.address();
        Self {
            server: Arc::new(tokio::sync::Mutex::new(server)),
            address,
            has_log,
            is_setnx,
            session_timeout: Arc::default(),
            clients: Arc::default(),
            turn: Arc::default(),
            survivor: Arc::default(),
        }
    }

    fn timeout(&self) -> Duration {
        *self.session_timeout.get_or_init(|| BRIEF)
    }

    /// What its keys begin with.
    const fn base(&self) -> &'static str {
        if self.is_setnx { "{lockkeeper}:setnx" } else { "{lockkeeper}" }
    }

    const fn setting(&self) -> &'static str {
        if self.is_setnx { "&layout=setnx" } else { "" }
    }

    fn ways(&self) -> Vec<Way> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn others_than(&self, way: &Way) -> Vec<Way> {
        self.ways().into_iter().filter(|other| !Arc::ptr_eq(&other.proxy, &way.proxy)).collect()
    }

    /// Does something to the server, whose harness stays on one thread.
    fn on_server<T: Send + 'static, Done: Future<Output = lockkeeper_faults::Result<T>>>(
        &self,
        act: impl FnOnce(OwnedMutexGuard<Server>) -> Done + Send + 'static,
    ) -> BoxFuture<Result<T>> {
        let (server, runtime) = (self.server.clone(), tokio::runtime::Handle::current());
        let acting =
            tokio::task::spawn_blocking(move || runtime.block_on(async { act(server.lock_owned().await).await }));
        Box::pin(async move { acting.await.expect("no panic").map_err(failed) })
    }

    /// Does what an operator does, past all clients.
    async fn operate<T: FromRedisValue + Send + 'static>(&self, words: &[&str]) -> Result<T> {
        let words: Vec<_> = words.iter().map(|&word| word.to_owned()).collect();
        self.on_server(async move |server| {
            let words: Vec<_> = words.iter().map(String::as_str).collect();
            server.ask(&words).await
        })
        .await
    }
}

impl Fixture for RedisFixture {
    fn prepare(&self, sessions: Sessions) {
        let timeout = match sessions {
            Sessions::Brief => BRIEF,
            Sessions::Lasting => LASTING,
        };
        self.session_timeout.set(timeout).expect("no client was opened before");
    }

    fn client(&self) -> BoxFuture<Result<Arc<dyn suite::Client>>> {
        let fixture = self.clone();
        Box::pin(async move {
            let proxy = Arc::new(Proxy::of_bytes(fixture.address).await.map_err(failed)?);
            let (seconds, layout) = (fixture.timeout().as_secs(), fixture.setting());
            let url = format!("redis://{}?session_timeout={seconds}s{layout}", proxy.address());
            let backend = Arc::new(RedisBackend::with(Config::from_url(&url.parse()?)?, Arc::new(SystemClock)));
            let way = Way { proxy, testing: backend.testing() };
            fixture.clients.lock().unwrap_or_else(PoisonError::into_inner).push(way.clone());
            Ok(Arc::new(RedisClient { fixture, way, backend }) as Arc<dyn suite::Client>)
        })
    }

    fn can_inflict(&self, _kind: FaultKind) -> bool {
        true
    }

    fn session_timeout(&self) -> Option<Duration> {
        Some(self.timeout() + SESSION_LATE_MAX)
    }

    /// The contenders and values, by the server's own account.
    fn leftovers(&self) -> BoxFuture<Result<Vec<String>>> {
        let fixture = self.clone();
        Box::pin(async move {
            let survivor = async || {
                let url = format!("redis://{}?session_timeout=2s{}", fixture.address, fixture.setting());
                let backend = RedisBackend::open(&url.parse()?)?;
                let session = backend.session().await?;
                Ok::<_, Error>((backend, session))
            };
            fixture.survivor.get_or_try_init(survivor).await?;
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
    way: Way,
    backend: Arc<RedisBackend>,
}

impl RedisClient {
    /// Has the service end the session. A session that runs out at its timeout is known to its owner before the service
    /// ends it; here the owner is told first, and then the others.
    async fn expire(self) -> Result<()> {
        let _turn = self.fixture.turn.lock().await;
        let base = self.fixture.base();
        let session = self.way.testing.session();
        let losses = self.way.testing.losses();
        let others = self.fixture.others_than(&self.way);
        others.iter().for_each(|way| way.proxy.set_flow(Direction::ToClient, Flow::Hold));
        let ended: u64 = self.fixture.operate(&["ZADD", &format!("{base}:ss"), "XX", "CH", "0", &session]).await?;
        if ended == 1 {
            let _: u64 = self.fixture.operate(&["DEL", &format!("{base}:a:{session}")]).await?;
            // A client that stands still is told later.
            let is_told = || self.way.testing.losses() > losses;
            let _ = tokio::time::timeout(self.fixture.timeout(), until(is_told)).await;
        }
        others.iter().for_each(|way| way.proxy.set_flow(Direction::ToClient, Flow::Pass));
        Ok(())
    }

    /// Deletes a contender's record. Its owner and those behind it are told in no certain order; here the owner is told
    /// first, unless its runtime stands still.
    async fn remove(self, contender: ContenderId, stands_still: bool) -> Result<()> {
        let _turn = self.fixture.turn.lock().await;
        let base = self.fixture.base();
        let fields: Vec<_> = contender.as_str().split(':').collect();
        let (ticket, session) = (fields[2], fields[3]);
        let owner = self.fixture.ways().into_iter().find(|way| way.testing.session() == session);
        let owner = owner.expect("one of the clients owns it");
        let others = self.fixture.others_than(&owner);
        others.iter().for_each(|way| way.proxy.set_flow(Direction::ToClient, Flow::Hold));
        let removals = owner.testing.removals();
        let deleted: u64 = self.fixture.operate(&["DEL", &format!("{base}:c:{ticket}")]).await?;
        assert_eq!(deleted, 1, "{contender} is there");
        // A client whose runtime stands still is told later.
        if !stands_still {
            soon("the owner's word that its record is gone", until(|| owner.testing.removals() > removals)).await;
        }
        others.iter().for_each(|way| way.proxy.set_flow(Direction::ToClient, Flow::Pass));
        Ok(())
    }
}

/// Waits until something is seen.
async fn until(mut is_seen: impl FnMut() -> bool) {
    while !is_seen() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

impl suite::Client for RedisClient {
    fn backend(&self) -> Arc<dyn Backend> {
        self.backend.clone()
    }

    fn inflict(&self, fault: Fault) -> BoxFuture<Result<()>> {
        match fault {
            Fault::ExpireSession => return Box::pin(self.clone().expire()),
            Fault::Cut => self.way.proxy.blackhole(),
            // Whether anything was lost or not, what comes next goes over another connection.
            Fault::Heal => {
                self.way.proxy.heal();
                self.way.proxy.reset();
            }
            Fault::Pause => return self.fixture.on_server(async |mut server| server.pause()),
            Fault::Resume => return self.fixture.on_server(async |mut server| server.resume()),
            Fault::LoseReply(operation) => self.way.testing.lose_reply(operation),
            Fault::RemoveContender { contender, stands_still, .. } => {
                return Box::pin(self.clone().remove(contender, stands_still));
            }
            Fault::Wipe => return self.fixture.on_server(async |mut server| server.wipe().await),
            Fault::Restart => {
                let has_log = self.fixture.has_log;
                return self.fixture.on_server(async move |mut server| {
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
