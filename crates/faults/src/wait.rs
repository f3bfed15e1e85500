//! The one error of the harness, a sentence for the reader of the failed test; and waiting for something outside this
//! process, with a deadline.
//!
//! Only for what cannot announce itself (a server's state, a file); everything else is awaited.

use std::time::Duration;
use std::{error, fmt, io};

use tokio::time;

/// Why the harness could not do what a test asked: one sentence, naming the program, file or server.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Error(String);

/// A result of the harness.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error that says `message`.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }

    /// Turns an I/O error into a sentence that starts with what was being done.
    pub fn io(doing: impl fmt::Display) -> impl FnOnce(io::Error) -> Self {
        move |error| Self(format!("{doing}: {error}"))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl error::Error for Error {}

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
