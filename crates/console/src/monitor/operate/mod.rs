//! `monitor --operate`: orders to locks, from the page and from programs that have the token.
//!
//! | file | what lives there |
//! | --- | --- |
//! | `token` | the token: where it is read from, what is refused, and how one is compared |
//! | `origin` | where a request comes from, and which ways may carry orders |
//! | `sessions` | who is logged in, and what each was told |
//! | `asked` | from the words of a page or a program to an order |
//! | `operating` | the state that all requests share |
//! | `under_way` | orders that are carried out: how many, what comes of each, and their end with the monitor |
//! | `login`, `confirm` | the pages that log in, and that ask before an order |
//! | `program` | orders of programs, as JSON; which path is answered with what |
//! | `links` | the ways from other pages to orders and to the login |
//! | `desk`, `request` | what pages have in common; limits of requests, and why one is refused |
//!
//! Decisions are made by plain functions that are passed the time and random texts; only `under_way`, `request` and the
//! handlers of requests wait for anything. What an order does is in `ordering`, which the commands share.

mod asked;
mod confirm;
mod desk;
mod links;
mod login;
mod operating;
mod origin;
mod program;
mod request;
mod sessions;
mod token;
mod under_way;

pub(super) use links::{door, freezing, of_contender, of_way_out, told_of};
pub(crate) use operating::Operating;
pub(super) use origin::host_name;
pub(crate) use origin::{Peer, PublicUrl};
pub(crate) use program::routes;
pub(crate) use token::{TOKEN_VARIABLE, Token};
