//! Elections, by hand and in Curator's two forms, on the memory backend under paused time.

mod campaigns;
mod latches;
mod selectors;

use std::sync::Arc;
use std::time::Duration;

use crate::Keeper;
use crate::memory::MemoryService;
use lockkeeper_core::clock::TestClock;

/// The deadline of everything that must happen; no test waits for it in real time.
const LONG: Duration = Duration::from_secs(600);

/// Longer than any call that need not wait.
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

/// Runs all tasks until each waits.
async fn settle() {
    tokio::time::sleep(LONG).await;
}
