//! A client of a few lines, to look at servers and proxies with.

mod client;

pub(crate) use client::*;
