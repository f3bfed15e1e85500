//! The locks that ours is compared with, a file each.

pub(crate) mod etcd_calls;
pub(crate) mod redis;
pub(crate) mod sql;
pub(crate) mod zookeeper;
