//! What no common suite can know of etcd: the order of unawaited calls, names that are used again, rights, TLS,
//! examinations, restored snapshots, losses that are told late, servers in trouble, and servers that are none.

mod access;
mod examination;
mod losses;
mod names;
#[path = "../support/operator.rs"]
mod operator;
mod order;
mod restored;
mod strangers;
#[path = "../support/waist.rs"]
mod support;
#[cfg(feature = "tls")]
mod tls;
mod trouble;
