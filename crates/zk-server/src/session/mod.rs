//! Sessions: their ids and passwords, until when they live, and which connection they are on.

mod expiry;
mod table;

pub(crate) use table::SessionTable;
