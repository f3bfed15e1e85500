//! Elections: one of many candidates leads, and the next one when it is gone.
//!
//! | file | what lives there |
//! | --- | --- |
//! | `recipe` | to campaign, to lead, to resign |
//! | `changes` | who leads, for onlookers |
//! | `campaign` | the task that campaigns again and again |
//! | `latch` | Curator's leader latch: to lead until closed |
//! | `selector` | Curator's leader selector: to run something while leading |

mod campaign;
mod changes;
mod latch;
mod recipe;
mod selector;
#[cfg(test)]
mod tests;

pub use campaign::Requeue;
pub use changes::LeaderChanges;
pub use latch::{CloseMode, LatchChanges, LatchEvent, LeaderLatch};
pub use recipe::{Election, Leadership};
pub use selector::LeaderSelector;
