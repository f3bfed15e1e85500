//! The one counter of a base directory: who takes a number, in whatever queue, gets a greater one than all before.

mod file;
mod record;

pub(crate) use file::{Counter, Numbering, boot_id};
pub(crate) use record::BootId;
