//! One contender of this process for all of its tasks that wait for the same lock, and the line in which they wait.
//!
//! A *local queue* is asked for a *turn*. A turn is granted from the local queue's place in the service's queue,
//! and passes to the next task without a request.
//!
//! | file | what lives there |
//! | --- | --- |
//! | `line` | the tasks that wait, first come, first served |
//! | `state` | which task has the key, and what follows when a turn ends: rules, without I/O |
//! | `grant` | a place that was granted, and what turns have of the grant |
//! | `key` | the right to take a turn, which goes on to the next task when it is dropped |
//! | `acquire` | the way of a call to its turn |
//! | `leader` | one attempt at a place in the service's queue, for all |
//! | `turn` | what a guard has of the local queue, and its end |
//! | `watch` | what happens to the place while turns pass |
//! | `registry` | the local queues of one keeper |

mod acquire;
mod grant;
mod key;
mod leader;
mod line;
mod registry;
mod state;
mod turn;
mod watch;

#[cfg(test)]
mod tests;

pub(crate) use registry::LocalQueues;
pub(crate) use state::Bound;
pub(crate) use turn::{LocalGrant, LocalQueue};
