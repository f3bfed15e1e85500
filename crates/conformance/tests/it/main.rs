//! The suite itself: that its cases can fail, are chosen by what the service carries, and cover what the peers test.

mod carried;
mod parity;
mod planted_bugs;
