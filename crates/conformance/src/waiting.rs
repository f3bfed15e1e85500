//! Waits for what must come: each is bounded, and says what did not come.

use std::time::Duration;

/// How long a test waits for what must come soon: far longer than any hand-off, also on a machine with ten times as
/// much work as it can do, and longer than the session timeouts that services are tested with. A test that passes does
/// not wait for so long.
pub const SOON: Duration = Duration::from_secs(120);

/// The pause between two looks of [`until`]: short beside the bound, long beside a look at another process.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// Waits for what must come soon; if it does not, the test fails and says what did not come.
pub async fn soon<Output>(what: &str, future: impl Future<Output = Output>) -> Output {
    match tokio::time::timeout(SOON, future).await {
        Ok(output) => output,
        Err(_) => panic!("{what} did not come within {SOON:?}"),
    }
}

/// Looks again and again until a condition holds whose changes are not announced. It must hold soon.
#[expect(clippy::future_not_send, reason = "a test waits in its own task")]
pub async fn until(what: &str, is_so: impl AsyncFn() -> bool) {
    let looks = async {
        while !is_so().await {
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    };
    soon(what, looks).await;
}
