//! PostgreSQL's functions and connections on a real server.
//!
//! A planted fault is a function whose text was changed: it shows that the test beside it can fail.

mod clocks;
mod facts;
mod greetings;
mod lives;
mod places;
mod states;
mod support;
mod views;
mod wires;
