//! The locks that are put through the faults, and how each is used: as its documentation says.
//!
//! Each file has one of them: the program of a contender, and what it asks to know whether it holds the lock.

mod curator;
mod etcdctl;
mod flock;
mod kazoo;
mod ours;
mod postgres;
mod redis_py;
mod rival;
mod rslock;

pub(crate) mod own;

pub(crate) use rival::{Owner, Place, Rival, TIMEOUT};

/// All of them, in the order of the table.
pub(crate) const ALL: &[Rival] = &[
    ours::ZOOKEEPER,
    curator::RIVAL,
    kazoo::RIVAL,
    ours::ETCD,
    etcdctl::RIVAL,
    ours::REDIS,
    rslock::RIVAL,
    redis_py::RIVAL,
    ours::POSTGRES,
    postgres::SHEDLOCK,
    postgres::ADVISORY,
    ours::FILES,
    flock::RIVAL,
];
