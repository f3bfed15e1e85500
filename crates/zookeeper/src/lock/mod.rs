//! Locks on ZooKeeper: the waist of `lockkeeper-core`, made of nodes, watches and sequence numbers.

mod backend;
mod census;
mod ensemble;
mod examine;
mod follow;
mod inspect;
mod join;
mod owner;
mod paths;
mod place;
mod prover;
mod queue_data;
mod remnants;
mod request;
mod session_core;
mod settle;
mod shared_list;
mod shown;
mod trial;
mod value;
mod viewing;
mod waits;
mod withdraw;

pub use backend::ZooKeeperBackend;
pub use paths::contender_path;
