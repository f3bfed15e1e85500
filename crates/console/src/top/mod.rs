//! `top`: the busiest locks on a terminal, live, and an operator's orders to them.
//!
//! | file | what lives there |
//! | --- | --- |
//! | `live` | the loop: what is known, keys, signals and orders come in, the screen goes out |
//! | `screen` | the terminal's modes, which come back however `top` ends |
//! | `input` | from what a terminal sends to keys |
//! | `sight` | what is known of the locks, as what is to be shown |
//! | `past` | what was of a lock
//! | `contender` | one contender of it |
//! | `problems` | what is wrong, the worst first |
//! | `query` | which locks are listed, in which order, and which is chosen |
//! | `app` | what is on the screen, and what a key does to it |
//! | `question` | what is asked before an order |
//! | `draw` | the screen, cell by cell |
//!
//! All but `live` and `screen` is pure: what was seen, keys and the time come in, and no terminal is needed to test it.

mod app;
mod contender;
mod draw;
mod input;
mod live;
mod past;
mod problems;
mod query;
mod question;
mod screen;
mod sight;
#[cfg(test)]
mod tests;

pub use live::{JobStop, run};
