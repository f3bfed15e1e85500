//! Opening a session over connections that take a while, or are refused, under time that the test governs.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use lockkeeper_core::clock::{Clock, TestClock};
use lockkeeper_core::retry::RetryPolicy;
use lockkeeper_core::{BoxFuture, ErrorKind, Keeper};
use lockkeeper_zk_server::EmbeddedServer;
use lockkeeper_zookeeper::{Config, Dial, Server, Stream, ZooKeeperBackend};

/// How long a connection takes to open.
const HANDSHAKE: Duration = Duration::from_millis(400);

/// Opens connections after a while, or refuses them; counts both.
#[derive(Debug)]
struct SlowDial {
    /// None refuses.
    server: Option<EmbeddedServer>,
    dialled: AtomicU32,
}

impl Dial for SlowDial {
    fn dial(&self, _server: &Server) -> BoxFuture<io::Result<Box<dyn Stream>>> {
        self.dialled.fetch_add(1, Ordering::SeqCst);
        let stream = self.server.as_ref().map(|server| Box::new(server.connect_duplex()) as Box<dyn Stream>);
        Box::pin(async move {
            match stream {
                Some(stream) => {
                    tokio::time::sleep(HANDSHAKE).await;
                    Ok(stream)
                }
                None => Err(io::ErrorKind::ConnectionRefused.into()),
            }
        })
    }
}

fn keeper(dial: &Arc<SlowDial>, settings: &str) -> Keeper {
    let config = Config::from_url(&format!("zk://embedded{settings}").parse().unwrap()).unwrap();
    let clock = Arc::new(TestClock::new());
    let backend = ZooKeeperBackend::with(config, dial.clone(), clock.clone());
    Keeper::builder(Arc::new(backend)).clock(clock).retry(RetryPolicy::none()).build()
}

#[tokio::test(start_paused = true)]
async fn waits_shorter_than_the_handshake_succeed_at_the_second_call_and_make_one_connection() {
    let server = EmbeddedServer::builder().without_listener().start().await.unwrap();
    let dial = Arc::new(SlowDial { server: Some(server), dialled: AtomicU32::new(0) });
    let keeper = keeper(&dial, "");
    let mutex = keeper.mutex("reports").unwrap();
    let wait = Duration::from_millis(300);
    assert_eq!(mutex.lock_timeout(wait).await.unwrap_err().kind(), ErrorKind::ConnectionLost);
    for _ in 0..39 {
        let guard = mutex.lock_timeout(wait).await.unwrap().expect("nobody else wants it");
        guard.release().await.unwrap();
    }
    assert_eq!(dial.dialled.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn eight_tries_at_a_server_that_refuses_are_all_answered_after_one_attempt() {
    let dial = Arc::new(SlowDial { server: None, dialled: AtomicU32::new(0) });
    let limit = Duration::from_secs(3);
    let keeper = keeper(&dial, "?connect_timeout=3s");
    let clock = TestClock::new();
    let begun = clock.now();
    let tries: Vec<_> = (0..8)
        .map(|_| {
            let mutex = keeper.mutex("reports").unwrap();
            tokio::spawn(async move { mutex.try_lock().await })
        })
        .collect();
    for tried in tries {
        assert_eq!(tried.await.unwrap().unwrap_err().kind(), ErrorKind::ConnectionLost);
    }
    assert!(clock.now().saturating_duration_since(begun) <= limit);
}
