//! Surroundings for the tests of the command: the real binary, with a deadline for everything.
//!
//! - `place`: a simulated machine for the commands, with what these write down;
//! - `processes`: starting commands, listening to them, and striking them;
//! - `skips`: what a test needs of this machine;
//! - `slots`: many runs for one slot after the other;
//! - `waiting`: waiting with a deadline;
//! - `terminal`: a program on a pseudo-terminal.
//!
//! Each test binary compiles it; `it` uses all of it. Real servers of each service are in `services`, which is a module
//! of the binaries that start some.

mod place;
mod processes;
mod skips;
pub(crate) mod slots;
pub(crate) mod terminal;
mod waiting;

pub(crate) use place::Place;
pub(crate) use processes::*;
pub(crate) use skips::*;
pub(crate) use waiting::*;
