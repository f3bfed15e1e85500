//! The way to a grant: join, decide, wait for the one ahead, decide again.
//!
//! | file | what lives there |
//! | --- | --- |
//! | `place` | the ticket that withdraws itself: the one place where cancellation is dealt with |
//! | `line` | one attempt in the one queue of a lock |
//! | `beside` | one attempt beside a write lock that is held |
//! | `front` | what the process knows of who stands first, so that a departure proves a turn without a list |
//! | `permits` | one attempt at the gate and the permits of a semaphore |
//! | `freeze` | one attempt at a place that outlives us |
//! | `onlook` | waiting without a place |
//! | `persist` | attempts until one succeeds, fails for good, or the time is up |
//! | `round` | one attempt at entering a double barrier, and at seeing all leave it |
//! | `resume` | a place in line first, and its grant later |
//! | `refusal` | what is said when a place cannot be had or kept |

mod beside;
mod freeze;
mod front;
mod line;
mod onlook;
mod permits;
mod persist;
mod place;
mod refusal;
mod resume;
mod round;

pub(crate) use beside::{Beside, lost_outside};
pub(crate) use freeze::Freeze;
pub(crate) use front::Fronts;
pub(crate) use line::{Joined, OnePlace, join_beside};
pub(crate) use onlook::{AllGone, Vacant, ValueSays, onlooker_error};
pub(crate) use permits::{Bound, SomePermits};
pub(crate) use persist::{Attempt, Patience, Progress, STEADY, grant_by};
pub(crate) use place::{Granted, Place};
pub(crate) use refusal::{lost_error, refused};
pub(crate) use resume::{InLine, Resumed};
pub(crate) use round::{OneRound, RoundGone};
