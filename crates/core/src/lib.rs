//! The waist of Lockkeeper: the words, and what a coordination service provides.
//!
//! A service gives an ordered queue of contenders that live as long as their session: [`Backend`] and [`Session`],
//! and shows them to operators: [`AdminBackend`].
//! [`memory`] is the reference of their semantics, and a test double. What a lock is stands above, in the crate
//! `lockkeeper-recipes`; users depend on `lockkeeper`. Authors of a backend need this crate, and the suite in
//! `lockkeeper-conformance` that says whether the backend is right.
//!
//! # What is not here
//!
//! No global state but a few random bytes of each thread for its next tickets, no background thread, and no task but
//! those of an [`Opener`] and of a [`Follower`].

#![warn(clippy::exhaustive_enums, unnameable_types)]

mod admin;
mod backend;
mod caller;
mod capabilities;
pub mod clock;
mod contender;
mod duration;
mod error;
mod finding;
mod follow;
mod future;
mod home;
mod liveness;
pub mod memory;
mod modes;
mod name;
mod opener;
#[doc(hidden)]
pub mod randomness;
mod requirement;
#[cfg(feature = "serde")]
mod serialized;
mod session_bond;
mod standing;
mod token;
pub mod url;
mod view;
mod wait;

pub use admin::AdminBackend;
pub use backend::{
    Backend, ENTRIES_MAX, Enqueued, Expected, Session, VALUE_BYTES_MAX, Value, ValueVersion, Values, Withdrawal,
};
pub use caller::{Caller, Flow, FlowKind, ProcessId, TicketHead};
pub use capabilities::{Capabilities, Exclusion, Fencing, Following, Removal, StoppedHolder};
pub use contender::{
    Answers, Contender, ContenderId, ContenderInfo, Departure, Entry, Lifetime, Mode, Owner, Rank, Request, Revocation,
    Ticket,
};
pub use duration::{parse_duration, parse_duration_with_unit};
pub use error::{Advice, Error, ErrorKind, Operation, Result};
pub use finding::{Finding, Remnant, RemnantKind, Scrutiny, Severity, UNUSED_FOR};
pub use follow::{EventSender, FollowEvent, Follower, LockSnapshot, PassedBetween, Picture, Scope, SilentSession};
pub use future::BoxFuture;
pub use home::Home;
pub use liveness::{Liveness, LossReason, SafeUntil};
pub use modes::Modes;
pub use name::{NAME_BYTES_MAX, NamePattern, Part, QueueName};
pub use opener::{Openable, Opener};
pub use requirement::Requirement;
pub use session_bond::{SessionBond, SessionMeter, SessionTimeout};
pub use standing::{LivenessAt, PlaceBond, Standing};
pub use token::{FencingToken, ParseTokenError};
pub use url::{ServiceUrl, UrlBuilder};
pub use view::{ConnectionNumber, Extent, Freshness, MutexRole, QueueView};
pub use wait::{Backoff, Wait, jittered};
