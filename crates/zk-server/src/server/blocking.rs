//! A server for programs without a runtime, on a thread for itself.

use std::ops::Deref;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use crate::server::builder::ServerBuilder;
use crate::server::embedded::EmbeddedServer;
use crate::server::error::ServerError;

/// An [`EmbeddedServer`] on a thread for itself; dropping it stops the server and waits for the end of that thread.
///
/// Made by [`EmbeddedServer::start_blocking`] and [`ServerBuilder::start_blocking`]. Once the drop is over, all its
/// connections are closed and it listens no more.
///
/// ```
/// use lockkeeper_zk_server::EmbeddedServer;
///
/// # fn main() -> Result<(), lockkeeper_zk_server::ServerError> {
/// let server = EmbeddedServer::start_blocking()?;
/// println!("connect to {}", server.url());
/// server.block_on(server.restart());
/// server.shutdown(); // or the drop
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct BlockingServer {
    /// Dropped before its thread.
    server: EmbeddedServer,
    thread: ServerThread,
}

/// A runtime on a thread, which ends when this is dropped.
#[derive(Debug)]
struct ServerThread {
    runtime: Handle,
    /// Ends the thread when it is dropped.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl EmbeddedServer {
    /// Starts a server as [`EmbeddedServer::start`] does, for a program without a runtime.
    ///
    /// # Errors
    ///
    /// Fails if the system gives no thread, or allows it to listen on no port.
    ///
    /// # Panics
    ///
    /// Within a runtime, whose programs have [`EmbeddedServer::start`].
    pub fn start_blocking() -> Result<BlockingServer, ServerError> {
        Self::builder().start_blocking()
    }
}

impl ServerBuilder {
    /// Starts the server on a thread for itself, for a program without a runtime. When this returns, the server accepts
    /// clients.
    ///
    /// # Errors
    ///
    /// Fails if the system gives no thread, or if the address or the data directory cannot be used.
    ///
    /// # Panics
    ///
    /// Within a runtime, whose programs have [`ServerBuilder::start`].
    pub fn start_blocking(self) -> Result<BlockingServer, ServerError> {
        let thread = ServerThread::start()?;
        let server = thread.runtime.block_on(self.start())?;
        Ok(BlockingServer { server, thread })
    }
}

impl BlockingServer {
    /// Waits for what an async method of the server answers.
    ///
    /// # Panics
    ///
    /// Within a runtime.
    pub fn block_on<Answer>(&self, asked: impl Future<Output = Answer>) -> Answer {
        self.thread.runtime.block_on(asked)
    }

    /// Ends in order, as [`EmbeddedServer::shutdown`] does, and waits for it.
    ///
    /// # Panics
    ///
    /// Within a runtime.
    pub fn shutdown(self) {
        let Self { server, thread } = self;
        thread.runtime.block_on(server.shutdown());
    }
}

impl Deref for BlockingServer {
    type Target = EmbeddedServer;

    fn deref(&self) -> &EmbeddedServer {
        &self.server
    }
}

impl ServerThread {
    fn start() -> Result<Self, ServerError> {
        let failed = |error| ServerError::Thread { source: Arc::new(error) };
        let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel();
        let drive = move || {
            // It ends with an error, since nothing is ever sent.
            let _ = runtime.block_on(stopped);
        };
        let thread = thread::Builder::new().name("lockkeeper-zk-server".to_owned()).spawn(drive).map_err(failed)?;
        Ok(Self { runtime: handle, stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for ServerThread {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A task that panicked has been reported by its panic.
            let _ = thread.join();
        }
    }
}
