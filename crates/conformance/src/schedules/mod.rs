//! Every schedule up to a depth, for tests that leave nothing to chance.
//!
//! [`play_all`] is for worlds of futures, which cannot be copied: each schedule is played from scratch. [`explore`] is
//! for pure models: a state that was reached before is not explored again, so it goes deeper.

mod choices;
mod model;

pub use choices::{Novelty, play_all, play_menus};
pub use model::{Explored, ServiceModel, Wrong, explore};
