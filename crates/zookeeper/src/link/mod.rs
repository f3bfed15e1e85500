//! The link between the task with the socket and its users: the session machine, and which caller waits for what.

mod call;
mod driving;
mod requests;
mod session;
mod state;

pub(crate) use call::{Answer, Call, Fired, Synced, if_there};
pub(crate) use session::{Link, holding_interval};
pub(crate) use state::{Happening, OnReply, Outcome, Phase, Then};
