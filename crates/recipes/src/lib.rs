//! The recipes of Lockkeeper: every lock, written once over the waist of `lockkeeper-core`.
//!
//! Depend on `lockkeeper`, which re-exports what is here and chooses the service by a URL.
//!
//! | files | what lives there |
//! | --- | --- |
//! | `mutex`, `rw_lock`, `semaphore`, `election`, `owner_key`, `double_barrier` | the locks |
//! | [`once`] | a job that is done once for each slot |
//! | `shared_value`, `count` | a value, the counter and the barrier on it; how a number is stored |
//! | `waiting`, `admin` | a place that is not granted yet; looking, and what an operator does |
//! | `lock`, `hold` | what every lock is made of, and its guard; proof of holding it |
//! | `contend`, [`decide`] | the way to a grant, and the pure decision on it |
//! | [`Handoff`], `contend/local_queue` | one contender for all tasks of a process, and the turns that they take |
//! | `deadlock` | owner keys that would wait for each other |
//! | `keeper`, `shared` | the open way to a service; the state that its locks share, and one call; [`memory`] |
//! | [`retry`], `event` | when to try again; what observers are told, what is measured |

#![warn(clippy::exhaustive_enums, unnameable_types)]

mod admin;
mod contend;
mod count;
mod deadlock;
pub mod decide;
mod double_barrier;
mod election;
mod event;
mod handoff;
mod hold;
mod keeper;
mod lock;
mod mutex;
pub mod once;
mod owner_key;
pub mod retry;
mod rw_lock;
mod semaphore;
mod shared;
mod shared_value;
mod waiting;

#[cfg(test)]
mod tests;

pub use admin::Admin;
pub use admin::operate::LockKind;
pub use admin::operate::watching::Changes;
pub use count::Count;
pub use double_barrier::{DoubleBarrier, Entered, MEMBERS_MAX};
pub use election::{
    CloseMode, Election, LatchChanges, LatchEvent, LeaderChanges, LeaderLatch, LeaderSelector, Leadership, Requeue,
    WorkError,
};
#[cfg(feature = "metrics")]
pub use event::meter;
pub use event::{Event, Observer, ReleaseReason};
pub use handoff::Handoff;
pub use hold::Hold;
pub use hold::list::OwnContender;
pub use keeper::{Keeper, KeeperBuilder, memory};
pub use lock::guard::{Guard, MutexGuard, Permit, ReadGuard, WriteGuard, kind};
pub use mutex::Mutex;
pub use owner_key::multi_lock::{Member, MultiGuard, MultiLock};
pub use owner_key::{OwnerKey, Reentrant};
pub use rw_lock::RwLock;
pub use semaphore::{Permits, Semaphore};
#[doc(hidden)]
pub use shared::Spawner;
pub use shared_value::SharedValue;
pub use shared_value::barrier::Barrier;
pub use shared_value::counter::SharedCounter;
pub use waiting::Waiting;
