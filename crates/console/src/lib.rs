//! The console of the `lockkeeper` command: what it shows of all locks, and an operator's orders to them.
//!
//! | module | what lives there |
//! | --- | --- |
//! | `monitor` | the monitor by HTTP: the page, the answers for programs, alerts and who is told of them |
//! | `top` | the busiest locks on a terminal |
//! | `ordering` | an operator's orders to one lock, whichever way they come |
//! | `output` | contenders, locks, deadlocks and alerts as text and as JSON, for the commands too |
//! | `args`, `config` | the options and the settings of all these |
//! | `exit`, `process` | exit codes; a port that is listened on, the service manager |
//!
//! It serves the command alone. Users of locks depend on `lockkeeper`.
//!
//! # How it works
//!
//! `lockkeeper deadlocks` prints what `crates/monitor` finds (`output/deadlocks.rs`, `output/way_out.rs`). The page
//! (`monitor/page`) is HTML that the server renders; `live` renders what has changed once for all open pages, and each
//! is told by server-sent events, whose bytes all share. Its script alters what differs in place, and its style has a
//! browser skip rows that are not on the screen. Pictures of who waits for whom are laid out in `crates/monitor`
//! (`picture`, `layout`), pure. With `--operate` the page and programs give orders (`monitor/operate`): decisions on
//! tokens, sessions and origins are pure. What an order does is in `ordering`, which the commands share; an order of a
//! page is conditional on the contender that was seen. `lockkeeper monitor` serves what its `Collector` knows
//! (`monitor`, `output/monitored.rs`): it follows the locks where the backend's `follow` tells of changes, and looks
//! again and again where it does not. `model.rs`, pure, keeps since when each holder was seen to hold, what has
//! happened, and how often each lock was lost, where a follower tells that (files: `follow/held.rs`; databases:
//! `follow/signs.rs`); `alerts`, pure too, makes one alert of what is wrong now and then, and its `desk` says what this
//! monitor's receivers are told of it. Of several monitors one sends (`sender.rs`), and each writes down first what it
//! tells (`notes.rs`).
//!
//! `lockkeeper top` (`top`) shows what such a `Collector` knows on a terminal. `live` alone does anything: it reads
//! what is known into a `Sight`, hands keys to `App`, draws, and carries out orders by `ordering`, as the commands do.
//! `App`, `Cursor`, `Question`, `Sight` and `draw` are pure, and tested on a screen in memory. All text reaches the
//! cells through `draw/pen.rs`, which escapes it. `screen.rs` has the terminal's modes: a guard and a panic hook give
//! them back.

pub mod args;
pub mod config;
pub mod exit;
#[cfg(feature = "monitor")]
pub mod monitor;
pub mod ordering;
pub mod output;
pub mod process;
#[cfg(feature = "top")]
pub mod top;

pub use process::tell_manager;
