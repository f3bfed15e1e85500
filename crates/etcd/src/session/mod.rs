//! One session: a lease that is kept alive, until when it may be believed, and the order of what is asked under it.
//!
//! - `belief`: the rule, pure.
//! - `core`: what all parts of a session share.
//! - `lanes`: the order of the calls.
//! - `link`: one connection of a session.
//! - `restore`: takes a session over to another connection.
//! - `renewal`: keeps the lease alive, and proves it. `elsewhere`: over another member too, where one does not answer.
//! - `driver`: connects again, and ends the session.
//! - `open`: grants the lease, and starts the driver.
//!
//! What is stored for locks, and what is asked of them, is left to `queue`.

mod belief;
mod core;
mod driver;
mod elsewhere;
mod lanes;
mod link;
mod open;
#[cfg(test)]
mod promotion_tests;
mod renewal;
mod restore;

pub(crate) use belief::Timing;
pub(crate) use core::Core;
pub(crate) use lanes::Removal;
pub(crate) use link::{Begun, Epoch, Link, first_offset, header};
pub(crate) use open::open;
