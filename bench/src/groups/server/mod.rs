//! The embedded server beside Apache ZooKeeper standalone, both with their logs flushed before an answer: as processes
//! (`process`, `serve`), under the load of clients (`client`), with many sessions (`crowd`) and a large tree (`large`).

mod beside;
mod client;
mod crowd;
mod large;
pub(super) mod process;
mod serve;

pub(super) use beside::measure;
pub(crate) use serve::serve;
