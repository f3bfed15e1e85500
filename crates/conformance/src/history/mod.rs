//! Histories of what contenders saw, and the checker of their rules.

mod check;
mod record;

pub use check::{Limits, Violation, check};
pub use record::{Asks, History, Record, What};
