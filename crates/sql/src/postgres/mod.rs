//! PostgreSQL: its functions, and how they are called.
//!
//! - `sql/`, [`text`]: the tables and functions.
//! - [`engine`], [`open`], `secure`, [`greeting`]: how a server is connected to, and whether it can serve locks.
//! - [`wire`], [`line`], [`values`], [`plain`], [`refusal`]: how a function is called, and why it may fail.
//! - [`hints`], [`tap`]: what the server tells by itself.

mod engine;
mod greeting;
mod hints;
mod line;
mod open;
mod plain;
mod refusal;
#[cfg(feature = "tls")]
mod secure;
mod tap;
mod text;
mod values;
mod wire;

pub(crate) use crate::engine::text::VERSION;
pub(crate) use engine::POSTGRES;
pub(crate) use wire::LISTENERS_MAX;
