//! Whether a lock goes from task to task within a process without its service.

use std::num::NonZeroU32;
use std::time::Duration;

/// How many turns one grant of the service has at most while others wait, unless the caller says otherwise: enough that
/// the service's time is a small part of each turn.
const TURNS_MAX: NonZeroU32 = NonZeroU32::new(64).expect("it is not zero");

/// For how long turns begin within one grant while others wait, unless the caller says otherwise.
const TIME_MAX: Duration = Duration::from_millis(50);

/// For how long a place is kept that no task uses, unless the caller says otherwise: longer than the pauses of a task
/// that takes a lock again and again.
const IDLE_MAX: Duration = Duration::from_secs(1);

/// How a mutex, or the writing side of a read/write lock, goes from one task of a process to the next.
///
/// In the guide: [many tasks of one process](https://docs.rs/lockkeeper/latest/lockkeeper/guide/choosing/index.html).
///
/// With [`Handoff::Strict`] each call is a contender of the service's queue. With [`Handoff::Local`] all calls of a
/// keeper that wait for the same lock are one contender. The process that was granted the lock passes it from one to
/// the next: no request, no wait for the service. With [`Handoff::Sticky`] the process also keeps its place when no
/// task holds the lock, until another contender joins: a lock that one process takes again and again costs the service
/// nothing. Each is one contender to the service, so locks with different policies, and other programs, exclude one
/// another as before.
///
/// A lock with a [`min_hold`](crate::Mutex::min_hold) is strict under each policy.
///
/// # Order
///
/// Within a process: first come, first served. Between contenders of the service: first come, first served. A contender
/// waits for each process ahead of it for at most `turns_max` turns, or those that begin within `time_max` of its
/// grant, whichever ends first. Behind a process that was alone before, it also waits for the turns that begin until
/// that process is told, and one more. Behind a sticky process it waits for the turn under way; for none if the place
/// is idle.
///
/// # Tokens
///
/// [`FencingToken::turn`](lockkeeper_core::FencingToken::turn) counts the turns of one grant of the service, from 0.
/// [`FencingToken::as_u64`](lockkeeper_core::FencingToken::as_u64) is the same for all of them, so a resource must
/// compare the pair: [`FencingToken::to_bytes`](lockkeeper_core::FencingToken::to_bytes) keeps it in one column.
///
/// # Idle places
///
/// An idle place counts as held to those that only look (`lockkeeper show`,
/// [`Keeper::until_vacant`](crate::Keeper::until_vacant)), for `idle_max` at most. A `try_lock` of another process
/// fails once, and has the place given up in the background: a later one succeeds. Sticky places have a session and a
/// thread of their process for themselves, so that they are also given up while the program's own runtime is busy. A
/// runtime whose time a test has paused does not pause that thread.
///
/// **End a program with [`Keeper::close`](crate::Keeper::close)**, and await it: the idle places of a process that ends
/// without it stand until their session times out, like the holds of a process that was killed.
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
    /// As `Local`, and a lock for which no task waits is kept until another contender joins. While others wait, each
    /// grant is for one turn.
    Sticky {
        /// For how long it is kept after its last turn.
        idle_max: Duration,
    },
}

impl Handoff {
    /// Passes a lock on within the process, for 64 turns or 50 ms at most while other contenders wait.
    pub const fn local() -> Self {
        Self::Local { turns_max: TURNS_MAX, time_max: TIME_MAX }
    }

    /// Keeps the lock in the process until another contender joins, or for 1 s after the last turn.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lockkeeper::Error> {
    /// use lockkeeper::{Handoff, Keeper};
    ///
    /// let keeper = Keeper::memory();
    /// let mutex = keeper.mutex("index")?.handoff(Handoff::sticky());
    /// for _ in 0..1_000 {
    ///     let _guard = mutex.lock().await?;
    /// }
    /// assert_eq!(mutex.lock().await?.fencing_token().turn(), 1_000);
    /// // Gives idle places back at once.
    /// keeper.close().await
    /// # }
    /// ```
    pub const fn sticky() -> Self {
        Self::Sticky { idle_max: IDLE_MAX }
    }
}
