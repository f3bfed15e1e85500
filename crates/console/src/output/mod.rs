//! Output of the commands on stdout: text tables and JSON.
//!
//! The JSON field names are stable, and tokens are strings in it, since many readers of JSON round large numbers. Text
//! that another process chose, such as its command's name, reaches a terminal only without its control characters.
//!
//! | file | what lives there |
//! | --- | --- |
//! | `locks` | a lock with its holders and waiters, for `ls` and `show` |
//! | `who` | one contender of it, and what an order did to it |
//! | `deadlocks`, `way_out` | contenders that wait for each other; how an operator ends that |
//! | `monitored`, `alerts` | locks as a monitor knows them, and what is wrong with them |
//! | `past` | who held what, as a monitor remembers it |
//! | `marks` | which locks something is wrong with, and the words that mark them |
//! | `text` | tables, durations and JSON; to stdout and stderr |

#[cfg(feature = "monitor")]
mod alerts;
#[cfg(any(feature = "monitor", feature = "top"))]
mod deadlocks;
mod locks;
#[cfg(any(feature = "monitor", feature = "top"))]
pub(crate) mod marks;
#[cfg(feature = "monitor")]
mod monitored;
#[cfg(feature = "monitor")]
mod past;
mod text;
#[cfg(any(feature = "monitor", feature = "top"))]
mod way_out;
mod who;

#[cfg(feature = "monitor")]
pub(crate) use alerts::{FiringAlerts, ToldAlert, breach, posted, summary};
#[cfg(any(feature = "monitor", feature = "top"))]
pub(crate) use deadlocks::DeadlockReport;
#[cfg(feature = "monitor")]
pub use deadlocks::Deadlocks;
#[cfg(feature = "monitor")]
pub(crate) use deadlocks::Headline;
#[cfg(feature = "top")]
pub(crate) use deadlocks::waiting;
pub(crate) use locks::kind;
pub use locks::{ListedLock, ShownLock, list};
#[cfg(feature = "monitor")]
pub(crate) use marks::tag;
#[cfg(any(feature = "monitor", feature = "top"))]
pub(crate) use marks::{LockMark, LockMarks};
#[cfg(feature = "monitor")]
pub(crate) use monitored::{AnswerAge, EventList, MonitoredLocks, MonitoredQueue};
#[cfg(feature = "monitor")]
pub(crate) use past::{PastAnswer, may_miss, missed, past_name};
#[cfg(any(feature = "monitor", all(test, feature = "top")))]
pub(crate) use text::is_harmful;
pub use text::{brief, json_line, one_line, print, print_json, say, table, write};
#[cfg(any(feature = "monitor", feature = "top"))]
pub use way_out::{OrderCommands, shell_line};
#[cfg(any(feature = "monitor", feature = "top"))]
pub(crate) use who::date;
#[cfg(feature = "monitor")]
pub(crate) use who::millis;
pub use who::{ContenderView, Deed, OrderReport};
