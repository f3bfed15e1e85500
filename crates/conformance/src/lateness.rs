//! How long a limited wait took, and how late it ended beside a bare timer of the same runtime: what the machine alone
//! delays is no fault of the library.

use std::time::Duration;

use crate::fixture::Fixture;
use crate::waiting::soon;

/// A wait that was measured.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Measured {
    /// By how much it ended after a timer that was set for its end.
    pub(crate) late: Duration,
    /// From the call to its end.
    pub(crate) took: Duration,
}

/// Waits, and measures the wait; it must end [`soon`].
pub(crate) async fn measured<Output>(
    fixture: &dyn Fixture,
    timeout: Duration,
    waiting: impl Future<Output = Output>,
) -> (Output, Measured) {
    let clock = fixture.clock();
    let start = clock.now();
    let deadline = start.saturating_add(timeout);
    let timer = tokio::spawn({
        let clock = fixture.clock();
        async move {
            clock.sleep_until(deadline).await;
            clock.now()
        }
    });
    let output = soon("the end of the timeout", waiting).await;
    let end = clock.now();
    let rang = soon("the timer", timer).await.expect("the task does not panic");
    let measured = Measured { late: end.saturating_duration_since(rang), took: end.saturating_duration_since(start) };
    (output, measured)
}
