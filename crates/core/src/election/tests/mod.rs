//! Elections, by hand and by Curator's two shapes, on the memory backend under paused time.

mod campaigns;
mod latches;
mod selectors;

use std::sync::Arc;
use std::time::Duration;

use crate::Keeper;
use crate::clock::TestClock;
use crate::memory::MemoryService;

/// How long anything that can happen is given to happen; no test waits it out in real time.
const LONG: Duration = Duration::from_secs(600);

/// Longer than what comes without a wait.
const SOON: Duration = Duration::from_millis(1);

fn service() -> MemoryService {
    MemoryService::new(Arc::new(TestClock::new()))
}

fn keepers<const N: usize>(service: &MemoryService) -> [Keeper; N] {
    std::array::from_fn(|_| service.keeper())
}

async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(SOON, future).await.expect("it comes soon")
}

async fn in_time<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(LONG, future).await.expect("it comes in time")
}

/// Lets everything happen that can.
async fn settle() {
    tokio::time::sleep(LONG).await;
}
