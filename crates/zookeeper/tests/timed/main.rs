//! What the locks cost on a server: time, round trips, packets and watches.
//!
//! Each test measures, so they run one by one.

mod apache;
mod embedded;
#[path = "../support/mod.rs"]
mod support;

use tokio::sync::{Mutex, MutexGuard};

/// Waits until no other test runs; the next one begins when this is dropped.
async fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::const_new(());
    TURN.lock().await
}
