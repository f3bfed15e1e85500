//! A session: its record in the service, renewed over one connection after the other, and until when it is believed.
//!
//! What locks do under it, `queue` knows; how a connection works, `connection`.

mod belief;
mod core;
mod driver;
mod link;
mod open;
mod renewal;
mod replicas;
mod restore;
mod roll;

pub(crate) use self::belief::Timing;
pub(crate) use self::core::Core;
pub(crate) use self::link::Link;
pub(crate) use self::open::{Opening, open};
pub(crate) use self::replicas::{check as check_copies, copied};
pub(crate) use self::restore::{taught, teach};

use lockkeeper_session::Failure;

/// Makes a flight and sends it over a connection.
pub(crate) type Make<T> = lockkeeper_session::Make<Link, T, Failure>;
