//! An operator's orders to one lock, apart from who gives them: a command, a page, a screen.
//!
//! | file | what lives there |
//! | --- | --- |
//! | `operator` | what all of them need: who holds a lock, as what it is used, how it is said that nothing was done |
//! | `seen` | orders that meet the contender that was seen, and no other |

mod operator;
#[cfg(any(feature = "monitor", feature = "top"))]
mod seen;

pub use operator::Operator;
#[cfg(any(feature = "monitor", feature = "top"))]
pub(crate) use seen::{OperatorOrder, SeenContender, Undone};
