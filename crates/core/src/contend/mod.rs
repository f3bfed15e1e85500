//! The way to a grant: join, decide, wait for the one ahead, decide again.
//!
//! | file | what lives there |
//! | --- | --- |
//! | `place` | the ticket that withdraws itself: the one place where cancellation is dealt with |
//! | `line` | one attempt in the one queue of a lock |
//! | `permits` | one attempt at the gate and the permits of a semaphore |
//! | `persist` | attempts until one succeeds, fails for good, or the time is up |
//! | `refusal` | what is said when a place cannot be had or kept |

mod line;
mod permits;
mod persist;
mod place;
mod refusal;

pub(crate) use line::{OnePlace, join_beside};
pub(crate) use permits::{Bound, SomePermits};
pub(crate) use persist::{Attempt, Patience, grant_by};
pub(crate) use place::{Granted, Place};
pub(crate) use refusal::{lost_error, refused};
