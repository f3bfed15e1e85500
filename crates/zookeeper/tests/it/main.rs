//! Tests of the client and the locks on a server, or under time that the test controls.
//!
//! The modules `apache` and `embedded` choose the server: the tests in `both` run in each. All run side by side; those
//! that leave Apache's server as it is share one. Tests that measure are in `timed`, and the long ones in `crowd` and
//! `faults`.

mod apache;
mod dial;
mod embedded;
mod follows;
mod mixed;
mod older;
mod opening;
mod relays;
mod shared_lists;
#[path = "../support/mod.rs"]
mod support;
#[cfg(feature = "tls")]
mod tls;
mod virtual_time;
