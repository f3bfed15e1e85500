//! `server`: a ZooKeeper server for one machine, until a signal ends it.

use std::error::Error;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use lockkeeper_zk_server::{EmbeddedServer, ServerError};

use super::service::block_on;
use crate::args::Global;
use crate::config::ServerSettings;
use crate::exit::Failure;
use crate::interruption::Interruption;
use crate::voice::say;

/// Where a server listens by default: where ZooKeeper's clients look for one, and for this machine alone.
const LISTEN_DEFAULT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 2181);

/// The default tick of a server: ZooKeeper's own.
const TICK_DEFAULT: Duration = Duration::from_secs(2);

/// Serves until TERM, INT or HUP, and then stops in order: requests that were accepted are answered and stored.
pub(super) fn server(global: &Global, options: ServerSettings) -> Result<u8, Failure> {
    let from_file = ServerSettings::load(global)?;
    let listen = options.listen.or(from_file.listen).unwrap_or(LISTEN_DEFAULT);
    let tick = options.tick.or(from_file.tick).unwrap_or(TICK_DEFAULT);
    let data_dir = options.data_dir.or(from_file.data_dir);
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
        if let Some(found) = server.recovered() {
            say(&found.to_string());
        }
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
