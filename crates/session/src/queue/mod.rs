//! Queues of contenders as locks see them, over one session: the waist of `lockkeeper-core`, on each service whose
//! calls go out in order over one connection after the other.
//!
//! - `service`: what a service must be able to do for it. `session`: the waist's methods.
//! - `queues`: what the calls share. `entries`, `place`: our own contenders.
//! - `join`, `leave`, `change`, `departure`: the calls that take more than one request.
//!
//! How a queue lies in a service, and how its answers read, the backend knows; which contender may go, the recipes.

mod change;
mod departure;
mod entries;
mod join;
mod leave;
mod place;
mod queues;
mod service;
mod session;

pub use departure::Departing;
pub use place::{Own, Place};
pub use queues::Queues;
pub use service::{Joined, Left, Refusal, Service, Stage, Stood, Stored, Watch};
pub use session::QueueSession;
