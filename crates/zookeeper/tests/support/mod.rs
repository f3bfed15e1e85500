//! Support for the tests against servers, in `it` and in `timed`.

mod bench;
pub(crate) mod server;
pub(crate) mod turns;
pub(crate) mod waist;
pub(crate) mod way;

pub(crate) use bench::Bench;
pub(crate) use server::Make;
