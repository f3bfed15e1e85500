//! The harness against the real things: servers, and the peers' clients on them.

mod clocks;
mod databases;
mod etcd;
mod mariadb;
mod peers;
mod pgbouncer;
mod postgres;
#[path = "../raw/mod.rs"]
mod raw;
mod redis;
mod smoke;
