//! The screen, cell by cell: pure over what is to be shown.
//!
//! | file | what lives there |
//! | --- | --- |
//! | `frame` | where things stand, the lines at the head and at the foot |
//! | `tables` | the list of locks, and the queue of one |
//! | `texts` | what is wrong in full, the help, and the question before an order |
//! | `pen` | the only way to the cells: escaped, and cut where there is no room |

mod frame;
mod pen;
mod tables;
mod texts;

pub(super) use frame::{draw, fit};
