//! Looks at all queues of a service or follows them, and finds the deadlocks among the waiters.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), lockkeeper::Error> {
//! use lockkeeper::clock::{Clock, SystemClock};
//! use lockkeeper::follow::Scope;
//! use lockkeeper_monitor::{Confirmation, find, look};
//!
//! # let keeper = lockkeeper::connect("memory:")?;
//! let mut confirmation = Confirmation::default();
//! let snapshot = look(&keeper, &SystemClock, &Scope::default()).await?;
//! for judged in confirmation.judge(&snapshot, find(&snapshot)) {
//!     println!("{:?}: {:?}", judged.verdict, judged.deadlock.way_out);
//! }
//! // A monitor looks again after `snapshot.pause()`; what stands in both looks is known.
//! # Ok(())
//! # }
//! ```
//!
//! | files | what lives there |
//! | --- | --- |
//! | `snapshot` | a look at all queues, and what it has seen |
//! | `collect` | all locks, told of or looked at again and again, for a monitor |
//! | `model`, `events`, `gate` | what is known of them: holds, what has happened, and waits for permits |
//! | `history` | who held what and when, within a bound of memory |
//! | `breaches` | what no lock may ever show |
//! | `alerts` | what is wrong for long enough to tell an operator |
//! | `world` | who needs what, as the queues alone say it |
//! | `flows` | which contenders are of one flow of control, and how sure that is |
//! | `reduction` | who can go on, and who never can |
//! | `graph`, `cores` | the parts that block themselves |
//! | `find`, `deadlock` | three searches, each less sure than the one before; what they find |
//! | `confirmation` | what stands in two looks |
//! | `picture`, `layout` | who waits for whom as boxes and arrows, and where these stand |
//!
//! # How it is found
//!
//! Not by searching circles. Flows of control that wait for nothing finish, their contenders leave, and the waiters
//! that needed them go on: a waiter in a line needs all contenders ahead of it that exclude it, the first at a
//! semaphore's gate any of the permits. What is never reached in this way is stuck. That takes time in proportion to
//! the contenders.
//!
//! # What is not here
//!
//! No text for people but the names of things: the command's output is the command's matter. No clock but the one
//! that is passed in.

#![warn(clippy::exhaustive_enums, unnameable_types)]

pub mod alerts;
mod breaches;
mod change;
mod collect;
mod confirmation;
mod cores;
mod deadlock;
mod events;
mod find;
mod flows;
mod gate;
mod graph;
pub mod history;
mod known;
mod layout;
mod losses;
mod model;
mod moment;
mod picture;
mod positions;
mod reduction;
mod snapshot;
#[cfg(test)]
mod tests;
mod world;

pub use breaches::{Breach, SeenBreach};
pub use collect::{CollectionMode, Collector, MonitorState, ServiceFreshness};
pub use confirmation::{CONFIRM_AFTER, Confirmation, DeadlockVerdict, ENDS_SOON, Judged};
pub use deadlock::{AheadRole, Certainty, ChainLink, Deadlock, Dependence, WayOut};
pub use events::{LockEventKind, SeenEvent};
pub use find::find;
pub use known::{KnownContender, KnownHold, KnownLock};
pub use layout::{PictureLayout, ReadingDirection, Rectangle};
pub use model::{EVENTS_MAX, LockModel};
pub use moment::TimePoint;
pub use picture::{Arrow, BOXES_MAX, Depicted, Says, Side, WaitPicture};
pub use snapshot::{Frozen, ObservedLock, PERIOD_MAX, PERIOD_MIN, ServiceSnapshot, look};
