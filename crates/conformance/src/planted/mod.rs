//! Backends with one planted bug each, or with a layout that carries few modes: proof that a suite can fail.

mod backend;
mod bug;
mod calls;
mod fixture;
mod layout;
mod values;

pub use backend::BuggyBackend;
pub use bug::Bug;
pub use fixture::BuggyFixture;
pub use layout::Layout;
