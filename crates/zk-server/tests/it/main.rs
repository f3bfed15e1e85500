//! The server in this process: as its users see it, under bad input, and with clients of other projects.

mod client;
mod embedded;
mod fuzz;
mod peers;
