//! Load, and what it has shown: how much (`effort`), one call after the other (`calls`), many tasks (`crowd`), the
//! order of those that are compared (`turns`), and the figures' spread and distribution (`spread`, `latency`). Nothing
//! here knows what is measured.

mod calls;
mod crowd;
mod effort;
mod latency;
mod runtime;
mod spread;
mod turns;

pub(crate) use calls::{Calls, Stopwatch, per_second, timed};
pub(crate) use crowd::{Crowd, CrowdGrants};
pub(crate) use effort::Effort;
pub(crate) use latency::Latency;
pub(crate) use runtime::{one_thread, two_threads};
pub(crate) use spread::{Spread, median};
pub(crate) use turns::{Compared, SEED, Turns};
