//! What no common suite can know of etcd: a balancer, the order of unawaited calls, names that are used again, rights,
//! TLS, examinations, followers, restored snapshots, losses that are told late, servers in trouble, and servers that
//! are none.

mod access;
mod balanced;
#[path = "../support/client.rs"]
mod client;
mod examination;
mod following;
#[path = "../support/keys.rs"]
mod keys;
mod losses;
mod names;
#[path = "../support/onlooker.rs"]
mod onlooker;
mod operating;
#[path = "../support/operator.rs"]
mod operator;
mod order;
mod remnants;
mod restored;
mod strangers;
#[cfg(feature = "tls")]
mod tls;
mod trouble;
