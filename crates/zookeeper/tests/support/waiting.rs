//! Waiting, with a deadline.

use std::time::Duration;

/// How long a test waits for what must come.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// Waits for what must come soon.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(SOON, future).await.unwrap_or_else(|_| panic!("{what} did not come within {SOON:?}"))
}

/// Looks again and again until the condition holds; there is no event for it.
#[expect(clippy::future_not_send, reason = "a test waits in its own task")]
pub(crate) async fn until(what: &str, is_so: impl AsyncFn() -> bool) {
    const BETWEEN_LOOKS: Duration = Duration::from_millis(5);
    soon(what, async {
        while !is_so().await {
            tokio::time::sleep(BETWEEN_LOOKS).await;
        }
    })
    .await;
}
