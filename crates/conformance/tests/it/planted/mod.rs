//! Backends with one planted bug each, or with a layout that carries few modes.

mod backend;
mod calls;
mod fixture;
mod values;

pub(crate) use fixture::{Bug, BuggyFixture, Layout};
