//! Names of contenders: how ours are written, which others are known, and in which order they stand. Pure.

mod name;
mod naming;
mod queue;

pub use name::ForeignPolicy;
pub(crate) use name::{Named, bare_ticket, is_curators, ticket_of};
pub(crate) use naming::{CURATOR_PERMITS, CURATOR_WAITERS, KAZOO_WAITERS, Naming, find_ticket};
pub use naming::{ElectionLayout, Layout};
pub(crate) use queue::{bare_permits, mode_in_line, read_queue};
