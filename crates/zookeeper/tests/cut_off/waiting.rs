//! Waiting, with a deadline.

use std::time::Duration;

/// How long what is on its way may take: a session, a grant of a free lock, a write.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// Waits for what must come soon.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    at_most(SOON, what, future).await
}

/// Waits for what must come within a time.
pub(crate) async fn at_most<T>(limit: Duration, what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(limit, future).await.unwrap_or_else(|_| panic!("{what} did not come within {limit:?}"))
}
