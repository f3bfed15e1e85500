//! A client of a few lines, to examine servers and proxies.

mod client;

pub(crate) use client::*;
