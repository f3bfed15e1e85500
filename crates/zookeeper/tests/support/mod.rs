//! What the tests against real servers share.
#![allow(dead_code, unused_imports, unreachable_pub, reason = "each test binary uses another part")]
#![allow(clippy::future_not_send, reason = "a test waits in its own task")]

mod bench;
pub mod fixture;
mod party;
pub mod sniff;
pub mod waist;
mod waiting;
mod way;

pub use bench::Bench;
pub use party::{Journal, Party, is_joined};
pub use waiting::{SOON, soon, until};
pub use way::{can_start, client, config, url};
