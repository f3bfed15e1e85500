//! Locks on ZooKeeper: the waist of `lockkeeper-core`, made of nodes, watches and sequence numbers.

mod backend;
mod belief;
mod change;
mod departure;
mod examine;
mod fitness;
mod follow;
mod inner;
mod inspect;
mod join;
mod listing;
mod look;
mod names;
mod owner;
mod paths;
mod place;
mod prover;
mod queue_data;
mod remnants;
mod removal;
mod request;
mod session;
mod settle;
mod shared_list;
mod shown;
mod standing;
mod trial;
mod value;
mod viewing;
mod wanted;
mod withdraw;

pub use backend::ZooKeeperBackend;
pub use paths::contender_path;
