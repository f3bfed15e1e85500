//! The server without I/O: inputs and the time go in, bytes to send and records to store come out.
//!
//! - `io`: the inputs and outputs;
//! - `server`: the machine itself: connections, frames, time;
//! - `handshake`: how sessions begin, go on and end;
//! - `dispatch`: from a request to its reply; `reads`, `writes`, `multi`, `watching` are its parts;
//! - `reports`: four-letter words; `words` says which are answered;
//! - `settings`: what is set, `limits` how much there may be of each thing;
//! - `views`: what can be seen of it;
//! - `state`: what outlives the process, and how a machine is made from it.

mod connection;
mod dispatch;
mod handshake;
mod io;
mod limits;
mod multi;
mod reads;
mod reports;
mod server;
mod settings;
mod state;
mod views;
mod watching;
mod words;
mod writes;

#[cfg(test)]
mod tests;

pub use io::{ClockReading, CloseReason, Input, Output, RequestHook, SeenRequest, SendKind};
pub use limits::MemoryLimits;
pub(crate) use limits::UNREAD_BYTES_MAX;
pub use server::{Counters, ServerMachine};
pub use settings::MachineSettings;
pub use state::Seed;
pub(crate) use state::ServerState;
pub use words::{UnknownWord, Word, WordSet};
