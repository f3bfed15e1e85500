//! A keeper's measurements of its locks and sessions, for the recorder of the program; nothing flows back.
//!
//! Handles are kept: for a lock and its kind they are asked of the recorder once, and a record costs what the recorder
//! makes of it. Without the feature `metrics` the same types are empty.
//!
//! | file | what lives there |
//! | --- | --- |
//! | `names` | names, texts and buckets |
//! | `kept`, `kind` | the handles of a keeper and of a lock's label; those of a kind of lock |
//! | `asked` | one call, and one hold |
//! | `records` | the records of a lock that is never taken |
//! | `sessions` | which sessions are reconnections |
//! | `off` | the same without the feature |

#[cfg(feature = "metrics")]
mod asked;
#[cfg(feature = "metrics")]
mod kept;
#[cfg(feature = "metrics")]
mod kind;
#[cfg(feature = "metrics")]
pub mod names;
#[cfg(not(feature = "metrics"))]
mod off;
#[cfg(feature = "metrics")]
mod records;
#[cfg(feature = "metrics")]
mod sessions;
#[cfg(all(test, feature = "metrics"))]
mod tests;

#[cfg(feature = "metrics")]
pub(crate) use self::asked::{Asked, Holding};
#[cfg(feature = "metrics")]
pub(crate) use self::kept::{Meter, Meters};
#[cfg(not(feature = "metrics"))]
pub(crate) use self::off::{Asked, Holding, Meter, Meters};
#[cfg(feature = "metrics")]
pub use self::records::Records;
