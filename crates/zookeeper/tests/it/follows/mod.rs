//! What the tests of followers share.

mod following;
mod older;

pub(crate) use following::{Following, end_of};
pub(crate) use older::OlderServer;
