//! A batch of requests sent together: commands, scripts and tracked reads, whose answers come in the same order.

use std::sync::Arc;

use redis::{Cmd, Pipeline, ToRedisArgs, cmd};
use sha1::{Digest, Sha1};

use crate::connection::tracking::Told;

/// A script that a server runs in one piece.
#[derive(Debug)]
pub(crate) struct Script {
    /// What it is called where it is spoken of.
    pub(crate) name: &'static str,
    source: Arc<str>,
    /// By what the server knows it.
    sha: String,
}

impl Script {
    pub(crate) fn new(name: &'static str, source: impl Into<String>) -> Self {
        let source: String = source.into();
        let sha = Sha1::digest(source.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
        Self { name, source: source.into(), sha }
    }
}

/// What one of the server's answers belongs to.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Part {
    /// A command that changes nothing.
    Command,
    /// A script, by its source, and what all of its keys begin with.
    Script(Arc<str>, String),
    /// What makes the next read a tracked one: its answer is given to none.
    Preparation,
}

/// Commands that are sent together, and stay together: nothing of another batch comes between them.
///
/// The server goes on behind a command that it refused. So what stands behind a script must do no harm if the script
/// was refused. A batch that changes anything does so by scripts alone.
#[derive(Debug, Default)]
#[must_use = "it is not sent before it is given to a connection"]
pub(crate) struct Batch {
    pub(super) pipeline: Pipeline,
    pub(super) parts: Vec<Part>,
}

impl Batch {
    pub(crate) fn new() -> Self {
        Self { pipeline: Pipeline::new(), parts: Vec::new() }
    }

    /// Gives a script to the server, which then knows it until it restarts or an operator removes it.
    pub(crate) fn load(self, script: &Script) -> Self {
        let mut command = cmd("SCRIPT");
        command.arg("LOAD").arg(&*script.source);
        self.command(command)
    }

    /// Runs a script that the server was given over this connection. A server that has lost it ends the connection.
    pub(crate) fn script(mut self, script: &Script, keys: &[&str], arguments: impl ToRedisArgs) -> Self {
        let mut command = cmd("EVALSHA");
        command.arg(&script.sha).arg(keys.len()).arg(keys).arg(arguments);
        let base = keys.first().copied().unwrap_or_default();
        self.push(command, Part::Script(script.source.clone(), base.to_owned()));
        self
    }

    /// Sends a command that changes nothing.
    pub(crate) fn command(mut self, command: Cmd) -> Self {
        self.push(command, Part::Command);
        self
    }

    /// Reads the key of a wait, so that the wait is told when that changes.
    pub(crate) fn tracked_get(self, told: &Told) -> Self {
        self.tracked_read("GET", told)
    }

    /// Reads the key of a wait by a command that takes nothing else, so that the wait is told when that changes.
    pub(crate) fn tracked_read(self, command: &str, told: &Told) -> Self {
        self.tracked(command, told.key())
    }

    /// Reads a key by a command that takes nothing else, so that the server tells of its next change.
    pub(crate) fn tracked(mut self, command: &str, key: &[u8]) -> Self {
        let (mut caching, mut read) = (cmd("CLIENT"), cmd(command));
        caching.arg("CACHING").arg("YES");
        read.arg(key);
        self.push(caching, Part::Preparation);
        self.push(read, Part::Command);
        self
    }

    fn push(&mut self, command: Cmd, part: Part) {
        self.pipeline.add_command(command);
        self.parts.push(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_known_by_the_sha1_of_its_source() {
        assert_eq!(Script::new("one", "return 1").sha, "e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
    }
}
