//! The engine of sessions, for backends where a service is asked over one connection after the other.
//!
//! - [`Server`]: one server, as a URL names it, and a way to it: one of the addresses of its name.
//! - [`Finder`], [`Ways`], [`Names`]: which way is tried next and how long, round by round.
//! - [`Socket`]: a connection over TCP or TLS.
//! - [`Failure`]: why a request failed, and what that is to a caller.
//! - [`late`], [`share`], [`or_never`]: when an answer is late, and how the time that is left is shared.
//! - [`Site`]: a service, and what it is used with.
//! - [`Life`], [`keep`]: the life of a session, and the task that keeps it over one connection after the other.
//! - [`Record`], [`Ask`]: what is stored beside a contender for people.
//! - [`Roll`], [`News`]: a session's own contenders, and what is heard of them.
//! - [`Link`], [`Linked`]: a connection of a session. [`Unclaimed`]: what an opening has made, until a session has it.
//! - [`Make`]: a call, which keeps its place in the order of the calls also over a loss of the connection.
//! - [`Asking`]: a request that goes on if the caller gives it up.
//! - [`Onlooker`]: over which connection looks go that belong to no session. [`follow`]: those that go on and on.
//! - [`Clocks`], [`judge_round_trip`]: what every service is examined for.
//! - [`Testing`]: means for tests to do harm to one client.
//! - [`QueueSession`], [`Service`]: queues of contenders over one session, and what a service must be able to do.
//!
//! How a service is asked, and what of it a session may believe, is left to each backend.

mod asking;
mod belief;
mod deadline;
mod dial;
mod examine;
mod failure;
mod finder;
mod follow;
mod keeping;
mod life;
mod link;
mod look;
mod lookup;
mod mutex;
mod outbox;
mod queue;
mod record;
mod roll;
mod server;
mod site;
mod testing;
mod unclaimed;
mod ways;

pub use asking::{Asking, answered};
pub use belief::Belief;
pub use deadline::{late, or_never, share};
pub use dial::{Meter, Socket, Stream, connect_tcp};
pub use examine::{Clocks, FOR_TOKENS, judge_round_trip, median_round_trip};
pub use failure::{Effect, Failure, FailureKind};
pub use finder::Finder;
pub use follow::{Follow, follow};
pub use keeping::{FIRST_CONNECTION, Keeping, keep, runtime_for};
pub use life::{Beginning, Ending, Life, refuse};
pub use link::{Link, Linked, Lookable};
pub use look::{Onlooker, Onlooking, Sight};
pub use lookup::{Lookup, Lookups, Names, resolve, within};
pub use mutex::Mutex;
pub use outbox::Make;
pub use queue::{
    Departing, Joined, Left, Own, Place, QueueSession, Queues, Refusal, Service, Stage, Stood, Stored, Watch,
};
pub use record::{Ask, Record, shortened};
pub use roll::{News, Roll};
pub use server::Server;
pub use site::Site;
pub use testing::{Bug, Testing};
pub use unclaimed::Unclaimed;
pub use ways::{Order, Random, Trail, Ways, pause_after};

pub(crate) use outbox::{Call, Outbox};
