//! MariaDB's procedures and connections on a real server.
//!
//! A planted fault is a procedure whose text was changed: it shows that the test beside it can fail.

mod clocks;
mod facts;
mod greetings;
mod places;
#[cfg(feature = "tls")]
mod secured;
mod states;
mod support;
mod views;
mod wires;
