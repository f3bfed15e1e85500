//! Backends with one planted bug each, or with a layout that carries few modes.

mod backend;
mod bug;
mod examinations;
mod fixture;
mod layout;
mod order;
mod remnants;
mod requests;
mod standing;
mod together;
mod values;

pub(crate) use bug::Bug;
pub(crate) use fixture::BuggyFixture;
pub(crate) use layout::Layout;
