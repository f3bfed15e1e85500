//! The suite that every Lockkeeper backend passes.
//!
//! A backend's own tests make a [`Fixture`]: a fresh service, independent clients of it, and the harm that can be done
//! to them. Then a test binary without a harness (`harness = false`) hands it to [`run`]:
//!
//! ```no_run
//! use std::process::ExitCode;
//! use std::sync::Arc;
//! use lockkeeper_conformance::{Arguments, Fixture, run};
//! # async fn start_a_service() -> lockkeeper_core::Result<Arc<dyn Fixture>> { unimplemented!() }
//!
//! fn main() -> ExitCode {
//!     run(&Arguments::from_args(), || Box::pin(start_a_service()))
//! }
//! ```
//!
//! `examples/toy_backend.rs` is a whole backend with its fixture, in one short file.
//!
//! Each case is a sentence about behaviour. A case that needs harm which the fixture cannot do is shown as ignored,
//! with the reason. A case about harm that cannot happen to the service, or about a kind of lock that it does not
//! carry, is left out. Random cases print their seed;
//! [`SEED_VARIABLE`] in the environment repeats them.
//!
//! Other tests can use the parts too: [`Tap`] counts the calls of a backend and makes each of its answers yield,
//! and [`at_most`] drops a future after a number of polls. [`soon`] and [`until`] bound a wait and name what did not
//! come, and [`answered`] asks again what a busy service did not answer. A
//! [`Party`] is a keeper over a backend, with a [`Journal`] of what its observer heard; [`Joins`] only counts, and
//! [`crowd`] is one of many processes that wait for one lock. [`schedules`] plays every order of events up to a depth.
//! Planted bugs prove that the cases can fail, in [`planted`] and `tests/it/planted_bugs.rs`.

#![warn(clippy::exhaustive_enums, unnameable_types)]

mod ask;
mod case;
mod cases;
pub mod crowd;
mod fixture;
mod history;
mod journal;
mod memory;
mod party;
pub mod planted;
mod random;
mod runner;
pub mod schedules;
mod speaker;
mod tap;
mod waiting;

pub use ask::{Ask, Held, LOCK};
pub use case::{Case, Runtime};
pub use cases::cases;
pub use fixture::{Client, Fault, FaultKind, Fixture, Sessions};
pub use history::History;
pub use journal::{Joins, Journal, is_joined};
pub use libtest_mimic::Arguments;
pub use lockkeeper_recipes::Handoff;
pub use memory::MemoryFixture;
pub use party::{Party, Waiting, answered, granted};
pub use random::{Random, SEED_VARIABLE, seed};
pub use runner::{CASE_TIME_MAX, HANDOFFS, Outcome, run, run_case, run_under};
pub use tap::{Pace, Tap};
pub use waiting::{SOON, at_most, soon, until};
