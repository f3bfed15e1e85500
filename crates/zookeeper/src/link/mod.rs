//! The link between the task with the socket and its users: the session machine, and which caller waits for what.

mod call;
mod length;
mod requests;
mod session;
mod state;
mod worth;

pub(crate) use call::{Answer, Call, Fired, Synced, if_there};
pub(crate) use session::{Link, Phase};
pub(crate) use state::{Happening, OnReply, Outcome, Then};
pub(crate) use worth::holding_interval;
