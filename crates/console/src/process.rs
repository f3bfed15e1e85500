//! This process: a port that it listens on, with the limits of its connections; its service manager; and its mutexes.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use sd_notify::NotifyState;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::sleep;

use crate::config::Listen;
use crate::exit::CommandFailure;
use crate::output::say;

/// How long the head of a request may be, in bytes: the least that hyper allows. A name with all of its bytes
/// percent-encoded fits ten times.
pub const HEAD_BYTES_MAX: usize = 8_192;

/// How long accepting pauses when the system has no connection to give, as without descriptors.
const PAUSE: Duration = Duration::from_millis(50);

/// A port that is listened on.
#[derive(Debug)]
pub struct BoundPort {
    listener: TcpListener,
    address: SocketAddr,
}

impl BoundPort {
    /// Listens on the first address that can be had of those that `listen` stands for, which `option` has named.
    pub fn bind(option: &str, listen: &Listen) -> Result<Self, CommandFailure> {
        let addresses = listen.addresses()?;
        let bind = || {
            let listener = std::net::TcpListener::bind(&addresses[..])?;
            listener.set_nonblocking(true)?;
            let address = listener.local_addr()?;
            Ok(Self { listener: TcpListener::from_std(listener)?, address })
        };
        let named: Vec<String> = addresses.iter().map(ToString::to_string).collect();
        let failed = |error: std::io::Error| {
            CommandFailure::ours(format!("{option}: cannot listen on {}: {error}", named.join(" or ")))
        };
        bind().map_err(failed)
    }

    /// Returns the address that it listens on.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves so many connections at a time, each in a task; more are closed.
    pub async fn serve<Serving>(&self, connections_max: usize, serve_one: impl Fn(TcpStream) -> Serving) -> Infallible
    where
        Serving: Future<Output = ()> + Send + 'static,
    {
        let seats = Arc::new(Semaphore::new(connections_max));
        loop {
            match (self.listener.accept().await, Arc::clone(&seats).try_acquire_owned()) {
                (Ok((stream, _)), Ok(seat)) => {
                    let serving = serve_one(stream);
                    tokio::spawn(async move {
                        serving.await;
                        drop(seat);
                    });
                }
                (Ok(_), Err(_)) => {}
                (Err(_), _) => sleep(PAUSE).await,
            }
        }
    }
}

/// Tells systemd, or another manager that listens where `NOTIFY_SOCKET` says.
pub fn tell_manager(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        say(&format!("warning: the service manager at NOTIFY_SOCKET could not be told: {error}"));
    }
}
