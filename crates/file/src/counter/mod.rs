//! The one counter of a base directory: each number, in any queue, is greater than all numbers before it.

mod file;
mod record;

pub(crate) use file::{Counter, Numbering, boot_id};
pub(crate) use record::BootId;
