//! The recipes of Lockkeeper: every lock, written once over the waist of `lockkeeper-core`.
//!
//! Depend on `lockkeeper`, which re-exports what is here and chooses the service by a URL.
//!
//! | files | what lives there |
//! | --- | --- |
//! | `mutex`, `rw_lock`, `semaphore`, `election`, `multi_lock`, `owner_key`, `double_barrier` | the locks |
//! | `shared_value` | a value, and the counter and the barrier on it |
//! | `waiting`, `operate` | a place that is not granted yet; looking, and what an operator does |
//! | `lock`, `guard`, `hold` | what every lock is made of; proof of holding it |
//! | `contend`, [`decide`] | the way to a grant, and the pure decision on it |
//! | [`Handoff`], `local_queue` | one contender for all tasks of a process, and the turns that they take |
//! | `deadlock` | owner keys that would wait for each other |
//! | `call`, `meter` | one call for a lock, whose it is, and what is measured and traced of it |
//! | `keeper`, `shared` | the open way to a service, and the state that its locks share; [`memory`] keepers |
//! | [`retry`], `event` | when to try again; what observers are told |

#![warn(clippy::exhaustive_enums, unnameable_types)]

mod admin;
mod call;
mod contend;
mod deadlock;
pub mod decide;
mod double_barrier;
mod election;
mod event;
mod guard;
mod handoff;
mod hold;
mod keeper;
mod local_queue;
mod lock;
#[cfg(not(feature = "metrics"))]
mod meter;
#[cfg(feature = "metrics")]
pub mod meter;
mod multi_lock;
mod mutex;
mod operate;
mod owner_key;
pub mod retry;
mod rw_lock;
mod semaphore;
mod shared;
mod shared_value;
mod waiting;

pub use admin::Admin;
pub use double_barrier::{DoubleBarrier, Entered, MEMBERS_MAX};
pub use election::{
    CloseMode, Election, LatchChanges, LatchEvent, LeaderChanges, LeaderLatch, LeaderSelector, Leadership, Requeue,
};
pub use event::{Event, Observer, ReleaseReason};
pub use guard::{Guard, MutexGuard, Permit, ReadGuard, WriteGuard, kind};
pub use handoff::Handoff;
pub use hold::Hold;
pub use hold::list::OwnContender;
pub use keeper::{Keeper, KeeperBuilder, memory};
pub use multi_lock::{Member, MultiGuard, MultiLock};
pub use mutex::Mutex;
pub use operate::LockKind;
pub use operate::watching::Changes;
pub use owner_key::{OwnerKey, Reentrant};
pub use rw_lock::RwLock;
pub use semaphore::{Permits, Semaphore};
#[doc(hidden)]
pub use shared::Spawner;
pub use shared_value::SharedValue;
pub use shared_value::barrier::Barrier;
pub use shared_value::counter::{Count, SharedCounter};
pub use waiting::Waiting;
