//! Locks on ZooKeeper: the waist of `lockkeeper-core`, spoken in nodes, watches and sequence numbers.

mod backend;
mod departure;
mod join;
mod look;
mod owner;
mod paths;
mod place;
mod prover;
mod session;
mod withdraw;

pub use backend::ZooKeeperBackend;
