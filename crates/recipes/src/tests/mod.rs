//! Support for unit tests: keepers of one memory service, and waits under tokio's paused time.
//!
//! Paused time goes on only when every task waits for it. So a bound that is shorter than every pause and timeout of a
//! recipe shows that a thing comes without any of them, which the bound of the tests against services cannot.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::clock::TestClock;
use tokio::task::yield_now;

use crate::keeper::Keeper;
use crate::keeper::memory::MemoryService;

/// Shorter than every pause and timeout of a recipe.
pub(crate) const AT_ONCE: Duration = Duration::from_millis(1);

/// Longer than all pauses and timeouts of a test together.
pub(crate) const LONG: Duration = Duration::from_secs(600);

pub(crate) fn service() -> MemoryService {
    MemoryService::new(Arc::new(TestClock::new()))
}

pub(crate) fn keepers<const N: usize>(service: &MemoryService) -> [Keeper; N] {
    std::array::from_fn(|_| service.keeper())
}

/// Waits for what must come without a pause.
pub(crate) async fn at_once<T>(what: &str, future: impl Future<Output = T>) -> T {
    let outcome = tokio::time::timeout(AT_ONCE, future).await;
    outcome.unwrap_or_else(|_| panic!("{what} did not come at once"))
}

/// Waits for what may take pauses.
pub(crate) async fn after_pauses<T>(what: &str, future: impl Future<Output = T>) -> T {
    let outcome = tokio::time::timeout(LONG, future).await;
    outcome.unwrap_or_else(|_| panic!("{what} did not come within {LONG:?}"))
}

/// Runs all tasks until each waits for what no time brings.
pub(crate) async fn settle() {
    tokio::time::sleep(LONG).await;
}

/// Runs all tasks until each waits, and lets no time pass.
pub(crate) async fn yield_often() {
    for _ in 0..50 {
        yield_now().await;
    }
}
