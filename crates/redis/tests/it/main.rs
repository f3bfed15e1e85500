//! What no common suite can know of Redis: users and their rights, services of several servers, and servers
//! that are none.

mod connection_services;
mod connection_strangers;
mod connection_users;
#[path = "../support/waist.rs"]
mod support;
