//! One connection to a server: what is sent over it and in which order, what it is told unasked, and why a request
//! failed.
//!
//! A connection is one socket, which never comes back. Which server has the keys is found here too; what is done when a
//! connection is lost, and what the scripts do, is left to the session.

mod answer;
mod batch;
mod failure;
mod find;
mod greeting;
mod marks;
mod open;
#[cfg(test)]
mod tests;
mod tracking;
mod wire;

pub(crate) use answer::answer;
pub(crate) use batch::{Batch, Script};
pub(crate) use find::until_replaced;
pub(crate) use greeting::{Greeting, Version};
pub(crate) use marks::{Marked, Marks};
pub(crate) use open::Opened;
pub(crate) use tracking::{Told, Wake};
pub(crate) use wire::Connection;
