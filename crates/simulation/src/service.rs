//! The server, which can be replaced by one without data.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use lockkeeper_core::FencingToken;
use lockkeeper_zk_server::{EmbeddedServer, Seed};
use tokio::io::DuplexStream;
use tokio::time::Instant;

use crate::plan::RunPlan;

/// The server's wall clock at the beginning, since 1970. It goes on over a loss of data.
const WALL_MS: i64 = 1_800_000_000_000;

/// A server, and how many faults keep it from running.
#[derive(Clone, Debug)]
pub(crate) struct Running {
    pub(crate) server: Arc<EmbeddedServer>,
    stops: Arc<AtomicU32>,
}

impl Running {
    pub(crate) fn stop(&self) {
        if self.stops.fetch_add(1, Ordering::Relaxed) == 0 {
            self.server.pause();
        }
    }

    pub(crate) fn go_on(&self) {
        if self.stops.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.server.resume();
        }
    }
}

/// The server that there is now. Its clones are the same one.
#[derive(Clone, Debug)]
pub(crate) struct SimulatedService {
    begun: Instant,
    plan: Arc<RunPlan>,
    running: Arc<Mutex<Running>>,
}

impl SimulatedService {
    pub(crate) async fn start(plan: Arc<RunPlan>) -> Self {
        let begun = Instant::now();
        let running = Arc::new(Mutex::new(start(&plan, 0).await));
        Self { begun, plan, running }
    }

    pub(crate) fn now(&self) -> Running {
        self.locked().clone()
    }

    pub(crate) fn connect(&self) -> DuplexStream {
        self.locked().server.connect_duplex()
    }

    /// Replaces the server by one without data; returns a token that is greater than all of the former one.
    pub(crate) async fn lose_data(&self) -> FencingToken {
        let elapsed_ms = i64::try_from(self.begun.elapsed().as_millis()).expect("a run is short");
        // What is not flushed is lost too, and each server's first number is that of its first millisecond.
        let running = start(&self.plan, elapsed_ms + 1).await;
        let first = u64::try_from(running.server.zxid().await).expect("transactions have positive numbers");
        *self.locked() = running;
        FencingToken::new(first, 0).expect("transaction numbers are tokens")
    }

    fn locked(&self) -> MutexGuard<'_, Running> {
        self.running.lock().expect("nothing panics while it is locked")
    }
}

async fn start(plan: &RunPlan, elapsed_ms: i64) -> Running {
    let mut secret = [0; 32];
    secret[..8].copy_from_slice(&plan.seed.to_be_bytes());
    let builder = EmbeddedServer::builder()
        .without_listener()
        .tick(plan.tick)
        .seed(Seed { secret, wall_ms: WALL_MS + elapsed_ms });
    let builder = match plan.timeout_max {
        Some(timeout_max) => builder.session_timeout_max(timeout_max),
        None => builder,
    };
    let server = Arc::new(builder.start().await.expect("a server without sockets starts"));
    Running { server, stops: Arc::default() }
}
