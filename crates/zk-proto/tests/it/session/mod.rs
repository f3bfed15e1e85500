//! The session machine against a scripted server, in virtual time.

mod closing;
mod connecting;
mod deletions;
mod pair;
mod random;
mod requests;
mod safety;
mod timing;
mod watching;
mod window;
