//! What the sessions of backends share where a service is asked over one connection after the other, each of which
//! keeps the order of what is sent.
//!
//! - [`Outbox`]: the order of the calls, also over a loss of the connection.
//! - [`Asking`]: a request that goes on if the caller gives it up.
//! - [`Entries`]: the session's own entries, from before they are sent until they are withdrawn.
//!
//! How a service is asked, and what of it a session may believe, is left to each backend.

mod asking;
mod entries;
mod outbox;
mod place;

pub use asking::Asking;
pub use entries::{Coverage, Entries, Entry, Joining, Progress};
pub use outbox::{Call, Link, Make, Outbox, SessionOver};
pub use place::{Place, PlaceStanding};
