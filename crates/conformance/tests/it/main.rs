//! The suite itself: that its cases can fail, and that they cover what the peers test.

mod parity;
mod planted;
mod planted_bugs;
