//! Tests beyond the common suites of etcd: a balancer, the order of long queues, names that are used again, rights,
//! TLS, examinations, followers, restored snapshots, losses that are told late, servers in trouble, and servers that
//! are none.

mod access;
mod balanced;
mod client;
mod dropped;
mod examination;
mod following;
mod losses;
mod names;
mod operating;
#[path = "../support/operator.rs"]
mod operator;
mod order;
mod proxied;
mod restored;
mod strangers;
#[cfg(feature = "tls")]
mod tls;
mod trouble;
