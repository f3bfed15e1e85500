//! The link between the task with the socket and its users: the session machine, and which caller waits for what.

mod call;
mod driving;
mod requests;
mod session;
mod state;

pub(crate) use call::{CallAnswer, ClientCall, Synced, WatchWait, if_there};
pub(crate) use session::SessionLink;
pub(crate) use state::{Happening, LinkPhase, OnReply, RequestOutcome, Then};
