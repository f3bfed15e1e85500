//! What a server is started with: its address and its settings.

use std::path::Path;
use std::process::Command;

use crate::ports::ReservedPort;
use crate::{Result, process};

/// The socket of operators, in the server's folder.
pub(super) const SOCKET: &str = "operator";

/// Where the data lies, in the server's folder.
pub(super) const DATA: &str = "data";

/// All that a server is started with, but for its data.
#[derive(Debug)]
pub(super) struct Setup {
    pub(super) port: ReservedPort,
}

impl Setup {
    /// One that stands alone and keeps nothing.
    pub(super) fn new() -> Result<Self> {
        Ok(Self { port: ReservedPort::take()? })
    }

    /// The command that starts it in this folder.
    pub(super) fn command(&self, folder: &Path) -> Command {
        let mut command = process::command("redis-server");
        command
            .args(["--bind", "127.0.0.1", "--port", &self.port.number().to_string()])
            .args(["--save", "", "--appendonly", "no"])
            .arg("--unixsocket")
            .arg(folder.join(SOCKET))
            .arg("--dir")
            .arg(folder.join(DATA));
        command
    }
}
