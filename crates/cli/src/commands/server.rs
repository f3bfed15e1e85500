//! `server`: a ZooKeeper server for one machine, until a signal ends it.

use std::error::Error;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use lockkeeper_zk_server::{EmbeddedServer, ServerError};

use super::dispatch::block_on;
use crate::exit::Failure;
use crate::interruption::Interruption;
use crate::voice::say;

/// Serves until TERM, INT or HUP, and then stops in order: what was taken in is answered and stored.
pub(super) fn server(listen: SocketAddr, data_dir: Option<PathBuf>, tick: Duration) -> Result<u8, Failure> {
    block_on(async move {
        let mut interruption = Interruption::listen()?;
        let mut builder = EmbeddedServer::builder().listen(listen).tick(tick);
        let keeping = match data_dir {
            Some(directory) => {
                let text = format!("keeping its data in {}", directory.display());
                builder = builder.data_dir(directory);
                text
            }
            None => "keeping its data in memory".to_owned(),
        };
        let server = builder.start().await.map_err(|error| Failure::ours(chain(&error)))?;
        say(&format!("serving {}, {keeping}", server.url()));
        tokio::select! {
            biased;
            cause = interruption.heard() => {
                say(&format!("stopping, by {}", cause.name));
                server.shutdown().await;
                Ok(0)
            }
            () = server.stopped() => Err(Failure::ours("the server's log cannot be written any more; it has stopped")),
        }
    })?
}

/// An error with its causes, in one line.
fn chain(error: &ServerError) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
