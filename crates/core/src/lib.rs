//! The words, the waist, the recipes and the memory backend of Lockkeeper, distributed locks for Rust.
//!
//! Most programs depend on the crate `lockkeeper`, which adds the services. This one is for authors of a backend, and
//! for tests that need no service at all:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), lockkeeper_core::Error> {
//! use lockkeeper_core::Keeper;
//!
//! let keeper = Keeper::memory();
//! let guard = keeper.mutex("nightly-backup")?.lock().await?;
//! assert!(guard.hold().is_held());
//! guard.release().await?;
//! # Ok(())
//! # }
//! ```
//!
//! # The waist
//!
//! A recipe (what a mutex is) is written once, over [`Backend`] and [`Session`]. A backend provides an ordered queue of
//! contenders that live as long as their session, and knows no recipe. The suite in `lockkeeper-conformance` checks
//! that it does so correctly; [`memory`] is the reference.
//!
//! # Errors, cancellation and connection loss
//!
//! An [`Error`] tells by its [`Advice`] whether trying again can help. Any future may be dropped at any await: no
//! contender is left that blocks others while the process lives. The documentation of a type tells the rest for all its
//! methods; a method's documentation tells only what differs.
//!
//! # What is not here
//!
//! No global state, no background thread, no callback under a lock. A keeper runs one task for its session, which tells
//! observers what becomes of it; every other task or timer is one that a caller asks for, with a deadline, a limit of a
//! hold or a latch.

mod backend;
mod barrier;
mod capabilities;
pub mod clock;
mod contend;
mod contender;
mod counter;
pub mod decide;
mod double_barrier;
mod duration;
mod election;
mod error;
mod event;
mod guard;
mod hold;
mod holds;
mod keeper;
mod limits;
mod lock;
pub mod memory;
mod multi_lock;
mod mutex;
mod name;
mod opening;
mod operate;
mod owner_key;
pub mod retry;
mod rw_lock;
mod semaphore;
mod session_news;
mod shared_value;
mod standing;
mod token;
pub mod url;
mod view_index;
mod waiting;
mod watching;

pub use backend::{Backend, BoxFuture, ENTRIES_MAX, Session, SessionTimeout, VALUE_BYTES_MAX, Withdrawal};
pub use barrier::Barrier;
pub use capabilities::{Capabilities, Exclusion, Fencing, StoppedHolder};
pub use contender::{
    Bond, Contender, ContenderId, ContenderInfo, Departure, Enqueued, Entry, Expected, Mode, MutexRole, Owner,
    QueueView, Rank, Request, Revocation, Ticket, Value, ValueVersion, Version,
};
pub use counter::{Count, SharedCounter};
pub use double_barrier::{DoubleBarrier, Entered, MEMBERS_MAX};
pub use duration::{parse_duration, parse_duration_with_unit};
pub use election::{
    CloseMode, Election, LatchChanges, LatchEvent, LeaderChanges, LeaderLatch, LeaderSelector, Leadership, Requeue,
};
pub use error::{Advice, Error, ErrorKind, Operation, Result};
pub use event::{Event, Observer};
pub use guard::{Guard, MutexGuard, Permit, ReadGuard, WriteGuard, kind};
pub use hold::Hold;
pub use holds::OwnContender;
pub use keeper::{Keeper, KeeperBuilder};
pub use multi_lock::{Member, MultiGuard, MultiLock};
pub use mutex::Mutex;
pub use name::{NAME_BYTES_MAX, Part, QueueName};
pub use operate::LockKind;
pub use owner_key::{OwnerKey, Reentrant};
pub use rw_lock::RwLock;
pub use semaphore::{Permits, Semaphore};
pub use shared_value::SharedValue;
pub use standing::{Liveness, LossReason, SafeUntil, SessionBond, Standing};
pub use token::{FencingToken, ParseTokenError};
pub use url::ServiceUrl;
pub use waiting::Waiting;
pub use watching::Changes;
