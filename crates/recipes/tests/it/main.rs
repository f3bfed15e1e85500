//! The recipes on the memory backend: under every order of events, and dropped at every await point.

mod handoff;
mod own_locks;
mod schedule;
