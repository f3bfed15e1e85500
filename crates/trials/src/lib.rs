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
//! - [`rounds`]: many of them, and the [`Tally`] of what they show.
//! - [`deaths`]: holders that die, stand still or are cut off, on any service.
//! - [`crowd`]: thousands of waiters of ten processes; [`Cost`]: what a call costs behind very many others.
//! - [`late`]: what a write that is taken in late does to the next contender.
//! - [`Onlooker`]: one that follows all locks; [`Passers`]: clients that come and go meanwhile.
//! - [`fixture`]: what fixtures of the conformance suite share.
//! - [`outage`]: waiters of ten processes live through one.
//! - [`storm`]: thousands of sessions of twenty processes live through one, and all come back.
//! - [`suite`]: the `main` of test binaries.
//! - [`waist`]: sessions and entries, for trials below the recipes, and thousands of waits of one session.

mod contest;
pub mod crowd;
pub mod deaths;
pub mod fixture;
pub mod late;
pub mod members;
mod onlooker;
pub mod outage;
mod passers;
pub mod records;
pub mod rounds;
mod service;
pub mod storm;
pub mod suite;
pub mod waist;

pub use contest::{Contest, End, Ends, Granted, Holder, Rival};
pub use onlooker::Onlooker;
pub use passers::Passers;
pub use rounds::{Outcome, Span, Tally, none_of, span};
pub use service::{Service, now};
pub use waist::Cost;
