//! Owner keys of one keeper that would wait for each other: the last one of a circle is refused.
//!
//! | file | what lives there |
//! | --- | --- |
//! | `table` | which keys hold what, and wait for what |
//! | `search` | the circle that a wait closes, found by reduction |
//! | `asking` | one call of a key: it notes its wait, asks, and forgets; and what a key has been granted |

mod asking;
mod search;
mod table;

pub(crate) use asking::{Asking, KeyHold};
pub(crate) use table::{KeyId, Table, Want};

#[cfg(test)]
mod tests;
