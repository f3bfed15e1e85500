//! Fleets that mix ours with real clients of other libraries, on Apache's server.

mod fleet;
mod following;
mod kinds;
mod orders;
mod pairs;
mod raw;
mod values;
