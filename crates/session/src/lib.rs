//! What the sessions of backends share where a service is asked over one connection after the other.
//!
//! - [`Server`]: one server, as a URL names it, and a way to it: one of the addresses of its name.
//! - [`Finder`], [`Ways`], [`Names`]: which way is tried next and how long, round by round.
//! - [`Socket`]: a connection over TCP or TLS.
//! - [`Failure`]: why a request failed, and what that is to a caller.
//! - [`late`], [`share`]: when an answer is late, and how the time that is left is shared.
//! - [`Life`], [`keep`]: the life of a session, and the task that keeps it over one connection after the other.
//! - [`Record`], [`Ask`]: what is stored beside a contender for people.
//! - [`Outbox`]: the order of the calls, also over a loss of the connection.
//! - [`Asking`]: a request that goes on if the caller gives it up.
//! - [`Onlooker`]: over which connection looks go that belong to no session.
//! - [`QueueSession`], [`Service`]: queues of contenders over one session, and what a service must be able to do.
//!
//! How a service is asked, and what of it a session may believe, is left to each backend.

mod asking;
mod backoff;
mod belief;
mod deadline;
mod dial;
mod failure;
mod finder;
mod keeping;
mod life;
mod look;
mod lookup;
mod outbox;
mod queue;
mod record;
mod server;
mod ways;

pub use asking::Asking;
pub use backoff::Backoff;
pub use belief::Belief;
pub use deadline::{late, share};
pub use dial::{Meter, Socket, Stream, connect_tcp};
pub use failure::{Effect, Failure, FailureKind};
pub use finder::Finder;
pub use keeping::{Keeping, keep};
pub use life::{Beginning, Ending, Life, refuse};
pub use look::{Lookable, Looking, Onlooker};
pub use lookup::{Lookup, Lookups, Names, resolve, within};
pub use outbox::{Call, Link, Make, Outbox, SessionOver};
pub use queue::{
    Departing, Joined, Left, Own, Place, QueueSession, Queues, Refusal, Service, Stage, Stood, Stored, Watch,
};
pub use record::{Ask, Record};
pub use server::Server;
pub use ways::{Order, Random, Trail, Ways, pause_after};
