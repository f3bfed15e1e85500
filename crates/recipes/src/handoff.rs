//! Whether a lock goes from task to task within a process without its service.

use std::num::NonZeroU32;
use std::time::Duration;

/// How many turns one grant of the service has at most while others wait, unless the caller says otherwise: enough that
/// the service's time is a small part of each turn.
const TURNS_MAX: NonZeroU32 = NonZeroU32::new(64).expect("it is not zero");

/// For how long turns begin within one grant while others wait, unless the caller says otherwise.
const TIME_MAX: Duration = Duration::from_millis(50);

/// How a mutex, or the writing side of a read/write lock, goes from one task of a process to the next.
///
/// With [`Handoff::Strict`] each call is a contender of the service's queue. With [`Handoff::Local`] all calls of a
/// keeper that wait for the same lock are one contender. The process that was granted the lock passes it from one to
/// the next: no request, no wait for the service. So locks with different policies, and other programs, exclude one
/// another as before.
///
/// # Order
///
/// Within a process: first come, first served. Between contenders of the service: first come, first served. A contender
/// waits for each process ahead of it for at most `turns_max` turns, or those that begin within `time_max` of its
/// grant, whichever ends first. Behind a process that was alone before, it also waits for the turns that begin until
/// that process is told, and one more.
///
/// # Tokens
///
/// [`FencingToken::turn`](lockkeeper_core::FencingToken::turn) counts the turns of one grant of the service, from 0.
/// [`FencingToken::as_u64`](lockkeeper_core::FencingToken::as_u64) is the same for all of them, so a resource must
/// compare the pair.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lockkeeper::Error> {
/// use lockkeeper::{Handoff, Keeper};
///
/// let keeper = Keeper::memory();
/// let mutex = keeper.mutex("reports")?.handoff(Handoff::local());
/// let first = mutex.lock().await?;
/// let waiting = tokio::spawn(mutex.clone().lock_owned());
/// tokio::task::yield_now().await;
/// let token = first.fencing_token();
/// drop(first);
/// let second = waiting.await.expect("the task did not panic")?;
/// assert_eq!(second.fencing_token().as_u64(), token.as_u64());
/// assert_eq!(second.fencing_token().turn(), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Handoff {
    /// Each call is a contender of the service, in the order in which it took them in.
    #[default]
    Strict,
    /// Calls of one keeper that wait for the same lock share a contender. A lock for which none waits is given back at
    /// once.
    Local {
        /// How many turns one grant of the service has at most while other contenders wait.
        turns_max: NonZeroU32,
        /// For how long after that grant a turn may begin while other contenders wait.
        time_max: Duration,
    },
}

impl Handoff {
    /// Passes a lock on within the process, for 64 turns or 50 ms at most while other contenders wait.
    pub const fn local() -> Self {
        Self::Local { turns_max: TURNS_MAX, time_max: TIME_MAX }
    }
}
