//! Locks that pass from task to task within a process, under every order of events, up to a stated depth.
//!
//! Three tasks share a local queue, and another keeper's call waits in the service's queue for itself. Futures are
//! polled by hand, the local queue's watches too, and only when they were woken. After each step the rules are checked.

mod menus;
mod rules;
mod world;
