//! Waiting for something outside this process, with a deadline.
//!
//! Only for what cannot announce itself (a server's state, a file); everything else is awaited.

use std::time::Duration;

use tokio::time;

use crate::{Error, Result};

/// The pause between two looks at another process: short beside any deadline, long beside the look.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(10);

/// Looks until `look` finds something, at most for `within`.
///
/// # Errors
///
/// After `within`: "`what` did not happen within …". A look under way is given up then.
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
