//! `monitor --operate`: orders to locks, from the page and from programs that have the token.
//!
//! | file | what lives there |
//! | --- | --- |
//! | `token` | the token: where it is read from, what is refused, and how one is compared |
//! | `origin` | where a request comes from, and which ways may carry orders |
//! | `window` | so many in a minute: wrong tokens, and lines about what was refused |
//! | `sessions` | who is logged in, and what each was told |
//! | `asked` | from the words of a page or a program to an order |
//! | `refused` | why a request is answered with nothing done |
//! | `operating` | the state that all requests share |
//! | `under_way` | orders that are carried out: how many, what comes of each, and their end with the monitor |
//! | `body` | the body of a request, within limits |
//! | `login`, `confirm` | the pages that log in, and that ask before an order |
//! | `links` | what other pages have of it: links to orders, and to the login |
//! | `program` | orders of programs, as JSON |
//! | `desk`, `routes` | what pages have in common; which path is answered with what |
//!
//! Decisions are made by plain functions that are passed the time and random texts; only `under_way`, `body` and the
//! handlers of requests wait for anything. What an order does is in `ordering`, which the commands share.

mod asked;
mod body;
mod confirm;
mod desk;
mod links;
mod login;
mod operating;
mod origin;
mod program;
mod refused;
mod routes;
mod sessions;
mod token;
mod under_way;
mod window;

pub(super) use links::{door, freezing, of_contender, of_way_out, told_of};
pub(crate) use operating::Operating;
pub(super) use origin::host_name;
pub(crate) use origin::{Peer, PublicUrl};
pub(crate) use routes::routes;
pub(crate) use token::{TOKEN_VARIABLE, Token};
