//! A session: its row in the database, its beats over one connection after the other, and until when it is believed.
//!
//! What locks do under it, `queue` knows; how a connection works, the engine.

mod beat;
mod belief;
mod core;
mod driver;
mod observation;
mod open;
mod others;
mod restore;
mod settling;
mod waits;

pub(crate) use self::belief::Timing;
pub(crate) use self::core::Core;
pub(crate) use self::observation::Shown;
pub(crate) use self::open::open;
pub(crate) use self::settling::{BRIEF, SESSION_TIMEOUT_MAX_DEFAULT};
pub(crate) use self::waits::{Told, Wake};

#[cfg(all(test, feature = "testing"))]
mod tests;

use crate::look::Lookout;

/// A connection that a session has been taken over to.
pub(crate) type Link = lockkeeper_session::Linked<Lookout>;

/// Makes a request and sends it over a connection.
pub(crate) type Make<T> = lockkeeper_session::Make<Link, T>;
