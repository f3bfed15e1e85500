//! The suite itself: that its cases can fail, are chosen by what the service carries, cover what the peers test, and
//! stage the faults of the catalogue.

mod carried;
mod faults;
mod named;
mod parity;
mod planted_bugs;
