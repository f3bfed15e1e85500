//! What the tests of the command share: the real binary in separate surroundings, with a deadline for everything.
//!
//! - `place`: a simulated machine for the commands; `run_place`: a place for runs, with what their commands write down;
//! - `processes`: starting commands, looking at processes and striking them;
//! - `waiting`: waiting with a deadline;
//! - `terminal`: a program on a pseudo-terminal.

#![allow(dead_code, unreachable_pub, unused_imports, reason = "each test binary uses a part")]

mod place;
mod processes;
pub mod run_place;
pub mod terminal;
mod waiting;

pub use place::Place;
pub use processes::{
    Ended, Holder, TestChild, copy_command, copy_program, ended, finish, is_alive, lockkeeper, send, state, wait,
};
pub use waiting::{PATIENCE, eventually, in_time, now, number_in};
