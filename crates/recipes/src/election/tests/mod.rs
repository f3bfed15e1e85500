//! Elections, by hand and in Curator's two forms, on the memory backend under paused time.

mod latches;
mod selectors;
