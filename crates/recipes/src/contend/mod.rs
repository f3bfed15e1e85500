//! The way to a grant: join, decide, wait for the one ahead, decide again.
//!
//! | file | what lives there |
//! | --- | --- |
//! | `place` | the ticket that is withdrawn when it is dropped: all cancellation is handled there |
//! | `line` | a place in the one queue of a lock, and the wait in it |
//! | `attempt` | one attempt at such a place, from its join to its grant |
//! | `evict` | the eviction of an idle holder, for a call that does not wait |
//! | `onlook` | waiting without a place |
//! | `persist` | attempts until one succeeds, fails permanently, or the time is up |
//! | `refusal` | the errors when a lock cannot be made, or a place not be taken or kept |

mod attempt;
mod evict;
mod line;
pub(crate) mod local_queue;
mod onlook;
mod persist;
mod place;
mod refusal;

pub(crate) use attempt::{InLine, Pending, PlaceAttempt};
pub(crate) use line::{Joined, OnePlace, entry, join_beside};
pub(crate) use onlook::{AllGone, Vacant, ValueSays, onlooker_error};
pub(crate) use persist::{Attempt, Failures, Progress, STEADY, grant, until_answered};
pub(crate) use place::{Granted, Place};
pub(crate) use refusal::{
    check_standing, check_with_reason, kind_mismatch, lost_error, not_carried, refused, removed, unanswered,
};
