//! `[server]`: what `lockkeeper server` takes as options.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use super::span::Span;

/// The least tick that can be told to clients, which count milliseconds.
pub(crate) const TICK_MIN: Duration = Duration::from_millis(1);

/// The server's settings, as far as they are given.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct ServerSettings {
    pub(crate) listen: Option<SocketAddr>,
    pub(crate) data_dir: Option<PathBuf>,
    pub(crate) tick: Option<Duration>,
}

/// The table as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ServerTable {
    listen: Option<SocketAddr>,
    data_dir: Option<PathBuf>,
    tick: Option<Span>,
}

impl ServerTable {
    pub(super) fn check(self) -> Result<ServerSettings, String> {
        let Self { listen, data_dir, tick } = self;
        if let Some(relative) = data_dir.as_ref().filter(|path| !path.is_absolute()) {
            let path = relative.display();
            return Err(format!(
                "server.data_dir: `{path}` depends on the current directory; write its path from the root"
            ));
        }
        let tick = tick.map(|span| span.duration);
        if tick.is_some_and(|tick| tick < TICK_MIN) {
            return Err("server.tick: a tick has at least a millisecond".to_owned());
        }
        Ok(ServerSettings { listen, data_dir, tick })
    }
}
