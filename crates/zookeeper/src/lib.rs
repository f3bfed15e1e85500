//! Lockkeeper on Apache ZooKeeper.
mod alarm;
mod client;
mod config;
mod dial;
mod driver;
mod error;
mod hosts;
mod layout;
mod link;
mod lock;

pub use client::{Client, Created, NewNode, Transaction, TransactionResult, Watch, WatchEvent};
pub use config::{BASE_DEFAULT, CONNECT_TIMEOUT_DEFAULT, Config, PORT_DEFAULT, SESSION_TIMEOUT_DEFAULT, Server};
pub use dial::{Dial, Stream, TcpDial};
pub use error::{ClientError, ClientErrorKind};
pub use layout::{ForeignPolicy, Layout};
pub use lock::ZooKeeperBackend;
