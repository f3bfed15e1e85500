//! A ZooKeeper client for tokio: typed requests, one-shot watches as futures, and a session that is kept alive.

mod changes;
mod handle;
mod operations;

pub use changes::{Created, NewNode, Transaction, TransactionResult};
pub use handle::Client;
pub(crate) use handle::ClientOpener;
pub use operations::{NodeEvent, NodeWatch};
