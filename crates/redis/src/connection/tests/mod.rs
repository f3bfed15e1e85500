//! Connections to real servers, and to what is none. What is told of each refusal is in `answer`.

mod finding;
mod losses;
mod order;
mod strangers;
mod support;
#[cfg(feature = "tls")]
mod tls;
mod waits;
