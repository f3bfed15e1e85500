//! The contend loop under every order of events, on the memory backend, up to a stated depth.
//!
//! There is no runtime: futures are polled by hand, and only when they were woken, so that a lost wake-up is found.
//! Every sequence of enabled actions is run from scratch. After each step the invariants are checked. At the end all
//! connections heal, and every contender that still waits must be granted the lock. Where one poll makes several
//! requests, `awaits` injects a fault between each two of them.

pub(crate) mod asks;
mod awaits;
mod clock;
pub(crate) mod flag;
mod menus;
mod rules;
pub(crate) mod stage;
pub(crate) mod truth;
mod world;
