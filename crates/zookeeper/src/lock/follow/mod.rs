//! Following all locks of a scope: a service tells of each change, and what changed is read.
//!
//! `path_scheme` says which node belongs to which lock, and `model` keeps the known state of the locks; both are pure.
//! `reading` marks what the events of watches name, and reads all or the changes; `following` is the task that does one
//! after the other.

mod following;
mod model;
mod path_scheme;
mod reading;

pub(super) use following::follow;
