//! MariaDB and MySQL: their procedures, and how they are called.
//!
//! - `sql/`, [`text`]: the tables and procedures.
//! - [`engine`], [`open`], `secure`, [`greeting`]: how a server is connected to, and whether it can serve locks.
//! - [`wire`], [`call`], [`answer`], [`refusal`]: how a procedure is called, and why it may fail.
//! - [`ear`]: how a waiter is woken.

mod answer;
mod call;
mod engine;
mod greeting;
mod named_lock;
mod open;
mod refusal;
#[cfg(feature = "tls")]
mod secure;
#[cfg(test)]
mod tests;
mod text;
mod wire;

pub(crate) use crate::engine::text::VERSION;
pub(crate) use engine::MYSQL;
