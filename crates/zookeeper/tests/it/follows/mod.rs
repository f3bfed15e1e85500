//! Support for the tests of followers.

mod following;
mod older;

pub(crate) use following::{Following, end_of};
pub(crate) use older::OlderServer;
