//! Tests beyond the common suites of Redis: users and their rights, databases, services of several servers, servers
//! that are none, what an examination finds, and what one who follows is told.

mod client;
mod connection_services;
mod connection_strangers;
mod connection_users;
mod copies;
mod databases;
mod examining;
mod following;
mod mixed_timeouts;
mod reconnecting;
mod tracking_table;
