//! Following all locks of a scope: a service tells of each change, and what changed is read.
//!
//! `path_scheme` says which node belongs to which lock, and `model` keeps the known state of the locks; both are pure.
//! `pending` takes the events of watches, `reading` reads all or the changes, and `following` is the task that
//! does one after the other.

mod following;
mod model;
mod path_scheme;
mod pending;
mod reading;

pub(super) use following::follow;
