//! Names of contenders: how ours are written, whose are known, and in which order they stand. Pure.

mod name;
mod queue;

pub use name::{ForeignPolicy, Layout};
pub(crate) use name::{Named, ticket_of};
pub(crate) use queue::read_queue;
