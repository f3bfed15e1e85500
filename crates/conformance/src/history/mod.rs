//! Histories of what contenders saw, and the checker of what must be true of them.

mod check;
mod record;

pub use check::{Limits, Violation, check};
pub use record::{Asks, History, Record, What};
