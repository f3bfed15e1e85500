//! The page of a monitor: HTML that the server renders, which works without a script, and a script that keeps it true.
//!
//! | file | what lives there |
//! | --- | --- |
//! | `routes`, `pages` | which path is answered with what; what all pages share, and one page's stream of news |
//! | `frame` | what all pages have around them, any text in HTML, and the rules that a browser is told |
//! | `listing`, `lock` | the list of all locks; one lock |
//! | `problems`, `row` | the parts of the list; a contender |
//! | `past`, `timeline` | what was of a lock; the same as SVG |
//! | `picture` | who waits for whom, as SVG |
//! | `live` | what open pages are told, rendered once for all |
//! | `page.css`, `page.js` | the only files that a browser loads beside the pages |
//!
//! What is shown is known by `lockkeeper-monitor`, which also says where the boxes of a picture stand.

mod frame;
mod listing;
mod live;
mod lock;
mod pages;
mod past;
mod picture;
mod problems;
mod routes;
mod row;
mod timeline;

pub(super) use frame::{Escaped, Frame, QueryValue, answer, freshness};
pub(crate) use pages::Pages;
pub(super) use problems::capital;
pub(crate) use routes::routes;
pub(super) use row::named;
