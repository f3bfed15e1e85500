//! A session: its record in the service, renewed over one connection after the other, and until when it is believed.
//!
//! What locks do under it, `queue` knows; how a connection works, `connection`.

mod belief;
mod core;
mod driver;
mod open;
mod renewal;
mod replicas;
mod restore;

pub(crate) use self::belief::Timing;
pub(crate) use self::core::Core;
pub(crate) use self::open::open;
pub(crate) use self::replicas::{check as check_copies, copied};
pub(crate) use self::restore::{taught, teach};

use crate::connection::Connection;

/// A connection that a session has been taken over to.
pub(crate) type Link = lockkeeper_session::Linked<Connection>;

/// Makes a batch and sends it over a connection.
pub(crate) type Make<T> = lockkeeper_session::Make<Link, T>;
