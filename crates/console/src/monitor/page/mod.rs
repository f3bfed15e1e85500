//! The page of a monitor: HTML that the server renders, which works without a script, and a script that keeps it true.
//!
//! | file | what lives there |
//! | --- | --- |
//! | `routes`, `pages` | which path is answered with what; what all pages share |
//! | `frame` | what all pages have around them, and the rules that a browser is told |
//! | `overview`, `lock` | the list of all locks; one lock |
//! | `numbers`, `problems`, `listing`, `row` | the parts of the list |
//! | `picture` | who waits for whom, as SVG |
//! | `contender`, `escaped` | a contender, and any text, in HTML |
//! | `live`, `stream` | what open pages are told, rendered once for all; one page's stream of it |
//! | `page.css`, `page.js` | the only files that a browser loads beside the pages |
//!
//! What is shown is known by `lockkeeper-monitor`, which also says where the boxes of a picture stand.

mod contender;
mod escaped;
mod frame;
mod listing;
mod live;
mod lock;
mod numbers;
mod overview;
mod pages;
mod picture;
mod problems;
mod routes;
mod row;
mod stream;

pub(super) use contender::named;
pub(super) use escaped::{Escaped, QueryValue};
pub(super) use frame::{Frame, answer, freshness};
pub(crate) use pages::Pages;
pub(super) use problems::capital;
pub(crate) use routes::routes;
