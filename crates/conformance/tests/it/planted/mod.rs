//! Backends with one planted bug each.

mod backend;
mod bug;
mod fixture;
mod requests;
mod standing;
mod together;
mod values;

pub(crate) use bug::Bug;
pub(crate) use fixture::BuggyFixture;
