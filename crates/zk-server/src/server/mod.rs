//! The server with its sockets: what tests start, and what `lockkeeper server` runs.
//!
//! - `embedded`: [`EmbeddedServer`], the handle, with its fault hooks; `looks`: what it tells of its state;
//! - `builder`: how one is set up;
//! - `core`: the one task that owns the machine; `control` has its commands, `delivery` says how outputs leave;
//! - `listening`: the sockets it listens on; `accepting`: how connections come in by them, `peers`: how many of one
//!   address;
//! - `transport`: TCP or TLS, of which `tls` is the server's side, behind the feature `tls`;
//! - `link`: one task a connection, over any byte stream;
//! - `clock`: tokio's time, so that a paused runtime pauses the server too.

mod accepting;
mod asked;
mod builder;
mod clock;
mod control;
mod core;
mod delivery;
mod embedded;
mod error;
mod link;
mod listening;
mod looks;
mod peers;
#[cfg(feature = "tls")]
mod tls;
mod transport;

pub use builder::ServerBuilder;
pub use embedded::EmbeddedServer;
pub use error::ServerError;
#[cfg(feature = "tls")]
pub use tls::{Tls, TlsError};
