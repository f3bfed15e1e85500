//! The engine of sessions, for backends where a service is asked over one connection after the other.
//!
//! - [`Server`]: one server, as a URL names it, and a way to it: one of the addresses of its name.
//! - [`Finder`], [`Ways`], [`Names`]: which way is tried next and how long, round by round.
//! - [`at_home`]: a task that no fork goes on with.
//! - [`Socket`]: a connection over TCP or TLS. [`OwnStream`]: what is below it, of no use in a fork.
//! - [`Failure`]: why a request failed, and what that is to a caller. [`contained`]: a panic of a driver is one too.
//! - [`late`], [`in_time`], [`until`], [`share`], [`or_never`]: when an answer is late, and how the time that is left
//!   is shared.
//! - [`Site`]: a service, and what it is used with.
//! - [`Life`], [`keep`]: the life of a session, and the task that keeps it over one connection after the other.
//!   [`SessionTiming`]: what follows from its timeout.
//! - [`Record`], [`Ask`]: what is stored beside a contender for people. [`part_letter`], [`to_hexadecimal`]: parts of a
//!   lock and bytes as texts.
//! - [`OwnContenders`], [`News`]: a session's own contenders, and what is heard of them.
//! - [`Link`], [`Linked`]: a connection of a session. [`Unclaimed`]: what an opening has made, until a session has it.
//! - [`Make`]: a call, which keeps its place in the order of the calls also over a loss of the connection.
//! - [`Asking`]: a request that goes on if the caller gives it up.
//! - [`Onlooker`]: over which connection looks go that belong to no session. [`follow`]: those that go on and on,
//!   where [`Marks`] say what has changed.
//! - [`Clocks`], [`judge_round_trip`]: what every service is examined for.
//! - [`ClientTesting`]: means for tests to do harm to one client.
//! - [`QueueSession`], [`Service`]: queues of contenders over one session, and what a service must be able to do.
//!
//! How a service is asked, and what of it a session may believe, is left to each backend.
//!
//! # How it works
//!
//! What is the same wherever a session asks its service over one connection after the other.
//!
//! - **Ways** (`ways`, pure; `lookup`, `finder`, `dial`): each address of a name is a way, tried in rounds with shares
//!   of the time; the next session begins where the last attempt stopped. Where opening costs a service much, a process
//!   opens some at a time (`turns`). A `Socket` is TCP or TLS, and judges why there was none. Whether a server is the
//!   one that is looked for, the backend knows.
//! - **A session's life** (`life`, `keeping`): the task of `keep` uses a connection, finds the next one, takes the
//!   session over, and ends it; a backend says by `Keeping` how a connection is opened, used and taken over. Calls go
//!   out in order, also over a loss of the connection (`outbox`, `life/calls`), and none outlives its connection, also
//!   one that a driver has left in its queue (`asking`). What was begun at a server and is not used is ended there
//!   (`Unclaimed`).
//! - **Queues** (`queue`): the waist over a `Service`, which makes each call (a script on Redis, a statement in a
//!   database, a transaction on etcd, in the lane of its lock) and reads its answer. Joining until that is certain,
//!   leaving until the contender is gone, waiting for a departure or a change, and finding out why a contender of ours
//!   is gone stand here once.
//! - **Our own contenders** (`own_contenders`): which of them the next renewal asks for, and what is heard of them.
//! - **Looks** (`look`) without a session go over the last one's connection while it has one, else over a separate one.
//!   Followers connect again by one rule; what clocks and round trips say is judged once (`examine`).
//! - **Harm** (`site`): what tests do to a client, lost replies and planted bugs. Without the feature `testing` it
//!   does nothing.

mod asking;
mod dial;
mod examine;
mod failure;
mod finder;
mod hexadecimal;
mod keeping;
mod life;
mod link;
mod look;
mod lookup;
mod marks;
mod outbox;
mod own_contenders;
mod queue;
mod record;
mod server;
mod site;
mod task;
mod tcp;
mod timing;
mod turns;
mod ways;

pub use asking::{Asking, Unclaimed, answered, in_time, late, or_never, share, until, until_taken};
pub use dial::{AnswerMeter, Socket, Stream, connect_tcp};
pub use examine::{Clocks, FOR_TOKENS, judge_round_trip, median_round_trip};
pub use failure::{Effect, Failure, FailureKind, GIVE_CREDENTIALS};
pub use finder::Finder;
pub use hexadecimal::{from_hexadecimal, hexadecimal_number, to_hexadecimal};
pub use keeping::{FIRST_CONNECTION, Keeping, LAPSED_IS_ENDED_WITHIN, keep, runtime_for};
pub use life::{Beginning, Belief, Ending, Life, refuse};
pub use link::{Link, Linked, Lookable};
pub use look::{Follow, Onlooker, Onlooking, Sight, follow};
pub use lookup::{Lookup, Lookups, Names, resolve, within};
pub use marks::Marks;
pub use outbox::Make;
pub use own_contenders::{News, OwnContenders};
pub use queue::{
    Departing, Joined, Left, Own, Place, QueueSession, Queues, Refusal, Service, Stage, Stood, Stored, WATCH_AFTER,
    Watch, Young, anchor, outlives_session,
};
pub use record::{Ask, Record, WORD_BYTES_MAX, part_letter, shortened};
pub use server::Server;
pub use site::{Bug, ClientTesting, Site};
pub use task::{at_home, contained, of_task};
pub use tcp::{Closer, OwnStream, Tcp};
pub use timing::{SessionTiming, holding_interval};
pub use ways::{DialHistory, Order, Random, Ways};

pub(crate) use outbox::{CallOutbox, SessionCall};
