//! Waiting for something outside this process, with a deadline.
//!
//! Only for what cannot announce itself (a server's state, a file); everything else is awaited.

use std::time::Duration;

use tokio::time;

use crate::{Error, Result};

/// How long a test waits for what must come from another process. It is far longer than anything takes on a machine
/// with many times the work that it can do: what comes late costs a test its time and not its outcome.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// How long one answer of a server may take: so long that a loaded machine has it, and half of [`PATIENCE`], so that
/// one that was lost can be asked for again.
pub(crate) const ANSWERED_WITHIN: Duration = Duration::from_secs(60);

/// The pause between two looks at another process: short beside any deadline, long beside the look.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(10);

/// Looks until `look` finds something, at most for `within`.
///
/// # Cancellation
///
/// Dropping the future stops looking and changes nothing else.
pub async fn until<T>(what: &str, within: Duration, mut look: impl AsyncFnMut() -> Option<T>) -> Result<T> {
    let looking = async {
        loop {
            if let Some(found) = look().await {
                return found;
            }
            time::sleep(LOOK_AGAIN_AFTER).await;
        }
    };
    time::timeout(within, looking).await.map_err(|_| Error::new(format!("{what} did not happen within {within:?}")))
}
