//! What the tests of the command share: the real binary in separate surroundings, with a deadline for everything.
//!
//! - `place`: a simulated machine for the commands; `run_place`: a place for runs, with what their commands write down;
//! - `processes`: starting commands, looking at processes and striking them;
//! - `waiting`: waiting with a deadline;
//! - `terminal`: a program on a pseudo-terminal.
//!
//! Each test binary compiles it; `it` uses all of it.

mod place;
mod processes;
pub(crate) mod run_place;
pub(crate) mod terminal;
mod waiting;

pub(crate) use place::Place;
pub(crate) use processes::*;
pub(crate) use waiting::*;
