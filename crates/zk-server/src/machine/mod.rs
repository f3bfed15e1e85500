//! The server without I/O: inputs and the time go in, bytes to send and records to store come out.
//!
//! - `io`: the inputs and outputs;
//! - `server`: the machine itself: connections, frames, time;
//! - `dispatch`: from a frame to its reply, and how sessions begin and end; `reads`, `writes` are its parts;
//! - `reports`: four-letter words;
//! - `settings`: what is set, and how much there may be of each thing;
//! - `views`: what its driver sees and sets beside that;
//! - `state`: what outlives the process, and how a machine is made from it.

mod connection;
mod dispatch;
mod io;
mod reads;
mod reports;
mod server;
mod settings;
mod state;
mod views;
mod writes;

#[cfg(test)]
mod tests;

pub use io::{ClockReading, CloseReason, Input, Output, RequestHook, SeenRequest, SendKind};
pub use server::{Counters, ServerMachine};
pub(crate) use settings::UNREAD_BYTES_MAX;
pub use settings::{MachineSettings, MemoryLimits, UnknownWord, Word, WordSet};
pub use state::Seed;
pub(crate) use state::ServerState;
