//! The port of a proxy: accepts connections, owns their tasks, closes and opens as the plan says.

use std::future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::connection;
use super::state::Shared;

/// Accepts connections and owns their tasks; closes and opens the port as the plan says.
pub(super) async fn accept(
    listener: TcpListener,
    address: SocketAddr,
    shared: Arc<Shared>,
    listens: watch::Sender<bool>,
) {
    let mut plan = shared.plan();
    let mut listener = Some(listener);
    let mut carrying = JoinSet::new();
    loop {
        let accepts = plan.borrow_and_update().accepts;
        match (accepts, &listener) {
            (false, Some(_)) => listener = None,
            // Bound again with SO_REUSEADDR; the port is reserved, so only a passing lack of resources can fail.
            (true, None) => listener = TcpListener::bind(address).await.ok(),
            _ => {}
        }
        listens.send_replace(listener.is_some());
        tokio::select! {
            changed = plan.changed() => if changed.is_err() { return },
            Some(_) = carrying.join_next(), if !carrying.is_empty() => {}
            Ok((client, _)) = next(listener.as_ref()), if listener.is_some() => {
                // One that slipped in after the port was to close is dropped, as the backlog is.
                if shared.now().accepts {
                    carrying.spawn(connection::carry(Arc::clone(&shared), client));
                }
            }
        }
    }
}

async fn next(listener: Option<&TcpListener>) -> io::Result<(TcpStream, SocketAddr)> {
    match listener {
        Some(listener) => listener.accept().await,
        None => future::pending().await,
    }
}
