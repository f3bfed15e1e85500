//! What no common suite can know of Redis: users and their rights, and servers that are none.

mod connection_strangers;
mod connection_users;
#[path = "../support/waist.rs"]
mod support;
