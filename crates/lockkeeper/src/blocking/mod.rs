//! Locks for threads, in programs without a runtime; a lock's owner is the thread that locked it.
//!
//! ```
//! # fn main() -> Result<(), lockkeeper::Error> {
//! use lockkeeper::blocking;
//!
//! let keeper = blocking::connect("memory:")?; // or "file:", or "zk://h1:2181,h2:2181"
//! let backup = keeper.mutex("nightly-backup")?;
//! let guard = backup.lock()?;
//! let again = backup.lock()?; // the thread has it already: this counts
//! guard.release()?;
//! assert!(again.hold().is_held());
//! again.release()
//! # }
//! ```
//!
//! # The thread is the owner
//!
//! A thread that has a lock may lock it again, through any clone of its keeper; the lock is given back with the last of
//! the thread's guards, in any order of their drops. A thread that has a read/write lock alone may read too, and keeps
//! that share, without a gap, when it gives up writing first; a thread that only reads and asks to write gets
//! [`ErrorKind::WouldDeadlock`](crate::ErrorKind::WouldDeadlock) at once. Guards of mutexes and read/write locks stay
//! on their thread. Permits of a semaphore and slots of a
//! job have no owner and may be given back by any thread.
//!
//! # Where the work is done
//!
//! The sessions of all blocking keepers of a process live on one thread, `lockkeeper`, that the first keeper starts and
//! that ends with the last user: keeper, lock or guard. Proof writes go on there while the callers work.
//!
//! A call blocks its thread and needs no runtime around it. Within an async task it works too, but keeps other tasks
//! from that thread, and all tasks on a thread are the same owner; async code should use the locks of the crate's root.
//!
//! # Errors
//!
//! The errors of a method are those of its async counterpart. For mutexes, read/write locks and multi-locks that is the
//! method of [`OwnerKey`](crate::OwnerKey) with the same name, or `…_within` (`lock_all_within` for a [`MultiLock`]),
//! for all others the method of the async type with the same name. In addition:
//!
//! - [`ErrorKind::WouldDeadlock`](crate::ErrorKind::WouldDeadlock) for a call on the thread `lockkeeper` itself, by an
//!   [`Observer`](crate::Observer), that would have to wait;
//! - [`ErrorKind::Backend`](crate::ErrorKind::Backend), unknown, if the work on that thread panicked or the thread has
//!   ended.
//!
//! # Coming from Curator
//!
//! The classes are those of [the guide](crate::guide::recipes), and as in Curator the thread is the owner. `acquire()`
//! is [`Mutex::lock`], `acquire(time, unit)` is [`Mutex::lock_timeout`], and `release()` is [`Guard::release`], or the
//! drop of the guard. `isOwnedByCurrentThread()` is `guard.hold().is_held()` in the thread that has the guard. Nothing
//! interrupts a wait: give it a time, or close the keeper.
//!
//! On `zk:` URLs the layout is Curator's, so both stand in the same queue.

mod barrier;
mod counter;
mod election;
mod engine;
mod guard;
mod keeper;
mod locks;
mod multi_lock;
mod once;
mod semaphore;

pub use barrier::{Barrier, DoubleBarrier, Entered};
pub use counter::{SharedCounter, SharedValue};
pub use election::{Election, Leadership};
pub use guard::{Guard, MultiGuard, MutexGuard, Permit, ReadGuard, WriteGuard};
pub use keeper::{Admin, Keeper, connect};
pub use locks::{Mutex, RwLock};
pub use multi_lock::{Member, MultiLock};
pub use once::{Once, SlotClaim, SlotGuard};
pub use semaphore::Semaphore;

#[cfg(test)]
mod tests;
