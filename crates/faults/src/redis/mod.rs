//! Real Redis: one server alone.
//!
//! - [`Server`]: kill, stop, restart, pause, wipe.
//! - [`Server::ask`]: sends it a command, as an operator would, past every client under test.
//!
//! Servers listen on loopback, keep their data in a temporary folder, and die with the test.

mod asking;
mod server;
mod setup;

pub use server::Server;

use crate::{Availability, process};

/// Whether Debian's servers can be started here.
pub fn availability() -> Availability {
    process::availability().and(|| Availability::of_programs(&["redis-server"], "redis-server"))
}
