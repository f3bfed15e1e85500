//! The cost of the locks on a server: round trips, packets and watches.
//!
//! Each test counts what happens at a moment, so they run one by one, and not in `it`, whose tests run side by side.

mod apache;
mod embedded;
#[expect(dead_code, reason = "the tests that measure use a part of it")]
#[path = "../support/mod.rs"]
mod support;

use tokio::sync::{Mutex, MutexGuard};

/// Waits until no other test runs; the next one begins when this is dropped.
async fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::const_new(());
    TURN.lock().await
}
