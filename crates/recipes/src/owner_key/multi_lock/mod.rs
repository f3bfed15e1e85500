//! Several locks at once: all of them, or none.
//!
//! | file | what lives there |
//! | --- | --- |
//! | `locks` | how they are taken, in one order |
//! | `member` | one of the locks, and where it stands in the order |
//! | `guard` | the proof of holding them all |

mod guard;
mod locks;
mod member;

pub use guard::MultiGuard;
pub use locks::MultiLock;
pub use member::Member;

#[cfg(test)]
mod tests;
