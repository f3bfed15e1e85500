//! The embedded server beside Apache ZooKeeper standalone, both with their logs flushed before an answer: as processes
//! (`process`), under the load of clients (`client`), and with a large tree (`large`).

mod beside;
mod client;
mod large;
pub(super) mod process;

pub(super) use beside::measure;
pub(crate) use process::serve;
