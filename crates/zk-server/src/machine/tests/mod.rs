//! The machine in virtual time: no socket, no clock, no task.

mod frames;
mod properties;
mod service;
mod sessions;
mod watches;
mod writes;
