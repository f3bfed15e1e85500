//! What the tests of the commands share: the real binary in separate surroundings, with a deadline for everything.

#![allow(dead_code, unreachable_pub, unused_imports, reason = "each test binary uses a part")]

mod place;
mod processes;

pub use place::Place;
pub use processes::{Ended, Holder, TestChild, finish, in_time, wait};
