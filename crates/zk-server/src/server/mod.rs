//! The server with its sockets: what tests start, and what `lockkeeper server` runs.
//!
//! - `embedded`: [`EmbeddedServer`], the handle, with its fault hooks;
//! - `builder`: how one is set up; `blocking`: one for a program without a runtime;
//! - `core`: the one task that owns the machine; `control` has its commands, `delivery` says how outputs leave;
//! - `listening`: the sockets it listens on, and how connections come in;
//! - `link`: one task a connection, over any byte stream; `tls`: the server's side of TLS, behind the feature `tls`;
//! - `clock`: tokio's time, so that a paused runtime pauses the server too.

mod blocking;
mod builder;
mod clock;
mod control;
mod core;
mod delivery;
mod embedded;
mod error;
mod link;
mod listening;
#[cfg(feature = "tls")]
mod tls;

pub use blocking::BlockingServer;
pub use builder::ServerBuilder;
pub use embedded::EmbeddedServer;
pub use error::ServerError;
#[cfg(feature = "tls")]
pub use tls::{Tls, TlsError};
