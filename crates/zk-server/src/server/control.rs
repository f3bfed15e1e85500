//! Commands to the core from others than clients.

use std::time::Duration;

use lockkeeper_zk_proto::message::OpCode;
use tokio::sync::oneshot;

use crate::machine::{Counters, RequestHook};

/// A command or a question to the core.
pub(super) enum ServerCommand {
    /// Show every request to this.
    SetHook(Option<RequestHook>),
    /// End a session now; answers whether there was one.
    ExpireSession(i64, oneshot::Sender<bool>),
    /// Cut the connection instead of sending the next reply to this operation.
    DropNextReply(OpCode),
    /// Let every byte leave this much later.
    Delay(Duration),
    /// Let nothing in or out, while time goes on.
    Blackhole(bool),
    /// Let nothing happen at all, time included.
    Pause(bool),
    /// Serve a session's former connection on when it has moved.
    KeepFormerConnections,
    /// Cut all connections; answers how many there were.
    ResetConnections(oneshot::Sender<usize>),
    /// Have a node count its children from here; answers whether there is such a node.
    SetChildrenMade(String, i32, oneshot::Sender<bool>),
    /// Begin a new life with the same state.
    Restart(oneshot::Sender<()>),
    /// Answer with the state of the server.
    Inspect(oneshot::Sender<Inspection>),
    /// Answer with what there is, and what was measured, as Prometheus reads it.
    Expose(oneshot::Sender<String>),
    /// Send what is to be sent, store what is to be stored, and end.
    Shutdown(oneshot::Sender<()>),
}

/// The state of a server.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Inspection {
    pub(super) counters: Counters,
    pub(super) session_ids: Vec<i64>,
    pub(super) watches_count: usize,
    pub(super) nodes_count: usize,
    pub(super) connections_count: usize,
    pub(super) zxid: i64,
}
