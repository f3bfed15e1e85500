//! The locks that ours is compared with, a file each.

pub(crate) mod advisory;
pub(crate) mod bare_calls;
pub(crate) mod bare_socket;
pub(crate) mod etcd_calls;
pub(crate) mod rslock;
pub(crate) mod set_nx;
pub(crate) mod shedlock;
pub(crate) mod zookeeper_client;
