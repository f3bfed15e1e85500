//! The long trials of all backends: holders in other processes, rivals behind them, rounds and their judge, and crowds
//! of waiters. Which servers there are, and what harm is done to them, each backend's trials know.
//!
//! Two hold a lock at once if the first one found that it held it after the second one was granted it. All processes of
//! a machine read one clock, so both moments can be compared.
//!
//! What does not come soon, or fails where it must not, ends the test with a panic that names it.
//!
//! - [`Service`]: how a backend's clients are made. A test binary [plays the other process](suite) too.
//! - [`Contest`]: a [`Holder`] and the [`Rival`] behind it, from the first grant to the second: an [`Outcome`].
//! - [`rounds`]: many of them; [`Tally`]: what they have shown together.
//! - [`deaths`]: holders that die, stand still or are cut off, on any service.
//! - [`crowd`]: thousands of waiters of ten processes; [`waits`]: thousands of waits of one session; [`Cost`]: what a
//!   call costs behind very many others.
//! - [`late`]: what a write that is taken in late does to the next contender.
//! - [`Onlooker`]: one that follows all locks; [`Passers`]: clients that come and go meanwhile.
//! - [`fixture`]: what fixtures of the conformance suite share.
//! - [`outage`]: waiters of ten processes live through one.
//! - [`suite`]: the `main` of test binaries.
//! - [`waist`]: sessions and entries, for trials below the recipes.

mod contest;
mod cost;
pub mod crowd;
pub mod deaths;
pub mod fixture;
mod holder;
pub mod late;
mod onlooker;
pub mod outage;
mod passers;
mod prize;
mod program;
mod rival;
pub mod rounds;
mod service;
pub mod suite;
mod tally;
pub mod waist;
pub mod waits;

pub use contest::{Contest, Ends};
pub use cost::Cost;
pub use holder::{End, Holder};
pub use onlooker::Onlooker;
pub use passers::Passers;
pub use rival::{Granted, Rival};
pub use service::{Service, now};
pub use tally::{Outcome, Span, Tally, none_of, span};
