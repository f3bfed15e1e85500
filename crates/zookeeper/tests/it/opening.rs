//! Opening a session over connections that take a while, or fail, under time that the test controls.

use std::error::Error as _;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use lockkeeper_conformance::Journal;
use lockkeeper_core::clock::{Clock, TestClock};
use lockkeeper_core::{BoxFuture, ErrorKind};
use lockkeeper_recipes::retry::RetryPolicy;
use lockkeeper_recipes::{Event, Keeper, KeeperBuilder};
use lockkeeper_zk_server::EmbeddedServer;
use lockkeeper_zookeeper::{Config, Dial, Server, Stream, ZooKeeperBackend};

/// How long a connection takes to open.
const HANDSHAKE: Duration = Duration::from_millis(400);

#[derive(Debug)]
enum Dialling {
    Opens(EmbeddedServer),
    Silent,
    /// The first fails so, and the next ones never end.
    FailsOnce(io::ErrorKind, &'static str),
}

/// Opens connections without sockets, and counts the attempts.
#[derive(Debug)]
struct SlowDial {
    dialling: Dialling,
    dialled: AtomicU32,
}

impl SlowDial {
    fn new(dialling: Dialling) -> Arc<Self> {
        Arc::new(Self { dialling, dialled: AtomicU32::new(0) })
    }

    fn dialled(&self) -> u32 {
        self.dialled.load(Ordering::SeqCst)
    }

    async fn open() -> Arc<Self> {
        Self::new(Dialling::Opens(EmbeddedServer::builder().without_listener().start().await.unwrap()))
    }
}

impl Dial for SlowDial {
    fn dial(&self, _server: &Server) -> BoxFuture<io::Result<Box<dyn Stream>>> {
        let before = self.dialled.fetch_add(1, Ordering::SeqCst);
        match &self.dialling {
            Dialling::Opens(server) => {
                let stream: Box<dyn Stream> = Box::new(server.connect_duplex());
                Box::pin(async move {
                    tokio::time::sleep(HANDSHAKE).await;
                    Ok(stream)
                })
            }
            &Dialling::FailsOnce(kind, why) if before == 0 => {
                Box::pin(std::future::ready(Err(io::Error::new(kind, why))))
            }
            Dialling::FailsOnce(..) | Dialling::Silent => Box::pin(std::future::pending()),
        }
    }
}

fn keeper(dial: &Arc<SlowDial>, settings: &str) -> KeeperBuilder {
    let config = Config::from_url(&format!("zk://h1,h2{settings}").parse().unwrap()).unwrap();
    let clock = Arc::new(TestClock::new());
    let backend = ZooKeeperBackend::with(config, dial.clone(), clock.clone());
    Keeper::builder(Arc::new(backend)).clock(clock).retry(RetryPolicy::none())
}

#[tokio::test(start_paused = true)]
async fn waits_shorter_than_the_handshake_succeed_at_the_second_call_and_make_one_connection() {
    let dial = SlowDial::open().await;
    let keeper = keeper(&dial, "").build();
    let mutex = keeper.mutex("reports").unwrap();
    let wait = Duration::from_millis(300);
    assert_eq!(mutex.lock_timeout(wait).await.unwrap_err().kind(), ErrorKind::ConnectionLost);
    for _ in 0..39 {
        let guard = mutex.lock_timeout(wait).await.unwrap().expect("no other client wants it");
        guard.release().await.unwrap();
    }
    assert_eq!(dial.dialled(), 1);
}

#[tokio::test(start_paused = true)]
async fn eight_looks_at_a_silent_service_are_all_answered_after_one_attempt() {
    let dial = SlowDial::new(Dialling::Silent);
    let keeper = keeper(&dial, "?connect_timeout=3s").build();
    let clock = TestClock::new();
    let begun = clock.now();
    let looks: Vec<_> = (0..8)
        .map(|_| {
            let keeper = keeper.clone();
            tokio::spawn(async move { keeper.contenders("reports").await })
        })
        .collect();
    for look in looks {
        assert_eq!(look.await.unwrap().unwrap_err().kind(), ErrorKind::ConnectionLost);
    }
    assert_eq!(clock.now().saturating_duration_since(begun), Duration::from_secs(3));
    assert_eq!(dial.dialled(), 2, "each of the two servers was tried once");
}

#[tokio::test(start_paused = true)]
async fn closing_a_keeper_waits_for_no_look_and_ends_those_under_way() {
    let dial = SlowDial::new(Dialling::Silent);
    let keeper = keeper(&dial, "").build();
    let look = tokio::spawn({
        let keeper = keeper.clone();
        async move { keeper.contenders("reports").await }
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    let clock = TestClock::new();
    let begun = clock.now();
    keeper.close().await.unwrap();
    assert_eq!(look.await.unwrap().unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(clock.now(), begun);
}

#[tokio::test(start_paused = true)]
async fn a_closed_keeper_opens_no_session_for_a_look() {
    let dial = SlowDial::open().await;
    let keeper = keeper(&dial, "").build();
    keeper.contenders("reports").await.unwrap();
    keeper.close().await.unwrap();
    let error = keeper.contenders("reports").await.unwrap_err();
    assert_eq!(
        (error.kind(), keeper.admin().queues("").await.unwrap_err().kind()),
        (ErrorKind::Closed, ErrorKind::Closed)
    );
    let Dialling::Opens(server) = &dial.dialling else { unreachable!("it does") };
    assert_eq!((server.session_ids().await.len(), dial.dialled()), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn time_that_is_up_before_the_service_was_reached_tells_the_last_failure_of_the_connection() {
    let failures = [
        (io::ErrorKind::ConnectionRefused, "Connection refused (os error 111)"),
        (io::ErrorKind::InvalidData, "invalid peer certificate: UnknownIssuer"),
        (io::ErrorKind::NotFound, "failed to lookup address information"),
    ];
    for (kind, why) in failures {
        let dial = SlowDial::new(Dialling::FailsOnce(kind, why));
        // Far longer than the wait, so that the attempt at the second server does not end.
        let keeper = keeper(&dial, "?connect_timeout=1h").retry(RetryPolicy::default()).build();
        let error = keeper.mutex("reports").unwrap().lock_timeout(Duration::from_secs(1)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionLost, "{error}");
        let chain = chain(&error);
        assert!(chain.contains("has not answered in time") && chain.contains(&format!(":2181: {why}")), "{chain}");
    }
}

/// The texts of an error and of all that caused it.
fn chain(error: &lockkeeper_core::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}; {cause}");
        source = cause.source();
    }
    text
}

#[tokio::test(start_paused = true)]
async fn the_event_of_an_opening_tells_the_timeout_that_was_granted_beside_the_one_asked_for() {
    for (settings, granted_secs, is_clipped) in [("?session_timeout=20s", 20, false), ("?session_timeout=1h", 40, true)]
    {
        let journal = Arc::new(Journal::default());
        let dial = SlowDial::open().await;
        let keeper: Keeper = keeper(&dial, settings).observer(journal.clone()).build();
        keeper.mutex("reports").unwrap().lock().await.unwrap().release().await.unwrap();
        let mut events = journal.events();
        events.retain(|event| matches!(event, Event::SessionOpened { .. }));
        let [Event::SessionOpened { timeout: Some(timeout), .. }] = events[..] else { panic!("{events:?}") };
        assert_eq!((timeout.granted.as_secs(), timeout.is_clipped()), (granted_secs, is_clipped), "{timeout:?}");
    }
}
