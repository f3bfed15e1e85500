//! How long a limited wait took, and how late it ended beside a thread that only sleeps: what the machine alone delays
//! is no fault of the library. The thread is not the runtime's, so that a library which keeps the runtime busy is late.

use std::time::Duration;

use tokio::sync::oneshot;

use crate::fixture::Fixture;
use crate::waiting::soon;

/// A wait that was measured.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Measured {
    /// By how much it ended after the thread that slept until its deadline had woken.
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
    let sleeper = fixture.clock();
    let (tell, woken) = oneshot::channel();
    std::thread::spawn(move || {
        let left = timeout.saturating_sub(sleeper.now().saturating_duration_since(start));
        #[expect(clippy::disallowed_methods, reason = "a thread that only sleeps is what waits are compared with")]
        std::thread::sleep(left);
        // A measurement that was given up needs no answer.
        let _ = tell.send(sleeper.now());
    });
    let output = soon("the end of the timeout", waiting).await;
    let end = clock.now();
    let woken = soon("the thread's end", woken).await.expect("the thread answers");
    let measured = Measured { late: end.saturating_duration_since(woken), took: end.saturating_duration_since(start) };
    (output, measured)
}
