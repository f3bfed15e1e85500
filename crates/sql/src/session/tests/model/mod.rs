//! Every schedule of two or three sessions and a failing database, up to a depth: never two holders.
//!
//! The rules of belief, of observation and of settling are those of the sessions; the database is a model of what its
//! functions do. `menus` has what is explored, `flaw` the wrong rules that must be found.

mod actions;
mod answer;
mod client;
mod ending;
mod flaw;
mod menus;
mod server;
mod world;
