//! The recipes of Lockkeeper: every lock, written once over the waist of `lockkeeper-core`.
//!
//! Depend on `lockkeeper`, which re-exports what is here and chooses the service by a URL.
//!
//! | files | what lives there |
//! | --- | --- |
//! | `mutex`, `rw_lock`, `semaphore`, `election`, `multi_lock`, `owner_key`, `barrier`, `double_barrier`, `counter` | the locks |
//! | `run_under_lock` | work under a lock, reentrant by its owner |
//! | `waiting`, `watching`, `operate`, `shared_value` | a place that is not granted yet, looking, what an operator does, a value |
//! | `lock`, `guard`, `grant`, `hold`, `limits` | what every lock is made of; proof of holding it |
//! | `contend`, `beside`, [`decide`] | the way to a grant, and the pure decision on it |
//! | [`Handoff`], `local_queue`, `held_place`, `sticky` | one contender for all tasks of a process, the turns that they take, and where idle places live |
//! | `deadlock` | owner keys that would wait for each other |
//! | `call`, `calling`, `meter`, `spans` | one call for a lock, whose it is, and what is measured and traced of it |
//! | `keeper`, `shared`, `holds`, `known_head`, `session_events` | the open way to a service |
//! | [`retry`], `event` | when to try again; what observers are told |
//! | [`memory`] | keepers of the memory service |

#![warn(clippy::exhaustive_enums, unnameable_types)]

mod barrier;
mod beside;
mod call;
mod calling;
mod contend;
mod counter;
mod deadlock;
pub mod decide;
mod double_barrier;
mod election;
mod event;
mod examination;
mod grant;
mod guard;
mod handoff;
mod held_place;
mod hold;
mod holds;
mod inventory;
mod keeper;
mod known_head;
mod limits;
mod local_queue;
mod lock;
pub mod memory;
#[cfg(not(feature = "metrics"))]
mod meter;
#[cfg(feature = "metrics")]
pub mod meter;
mod multi_lock;
mod mutex;
mod operate;
mod owner_key;
#[cfg(test)]
mod paused;
pub mod retry;
mod run_under_lock;
mod rw_lock;
mod semaphore;
mod session_events;
mod shared;
mod shared_value;
mod spans;
mod sticky;
mod waiting;
mod watching;

pub use barrier::Barrier;
pub use counter::{Count, SharedCounter};
pub use double_barrier::{DoubleBarrier, Entered, MEMBERS_MAX};
pub use election::{
    CloseMode, Election, LatchChanges, LatchEvent, LeaderChanges, LeaderLatch, LeaderSelector, Leadership, Requeue,
};
pub use event::{Event, Observer, ReleaseReason};
pub use guard::{Guard, MutexGuard, Permit, ReadGuard, WriteGuard, kind};
pub use handoff::Handoff;
pub use hold::Hold;
pub use holds::OwnContender;
pub use keeper::{Keeper, KeeperBuilder};
pub use multi_lock::{Member, MultiGuard, MultiLock};
pub use mutex::Mutex;
pub use operate::LockKind;
pub use owner_key::{OwnerKey, Reentrant};
pub use rw_lock::RwLock;
pub use semaphore::{Permits, Semaphore};
#[doc(hidden)]
pub use shared::Spawner;
pub use shared_value::SharedValue;
pub use waiting::Waiting;
pub use watching::Changes;
