//! History of all locks: who held what and when, how long the queues were, and when nothing was seen. Pure.
//!
//! The model feeds it where it concludes that a contender was granted a lock or has gone; nothing is concluded here.
//!
//! | file | what lives there |
//! | --- | --- |
//! | `store` | what is kept, within a bound of memory |
//! | `records`, `hold` | one record; how a hold ended |
//! | `marks` | what else has happened: requests, freezes and alerts |
//! | `ring` | records in the order of time, each with the one before it of the same lock |
//! | `names` | each name once, as long as a record has it |
//! | `peaks` | how many waited for a lock in each of the last minutes |
//! | `steps` | changes of the lengths of queues that are to be written |
//! | `past` | what is read from it: holds, waits in vain, lengths of queues, gaps |
//! | `present` | the same with what goes on |
//! | `restart` | what is written and read over a restart |
//! | `kept` | the lines that keep it over a restart, which `lockkeeper verify` reads too |

mod hold;
mod kept;
mod marks;
mod names;
mod past;
mod peaks;
mod present;
mod records;
mod restart;
mod ring;
mod steps;
mod store;
#[cfg(test)]
mod tests;

pub use hold::{BlindGap, PastEnd, PastFreeze};
pub use past::{LengthStep, LockPast, PastContender, PastMark, PastQuery};
pub use peaks::PEAK_MINUTES;
pub use restart::lines_of;
pub(crate) use store::Departed;
pub use store::{HISTORY_BYTES_MAX, History};
