//! Histories of one lock: what happened to its contenders, and the checker of its rules.
//!
//! The contenders make the records, on the safe side: a call before it is made, a join and a grant after their answers,
//! a release before it is asked for. So an interval in a history lies within the true one, and a rule that a history
//! breaks was really broken.
//!
//! A hold lasts, for the checker, from its grant to the last moment at which its holder believed in it: the last
//! [`What::Held`], or [`What::Releasing`]. A holder that was stopped or cut off, and is told so when it asks, has
//! broken no rule, however late it asks.
//!
//! ```
//! use lockkeeper_core::FencingToken;
//! use lockkeeper_core::clock::BootInstant;
//! use lockkeeper_history::{Asks, Limits, HistoryRecord, Violation, What, check};
//!
//! let token = |grant| FencingToken::new(grant, 0).expect("it is small");
//! let happened = [
//!     What::Calling { attempt: 1, keeper: 1, asks: Asks::Alone },
//!     What::Granted { attempt: 1, token: token(7), held: true },
//!     What::Calling { attempt: 2, keeper: 2, asks: Asks::Alone },
//!     What::Granted { attempt: 2, token: token(8), held: true },
//!     What::Held { attempt: 1 },
//!     What::Releasing { attempt: 1 },
//!     What::Releasing { attempt: 2 },
//!     What::Drained { left: 0 },
//! ];
//! let records: Vec<_> =
//!     (0..).zip(happened).map(|(at, what)| HistoryRecord { at: BootInstant::from_nanos(at), what }).collect();
//! assert_eq!(check(&records, Limits::default()), [Violation::TwoHolders { holder: 1, second: 2 }]);
//! ```
//!
//! Programs write less: [`HistoryLine`]s of grants and their ends, in JSON, one a line. [`verify`] judges those of many
//! processes and machines together, and finds fewer faults in them: who waited is not written.
//!
//! Who makes the records and the lines is left to others: the conformance suite, the simulation, the observers.

#![warn(clippy::exhaustive_enums, unnameable_types)]

mod check;
mod line;
mod record;
mod verify;

pub use check::{Limits, Violation, check};
pub use line::{HistoryLine, LineEvent};
pub use record::{Asks, HistoryRecord, What};
pub use verify::{BrokenPromise, NamedHold, Verified, verify};
