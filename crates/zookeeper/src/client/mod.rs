//! A ZooKeeper client for tokio: typed requests, one-shot watches as futures, and a session that is kept alive.

mod handle;
mod node;
mod operations;
mod transaction;
mod watch;

pub use handle::Client;
pub(crate) use handle::{Access, random};
pub use node::{Created, NewNode};
pub use transaction::{Transaction, TransactionResult};
pub use watch::{Watch, WatchEvent};
