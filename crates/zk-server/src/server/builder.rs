//! The builder of a server.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::auth::digest_identity;
use crate::machine::{MachineSettings, MemoryLimits, RequestHook, Seed, SeenRequest, ServerMachine, ServerState, Word};
use crate::measures::ServerMeasures;
use crate::server::clock::ServerClock;
use crate::server::core::{ARRIVALS_MAX, Core, Inputs};
use crate::server::embedded::{EmbeddedServer, ServerParts};
use crate::server::error::ServerError;
use crate::server::link::Transport;
use crate::server::listening::ListenPlan;
use crate::storage::{OpenedStorage, Storage};

#[cfg(feature = "tls")]
use crate::server::tls::Tls;

/// Sets up an [`EmbeddedServer`].
///
/// Without anything set: any free port of the loopback address, memory only, a tick of two seconds.
#[derive(Default)]
#[must_use = "a builder does nothing until start()"]
pub struct ServerBuilder {
    settings: MachineSettings,
    listen: ListenPlan,
    transport: Transport,
    data_dir: Option<PathBuf>,
    seed: Option<Seed>,
    hook: Option<RequestHook>,
    memory_bytes: Option<usize>,
    tree_bytes_max: Option<usize>,
    connections_per_address_max: Option<NonZeroUsize>,
}

impl EmbeddedServer {
    /// Starts a server on any free port of the loopback address, in memory. When this returns, the server accepts
    /// clients; if the future is dropped before, nothing keeps running.
    ///
    /// # Errors
    ///
    /// Fails if the system allows it to listen on no port.
    pub async fn start() -> Result<Self, ServerError> {
        Self::builder().start().await
    }

    /// Sets up a server.
    pub fn builder() -> ServerBuilder {
        ServerBuilder::default()
    }
}

impl std::fmt::Debug for ServerBuilder {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("ServerBuilder")
            .field("settings", &self.settings)
            .field("listen", &self.listen)
            .field("data_dir", &self.data_dir)
            .finish_non_exhaustive()
    }
}

impl ServerBuilder {
    /// Listens on `address`, and on those of further calls; port 0 is any free one.
    pub fn listen(self, address: SocketAddr) -> Self {
        self.listen_on_any(vec![address])
    }

    /// Listens on each of the addresses of one host that this machine has, and on those of further calls. The start
    /// fails if it has none of them.
    pub fn listen_on_any(mut self, addresses: Vec<SocketAddr>) -> Self {
        self.listen.add(addresses);
        self
    }

    /// Speaks TLS on all addresses, and nothing else; [`EmbeddedServer::connect_duplex`] and [`EmbeddedServer::serve`]
    /// are as they were.
    ///
    /// A client has 10 s for its handshake, which counts as a connection and holds up no other.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::path::Path;
    ///
    /// use lockkeeper_zk_server::{EmbeddedServer, Tls};
    ///
    /// let clients = Path::new("clients-ca.pem");
    /// let tls = Tls::from_files(Path::new("server.pem"), Path::new("server-key.pem"), Some(clients))?;
    /// let server = EmbeddedServer::builder().listen("[::]:2281".parse()?).tls(tls).start().await?;
    /// assert!(server.url().starts_with("zk+tls://"));
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "tls")]
    pub fn tls(mut self, tls: Tls) -> Self {
        self.transport = Transport::Tls(tls);
        self
    }

    /// Listens on no socket: clients only come by [`EmbeddedServer::connect_duplex`], as virtual time needs it.
    pub fn without_listener(mut self) -> Self {
        self.listen = ListenPlan::Nowhere;
        self
    }

    /// Keeps everything in `directory`, which is created if it does not exist, and flushes it before answers are sent.
    /// Other users have no rights on it: those found at the start are taken, with a warning.
    pub fn data_dir(mut self, directory: impl Into<PathBuf>) -> Self {
        self.data_dir = Some(directory.into());
        self
    }

    /// Sets the tick: sessions expire in steps of it, their timeouts are between 2 and 20 of it unless set apart.
    pub fn tick(mut self, tick: Duration) -> Self {
        self.settings.tick = tick;
        self
    }

    /// Grants no session a shorter timeout.
    pub fn session_timeout_min(mut self, timeout: Duration) -> Self {
        self.settings.session_timeout_min = Some(timeout);
        self
    }

    /// Grants no session a longer timeout, unless the shortest is longer.
    pub fn session_timeout_max(mut self, timeout: Duration) -> Self {
        self.settings.session_timeout_max = Some(timeout);
        self
    }

    /// Looks at containers and nodes with a time to live this often; a minute by default, as Apache does.
    pub fn container_check(mut self, interval: Duration) -> Self {
        self.settings.container_check = interval;
        self
    }

    /// Accepts requests of at most this many bytes (`jute.maxbuffer`).
    pub fn frame_bytes_max(mut self, bytes: usize) -> Self {
        self.settings.frame_bytes_max = bytes;
        self
    }

    /// Keeps everything together within this much memory, as it is estimated, in bytes: 2 GiB by default, 64 MiB at
    /// least. Each limit is a share of it: a half is for nodes, an eighth each for watches and for answers that clients
    /// have not read, a sixteenth each for connections (8 KiB of it allow one) and sessions (256 bytes). The process
    /// has some 10 MiB besides.
    pub fn memory_bytes(mut self, bytes: usize) -> Self {
        self.memory_bytes = Some(bytes);
        self
    }

    /// Refuses to create nodes and set data (quota exceeded) when the nodes take this much memory; half of
    /// [`ServerBuilder::memory_bytes`] by default. What is more than that half comes on top.
    pub fn tree_bytes_max(mut self, bytes: usize) -> Self {
        self.tree_bytes_max = Some(bytes);
        self
    }

    /// Refuses connections beyond this many of one address; 0, the default, stands for as many as it likes.
    pub fn connections_per_address_max(mut self, count: usize) -> Self {
        self.connections_per_address_max = NonZeroUsize::new(count);
        self
    }

    /// Answers these four-letter words alone; by default all that [`Word`] has. `cons`, `dump`, `wchs` and `wchp` take
    /// long when there is much to tell, and tell every peer of paths and sessions.
    pub fn words(mut self, words: impl IntoIterator<Item = Word>) -> Self {
        self.settings.words = words.into_iter().collect();
        self
    }

    /// Lets a client that authenticates by `digest` as `super` with this password do everything.
    pub fn super_password(mut self, password: &str) -> Self {
        let identity = digest_identity(format!("super:{password}").as_bytes());
        self.settings.super_digest = Some(identity.id);
        self
    }

    /// Starts a new service from a seed instead of from randomness and the clock: the same inputs then give the same
    /// session ids, passwords and transaction numbers.
    pub fn seed(mut self, seed: Seed) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Shows every request to `hook` just before it takes effect.
    pub fn on_request(mut self, hook: impl FnMut(&SeenRequest<'_>) + Send + 'static) -> Self {
        self.hook = Some(Box::new(hook));
        self
    }

    /// Starts the server on the runtime this is called on. When this returns, the server accepts clients; if the future
    /// is dropped before, nothing keeps running.
    ///
    /// # Errors
    ///
    /// Fails if the address or the data directory cannot be used.
    pub async fn start(self) -> Result<EmbeddedServer, ServerError> {
        let Self { mut settings, listen, transport, data_dir, seed, hook, memory_bytes, tree_bytes_max, .. } = self;
        let connections_per_address_max = self.connections_per_address_max;
        let limits = memory_bytes.map_or_else(MemoryLimits::default, MemoryLimits::of_memory);
        let limits = tree_bytes_max.map_or(limits, |most| limits.with_tree_bytes_max(most));
        settings.limits = limits;
        let listeners = listen.bind().await?;
        let clock = ServerClock::start(seed.map(|seed| seed.wall_ms));
        let moment = clock.moment_at(Instant::now());
        let seed = match seed {
            Some(seed) => seed,
            None => Seed { secret: random_secret()?, wall_ms: moment.wall_ms },
        };
        let tick = settings.tick;
        let first_state = move || ServerState::new(tick, seed);
        let (storage, state, found) = match data_dir {
            None => (None, first_state(), None),
            Some(directory) => {
                settings.keeps_records = true;
                let open = move || Storage::open(&directory, tick, moment.wall_ms, first_state);
                let opened = tokio::task::spawn_blocking(open).await.map_err(|_| ServerError::Stopped)?;
                let OpenedStorage { storage, state, found } = opened?;
                (Some(storage), state, found)
            }
        };
        let mut machine = ServerMachine::from_state(settings, state, moment);
        machine.set_hook(hook);
        let (controls, control_receiver) = mpsc::unbounded_channel();
        // As many wait here as the system lets clients connect: the descriptors are the limit.
        let (accepted, accepted_receiver) = mpsc::unbounded_channel();
        let (arrivals, arrival_receiver) = mpsc::channel(ARRIVALS_MAX);
        let inputs = Inputs { controls: control_receiver, accepted: accepted_receiver, arrivals: arrival_receiver };
        let measures = Arc::new(ServerMeasures::start(storage.as_ref().map(Storage::flushes).unwrap_or_default()));
        let core = Core::new(machine, clock, storage, inputs, Arc::clone(&measures));
        let end = core.end();
        let core = tokio::spawn(core.run());
        let parts = ServerParts {
            controls,
            accepted,
            arrivals,
            transport,
            listeners,
            limits,
            connections_per_address_max,
            measures,
            core,
            end,
            found,
        };
        Ok(EmbeddedServer::new(parts))
    }
}

fn random_secret() -> Result<[u8; 32], ServerError> {
    let mut secret = [0; 32];
    getrandom::fill(&mut secret).map_err(|_| ServerError::Randomness)?;
    Ok(secret)
}
