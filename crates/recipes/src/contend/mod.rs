//! The way to a grant: join, decide, wait for the one ahead, decide again.
//!
//! | file | what lives there |
//! | --- | --- |
//! | `place` | the ticket that is withdrawn when it is dropped: all cancellation is handled there |
//! | `line` | a place in the one queue of a lock, and the wait in it |
//! | `attempt` | one attempt at such a place, from its join to its grant |
//! | `evict` | the eviction of an idle holder, for a call that does not wait |
//! | `permits` | one attempt among the waiters and at the permits of a semaphore |
//! | `freeze` | one attempt at a place that outlives our session |
//! | `onlook` | waiting without a place |
//! | `persist` | attempts until one succeeds, fails permanently, or the time is up |
//! | `round` | one attempt at entering a double barrier, and at seeing all leave it |
//! | `refusal` | the errors when a lock cannot be made, or a place not be taken or kept |

mod attempt;
mod evict;
mod freeze;
mod line;
mod onlook;
mod permits;
mod persist;
mod place;
mod refusal;
mod round;

pub(crate) use attempt::{InLine, Pending, PlaceAttempt};
pub(crate) use freeze::Freeze;
pub(crate) use line::{Joined, OnePlace, join_beside};
pub(crate) use onlook::{AllGone, Vacant, ValueSays, onlooker_error};
pub(crate) use permits::{Bound, SomePermits, agreed};
pub(crate) use persist::{Attempt, Progress, STEADY, grant};
pub(crate) use place::{Granted, Place};
pub(crate) use refusal::{lost_error, not_carried, refused, unanswered};
pub(crate) use round::{Inside, OneRound, RoundGone};
