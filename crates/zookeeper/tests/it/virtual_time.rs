//! The promises about time, under time that the test controls: the embedded server, connections without sockets.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockkeeper_core::clock::{Clock, TestClock};
use lockkeeper_core::{Advice, BoxFuture, LossReason, Wait};
use lockkeeper_recipes::{Keeper, LockKind, MutexGuard};
use lockkeeper_zk_proto::message::OpCode;
use lockkeeper_zk_server::EmbeddedServer;
use lockkeeper_zookeeper::{Config, Dial, Server, Stream, ZooKeeperBackend};

const TIMEOUT: Duration = Duration::from_secs(20);

type Asked = Arc<Mutex<BTreeMap<i32, u32>>>;

/// A server without sockets, the clock of all parts, and what clients asked for.
struct World {
    server: Arc<EmbeddedServer>,
    clock: Arc<TestClock>,
    asked: Asked,
}

#[derive(Debug)]
struct DuplexDial(Arc<EmbeddedServer>);

impl Dial for DuplexDial {
    fn dial(&self, _server: &Server) -> BoxFuture<io::Result<Box<dyn Stream>>> {
        let stream: Box<dyn Stream> = Box::new(self.0.connect_duplex());
        Box::pin(std::future::ready(Ok(stream)))
    }
}

impl World {
    async fn new() -> Self {
        let asked = Asked::default();
        let counted = asked.clone();
        let hook = move |seen: &lockkeeper_zk_server::SeenRequest<'_>| {
            *counted.lock().unwrap().entry(seen.request.opcode().code()).or_default() += 1;
        };
        let server = EmbeddedServer::builder().without_listener().on_request(hook).start().await.unwrap();
        Self { server: Arc::new(server), clock: Arc::new(TestClock::new()), asked }
    }

    fn keeper(&self, settings: &str) -> Keeper {
        self.keeper_over(settings, Arc::new(DuplexDial(self.server.clone())))
    }

    fn keeper_over(&self, settings: &str, dial: Arc<dyn Dial>) -> Keeper {
        let config = Config::from_url(&format!("zk://embedded{settings}").parse().unwrap()).unwrap();
        let backend = ZooKeeperBackend::with(config, dial, self.clock.clone());
        Keeper::builder(Arc::new(backend)).clock(self.clock.clone()).build()
    }

    /// How often an operation was asked for since the last look at it.
    fn asked(&self, operation: OpCode) -> u32 {
        self.asked.lock().unwrap().remove(&operation.code()).unwrap_or(0)
    }

    async fn pass(&self, span: Duration) {
        tokio::time::sleep(span).await;
    }
}

fn safe_for(guard: &MutexGuard) -> Duration {
    guard.hold().safe_for().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_session_that_nothing_depends_on_costs_no_write_and_grants_at_once_after_an_hour() {
    let world = World::new().await;
    let keeper = world.keeper("");
    let mutex = keeper.mutex("reports").unwrap();
    mutex.lock().await.unwrap().release().await.unwrap();
    let sessions = world.server.session_ids().await;
    world.pass(Duration::from_secs(1)).await;
    world.asked(OpCode::Multi);
    world.pass(Duration::from_secs(3_600)).await;
    assert_eq!(world.asked(OpCode::Multi), 0);
    let before = world.clock.now();
    let guard = mutex.lock().await.unwrap();
    assert_eq!(world.clock.now(), before, "no virtual time passes on the way to the grant");
    assert!(safe_for(&guard) >= TIMEOUT / 2, "{:?}", safe_for(&guard));
    assert_eq!(world.server.session_ids().await, sessions);
}

#[tokio::test(start_paused = true)]
async fn a_frozen_lock_costs_the_session_that_froze_it_no_proof() {
    let world = World::new().await;
    let keeper = world.keeper("");
    keeper
        .admin()
        .freeze("door", LockKind::Mutex, "moving house", Wait::Forever)
        .await
        .unwrap()
        .expect("no other client wants it");
    world.pass(TIMEOUT).await;
    let _ = world.asked(OpCode::Multi);
    world.pass(Duration::from_secs(3600)).await;
    assert_eq!(world.asked(OpCode::Multi), 0);
    assert_eq!(keeper.contenders("door").await.unwrap()[0].frozen.as_deref(), Some("moving house"));
    assert_eq!(keeper.admin().thaw("door").await.unwrap().len(), 1);
    assert!(keeper.mutex("door").unwrap().try_lock().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_holder_is_believed_for_hours_and_proves_itself_once_in_three_seconds() {
    let world = World::new().await;
    let keeper = world.keeper("");
    let guards = [
        keeper.mutex("reports").unwrap().lock().await.unwrap(),
        keeper.mutex("backups").unwrap().lock().await.unwrap(),
    ];
    world.asked(OpCode::Multi);
    let minutes = 120;
    let mut least = Duration::MAX;
    for _ in 0..minutes * 60 {
        world.pass(Duration::from_secs(1)).await;
        least = least.min(safe_for(&guards[0])).min(safe_for(&guards[1]));
    }
    assert!(guards.iter().all(|guard| guard.hold().is_held()));
    // T - T/50 - 0.1 s - (T/4 + 0.1 s) - T/10 for the last ping - 3 s for the next proof.
    assert!(least >= Duration::from_millis(9_300), "{least:?}");
    let proofs = world.asked(OpCode::Multi);
    assert!((minutes * 19..=minutes * 24).contains(&proofs), "{proofs} in {minutes} minutes");
}

#[tokio::test(start_paused = true)]
async fn a_waiter_proves_itself_less_often_and_can_be_granted_at_any_moment() {
    let world = World::new().await;
    let (ann, bob) = (world.keeper("?tick=2s"), world.keeper("?tick=2s"));
    let held = ann.mutex("reports").unwrap().lock().await.unwrap();
    world.pass(Duration::from_secs(1)).await;
    world.asked(OpCode::Multi);
    world.pass(Duration::from_secs(600)).await;
    let by_holder = world.asked(OpCode::Multi);
    let mutex = bob.mutex("reports").unwrap();
    let waiting = tokio::spawn(async move { mutex.lock().await });
    world.pass(Duration::from_secs(600)).await;
    let by_waiter = world.asked(OpCode::Multi) - by_holder;
    assert!((110..=135).contains(&by_waiter), "{by_waiter} in 600 s, {by_holder} by the holder");
    let before = world.clock.now();
    held.release().await.unwrap();
    let guard = waiting.await.unwrap().unwrap();
    assert_eq!(world.clock.now(), before, "no virtual time passes on the way to the grant");
    assert!(safe_for(&guard) >= TIMEOUT / 2, "{:?}", safe_for(&guard));
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_hears_nothing_lapses_before_the_service_ends_its_session() {
    let world = World::new().await;
    let ann = world.keeper("");
    let guard = ann.mutex("reports").unwrap().lock().await.unwrap();
    world.pass(Duration::from_secs(60)).await;
    let safe = safe_for(&guard);
    let cut_at = world.clock.now();
    world.server.blackhole(true);
    assert_eq!(guard.hold().lost().await, LossReason::Lapsed);
    assert_eq!(world.clock.now().saturating_duration_since(cut_at), safe, "not later than it said before");
    assert_eq!(world.server.session_ids().await.len(), 1, "the service still believes in it");
    world.pass(TIMEOUT + Duration::from_secs(4)).await;
    assert_eq!(world.server.session_ids().await.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_lock_asked_for_after_a_stall_waits_until_it_may_be_believed() {
    let world = World::new().await;
    let ann = world.keeper("");
    let mutex = ann.mutex("reports").unwrap();
    mutex.lock().await.unwrap().release().await.unwrap();
    world.pass(Duration::from_secs(600)).await;
    // Six seconds without an answer: shorter than what makes the client give the connection up.
    world.server.pause();
    world.pass(Duration::from_secs(6)).await;
    world.server.resume();
    let guard = mutex.lock().await.unwrap();
    assert!(safe_for(&guard) >= TIMEOUT / 2, "{:?}", safe_for(&guard));
}

#[tokio::test(start_paused = true)]
async fn a_session_dropped_while_no_server_answers_leaves_no_task_behind() {
    let world = World::new().await;
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let without_clients = tasks();
    let ann = world.keeper("");
    drop(ann.mutex("reports").unwrap().lock().await.unwrap());
    assert!(tasks() > without_clients);
    world.server.blackhole(true);
    drop(ann);
    world.pass(TIMEOUT + Duration::from_secs(30)).await;
    // The server learns only now that the connection is closed.
    world.server.blackhole(false);
    world.pass(Duration::from_secs(1)).await;
    assert_eq!(tasks(), without_clients);
}

#[tokio::test(start_paused = true)]
async fn a_request_takes_no_longer_than_the_operation_timeout_and_without_one_as_long_as_the_session() {
    let took = async |settings: &str| {
        let world = World::new().await;
        let keeper = world.keeper(settings);
        // There is a session, which a look uses too.
        drop(keeper.mutex("door").unwrap().lock().await.unwrap());
        assert_eq!(keeper.contenders("door").await.unwrap().len(), 0);
        world.server.blackhole(true);
        let begun = world.clock.now();
        let error = keeper.contenders("door").await.unwrap_err();
        assert_eq!(error.advice(), Advice::Transient, "{error}");
        world.clock.now().saturating_duration_since(begun)
    };
    assert_eq!(took("?operation_timeout=1500ms").await, Duration::from_millis(1_500));
    // The connection is given up before that, and the look is tried on the next one.
    assert!(took("").await >= TIMEOUT);
}

/// The runtime stands still: time goes by, and nothing runs.
async fn stall(span: Duration) {
    tokio::time::advance(span).await;
}

#[tokio::test(start_paused = true)]
async fn after_the_runtime_stood_still_a_free_lock_is_granted_at_once_under_the_same_session() {
    let world = World::new().await;
    let ann = world.keeper("");
    let mutex = ann.mutex("reports").unwrap();
    mutex.lock().await.unwrap().release().await.unwrap();
    world.pass(Duration::from_secs(600)).await;
    let sessions = world.server.session_ids().await;
    for stalled in [8, 12, 16] {
        stall(Duration::from_secs(stalled)).await;
        let before = world.clock.now();
        let guard = mutex.lock_timeout(Duration::from_secs(3)).await.unwrap().expect("it is free");
        let took = world.clock.now().saturating_duration_since(before);
        assert!(took <= Duration::from_secs(1), "{took:?} after {stalled} s");
        assert!(safe_for(&guard) >= TIMEOUT / 2, "{:?} after {stalled} s", safe_for(&guard));
        guard.release().await.unwrap();
        world.pass(Duration::from_secs(60)).await;
    }
    assert_eq!(world.server.session_ids().await, sessions);
}

/// Opens its first connection at once, and takes a while for each later one; its names take longer each time.
#[derive(Debug)]
struct SlowAgainDial {
    server: Arc<EmbeddedServer>,
    is_first: AtomicBool,
}

impl Dial for SlowAgainDial {
    fn resolve(&self, server: &Server) -> BoxFuture<io::Result<Vec<Server>>> {
        let server = server.clone();
        Box::pin(async move {
            tokio::time::sleep(Duration::from_secs(2)).await;
            Ok(vec![server])
        })
    }

    fn dial(&self, _server: &Server) -> BoxFuture<io::Result<Box<dyn Stream>>> {
        let stream: Box<dyn Stream> = Box::new(self.server.connect_duplex());
        let is_first = self.is_first.swap(false, Ordering::SeqCst);
        Box::pin(async move {
            if !is_first {
                tokio::time::sleep(Duration::from_millis(300)).await;
            }
            Ok(stream)
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_is_renewed_waits_for_no_name() {
    let world = World::new().await;
    let dial = SlowAgainDial { server: world.server.clone(), is_first: AtomicBool::new(true) };
    let keeper = world.keeper_over("", Arc::new(dial));
    let mutex = keeper.mutex("reports").unwrap();
    mutex.lock().await.unwrap().release().await.unwrap();
    world.pass(Duration::from_secs(600)).await;
    stall(Duration::from_secs(12)).await;
    let before = world.clock.now();
    mutex.lock().await.unwrap().release().await.unwrap();
    let took = world.clock.now().saturating_duration_since(before);
    assert_eq!(took, Duration::from_millis(300), "one connection to the same server");
}

#[tokio::test(start_paused = true)]
async fn after_the_runtime_stood_still_waiters_keep_their_places_and_no_request_fails() {
    let world = World::new().await;
    let (ann, bob) = (world.keeper("?tick=2s"), world.keeper("?tick=2s"));
    let held = ann.mutex("reports").unwrap().lock().await.unwrap();
    let waiting = tokio::spawn({
        let mutex = bob.mutex("reports").unwrap();
        async move { mutex.lock().await }
    });
    world.pass(Duration::from_secs(600)).await;
    let queue = async || {
        let contenders = ann.contenders("reports").await.unwrap();
        contenders.into_iter().map(|contender| contender.id).collect::<Vec<_>>()
    };
    let before = queue().await;
    stall(Duration::from_secs(12)).await;
    let others = (0..50).map(|number| {
        let counter = bob.shared_counter(&format!("count-{number}")).unwrap();
        let mutex = bob.mutex(&format!("other-{number}")).unwrap();
        tokio::spawn(async move {
            // A write whose answer was lost would fail.
            counter.set(number).await.unwrap();
            mutex.lock().await.unwrap().release().await.unwrap();
        })
    });
    for other in others.collect::<Vec<_>>() {
        other.await.unwrap();
    }
    assert!(!waiting.is_finished());
    assert_eq!(before.len(), 2);
    assert_eq!(queue().await, before);
    held.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
}

/// No connection is made while the service is away.
#[derive(Debug)]
struct AwayDial {
    server: Arc<EmbeddedServer>,
    is_away: Arc<AtomicBool>,
}

impl Dial for AwayDial {
    fn dial(&self, _server: &Server) -> BoxFuture<io::Result<Box<dyn Stream>>> {
        let dialled: io::Result<Box<dyn Stream>> = match self.is_away.load(Ordering::SeqCst) {
            true => Err(io::ErrorKind::ConnectionRefused.into()),
            false => Ok(Box::new(self.server.connect_duplex())),
        };
        Box::pin(std::future::ready(dialled))
    }
}

#[tokio::test(start_paused = true)]
async fn a_lapsed_session_is_closed_when_the_service_is_back_from_an_outage_of_many_timeouts() {
    let world = World::new().await;
    let is_away = Arc::new(AtomicBool::new(false));
    let keeper = world.keeper_over("", Arc::new(AwayDial { server: world.server.clone(), is_away: is_away.clone() }));
    let guard = keeper.mutex("reports").unwrap().lock().await.unwrap();
    let sessions = world.server.session_ids().await;
    is_away.store(true, Ordering::SeqCst);
    // The service comes back with the sessions that it had, and each has its whole timeout again.
    for _ in 0..10 {
        world.server.restart().await;
        world.pass(TIMEOUT / 2).await;
    }
    assert_eq!(guard.hold().lost().await, LossReason::Lapsed);
    let before = world.clock.now();
    assert!(guard.release().await.is_err(), "the release of what is lost");
    assert!(world.clock.now().saturating_duration_since(before) <= TIMEOUT, "it waited for the service");
    assert_eq!(world.server.session_ids().await, sessions);
    world.server.restart().await;
    is_away.store(false, Ordering::SeqCst);
    world.pass(Duration::from_secs(2)).await;
    assert_eq!(world.server.session_ids().await, Vec::<i64>::new());
}
