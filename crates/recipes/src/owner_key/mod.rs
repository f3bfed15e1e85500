//! Locking again what an owner has: an owner known in this process alone, under which holds of one lock are counted.
//!
//! | file | what lives there |
//! | --- | --- |
//! | `key` | the owner, and what it may ask for |
//! | `places` | what one owner has, lock by lock |
//! | `reentrant` | the guard that is one of several on one hold |
//! | `running` | the owner that nested `run` closures have in common |

mod key;
pub(crate) mod multi_lock;
mod places;
mod reentrant;
mod run_under_lock;
mod running;

pub use key::OwnerKey;
pub use reentrant::Reentrant;

#[cfg(test)]
mod tests;
