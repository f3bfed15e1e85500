//! Watches: which connection hears of what.

mod table;
mod watches;

pub(crate) use watches::Watches;
