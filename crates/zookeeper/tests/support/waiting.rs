//! Waiting, with a deadline.

use std::time::Duration;

/// How long a test waits for what must come.
pub const SOON: Duration = Duration::from_secs(20);

/// Waits for what must come soon.
pub async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(SOON, future).await.unwrap_or_else(|_| panic!("{what} did not come within {SOON:?}"))
}
