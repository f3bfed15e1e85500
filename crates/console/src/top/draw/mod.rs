//! The screen, cell by cell: pure over what is to be shown.
//!
//! | file | what lives there |
//! | --- | --- |
//! | `frame` | where things stand, the lines at the head and at the foot |
//! | `list` | the locks |
//! | `queue` | one lock's contenders |
//! | `texts` | what is wrong in full, and the help |
//! | `question` | what is asked before an order |
//! | `pen` | the only way to the cells: escaped, and cut where there is no room |

mod frame;
mod list;
mod pen;
mod question;
mod queue;
mod texts;

pub(super) use frame::{draw, fit};
