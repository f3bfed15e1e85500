//! etcd's calls over one connection: what is asked, how it is answered, and why it fails.
//!
//! One connection is one socket to one member; it never comes back. Which member, and what is done when a connection is
//! lost, is left to `session` and to the backend.

mod call;
mod connection;
mod failure;
mod keepalive;
mod request;
mod watches;

pub(crate) use call::{Answer, Call};
pub(crate) use connection::Connection;
pub(crate) use failure::no_room;
pub(crate) use keepalive::KeepAlive;
pub(crate) use request::{
    absent, created_at, delete, exists, group, key_range, modified_at, operation, prefix_end, prefix_range, put, txn,
};
pub(crate) use watches::{Subscriber, Watch, WatchEvent, Watched, Watches};
