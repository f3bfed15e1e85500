//! What the client and the locks do on a server, or under time that the test controls.
//!
//! The tests run side by side: those that measure are in `timed`. Those that leave the server as it is share one.

mod apache;
mod dial;
mod embedded;
mod mixed;
mod opening;
mod shared_lists;
#[path = "../support/mod.rs"]
mod support;
#[cfg(feature = "tls")]
mod tls;
mod virtual_time;
