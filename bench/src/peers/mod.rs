//! What ours is compared with, a file each.

pub(crate) mod bare_calls;
