//! When an answer is late, and how the time that is left is shared.

use std::time::Duration;

use lockkeeper_core::clock::{BootInstant, Clock};

/// How long after a deadline an answer that is there already may take to be read.
const READ_WITHIN: Duration = Duration::from_millis(100);

/// Waits until an answer is late. After a deadline that was slept through with the whole program, the answer may be
/// there and only has to be read.
pub async fn late(clock: &dyn Clock, deadline: BootInstant) {
    clock.sleep_until(deadline).await;
    clock.sleep_until(clock.now().saturating_add(READ_WITHIN)).await;
}

/// Waits for something, if there is anything to wait for, and else without end.
pub async fn or_never<T>(waiting: Option<impl Future<Output = T> + Send>) -> T {
    match waiting {
        Some(waiting) => waiting.await,
        None => std::future::pending().await,
    }
}

/// When an attempt must have ended, so that each of those that are left has as much time: a server that is cut off
/// gives no answer at all.
#[must_use]
pub fn share(now: BootInstant, deadline: BootInstant, attempts_left: usize) -> BootInstant {
    let attempts_left = u32::try_from(attempts_left).unwrap_or(u32::MAX).max(1);
    now.saturating_add(deadline.saturating_duration_since(now) / attempts_left)
}
