//! The client itself: it opens a session, keeps it, and closes it. Its requests are in `operations`.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::clock::{Clock, SystemClock};
use lockkeeper_core::{Advice, randomness};
use lockkeeper_session::{DialHistory, Failure, FailureKind, Order, Server, Ways, at_home};
use lockkeeper_zk_proto::message::OpCode;

use crate::config::Config;
use crate::dial::Dial;
use crate::driver::Driver;
use crate::error::{ClientError, ClientErrorKind};
use crate::link::{LinkPhase, SessionLink};

/// One ZooKeeper session; cheap to clone. When the last clone is dropped the session is closed.
///
/// Paths are relative to the chroot of the URL. A lost connection is opened again while the session lives.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use lockkeeper_zookeeper::{Client, Config, NewNode};
///
/// let client = Client::connect(&Config::from_url(&"zk://h1,h2".parse()?)?).await?;
/// client.create(NewNode::persistent("/greeting").with_data("hello")).await?;
/// let (data, stat) = client.get_data("/greeting").await?;
/// assert_eq!((&data[..], stat.version), (&b"hello"[..], 0));
/// client.delete("/greeting", None).await?;
/// # Ok(())
/// # }
/// ```
///
/// # What holds for all requests
///
/// - Order: requests go out in the order of the calls. Each takes effect when its method is called, not when its future
///   is first polled, and after all earlier requests.
/// - Deadline: one request takes at most the operation timeout of the URL. One that was not sent waits for a connection
///   until then; its error is transient.
/// - Connection loss: a request that was sent fails. The error of a read is transient; the error of a write is unknown,
///   since the write may have taken effect.
/// - Refusals: [`ClientErrorKind::Refused`] with the server's code. A method names the codes to expect.
/// - Cancellation: dropping the future takes the request back if it was not sent; a write that was sent may take
///   effect. Dropping it also removes the watch that it sets.
#[derive(Clone)]
pub struct Client {
    handle: Arc<Handle>,
}

/// The opener of sessions of one service.
#[derive(Clone)]
pub(crate) struct ClientOpener {
    pub(crate) config: Arc<Config>,
    pub(crate) dial: Arc<dyn Dial>,
    pub(crate) clock: Arc<dyn Clock>,
    /// Where the attempts of all sessions stopped.
    history: Arc<DialHistory>,
}

impl ClientOpener {
    pub(crate) fn new(config: Config, dial: Arc<dyn Dial>, clock: Arc<dyn Clock>) -> Self {
        Self { config: Arc::new(config), dial, clock, history: Arc::new(DialHistory::new(randomness::spread())) }
    }

    pub(crate) fn open(&self) -> impl Future<Output = Result<Client, ClientError>> + Send + use<> {
        let (started, config) = (Client::start(self), self.config.clone());
        async move {
            let client = started?;
            client.until_open(&config).await?;
            Ok(client)
        }
    }
}

/// What a client counts: the session ends with the last clone of the client. The driver holds none.
struct Handle {
    link: Arc<SessionLink>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.link.close();
    }
}

impl Client {
    /// Opens a session.
    ///
    /// # Errors
    ///
    /// As soon as every server has refused, or after the configuration's connection timeout if one is silent. The error
    /// is transient and names the servers that were tried. It is permanent ([`ClientErrorKind::Untrusted`]) if no
    /// server can be used until a setting or a certificate changes, and permanent at once if the credentials were
    /// refused, if a file of the configuration cannot be used, or outside a tokio runtime.
    ///
    /// # Cancellation
    ///
    /// The session is closed if it was made.
    ///
    /// # On connection loss
    ///
    /// The next server is tried.
    pub async fn connect(config: &Config) -> Result<Self, ClientError> {
        let dial = config.dial().map_err(|error| {
            let message = error.to_string();
            ClientError::new(ClientErrorKind::InvalidConfig, error.advice(), OpCode::CreateSession, "", message)
        })?;
        Self::connect_over(config, dial, Arc::new(SystemClock)).await
    }

    /// Opens a session over other connections and by another clock. All else, its errors too, is as for
    /// [`Client::connect`].
    pub async fn connect_over(
        config: &Config,
        dial: Arc<dyn Dial>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, ClientError> {
        ClientOpener::new(config.clone(), dial, clock).open().await
    }

    /// Waits until there is a session. It ends when every server has refused, or at the configuration's connection
    /// timeout.
    pub(crate) async fn until_open(&self, config: &Config) -> Result<(), ClientError> {
        let link = self.link();
        let clock = &link.clock;
        let deadline = clock.now().saturating_add(config.connect_timeout);
        let settled = tokio::select! {
            biased;
            settled = link.until(|status| status.phase.is_online()) => Some(settled.phase),
            () = clock.sleep_until(deadline) => None,
        };
        match settled {
            Some(phase) if phase.is_online() => Ok(()),
            _ if link.is_refused() => Err(ClientError::unauthenticated(OpCode::CreateSession, "")),
            Some(_) => Err(unreachable(config, &link.failures(), "no session")),
            None => {
                let outcome = format!("no session within {:?}", config.connect_timeout);
                Err(unreachable(config, &link.failures(), &outcome))
            }
        }
    }

    pub(crate) fn start(access: &ClientOpener) -> Result<Self, ClientError> {
        let ClientOpener { config, dial, clock, history } = access.clone();
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            let message = "a session is kept by a task, and there is no tokio runtime to run it";
            let (kind, operation) = (ClientErrorKind::NoRuntime, OpCode::CreateSession);
            return Err(ClientError::new(kind, Advice::Permanent, operation, "", message));
        };
        let ways = Ways::new(config.servers.clone(), Order::Spread, randomness::spread(), history);
        let link = Arc::new(SessionLink::new(&config, clock));
        runtime.spawn(at_home(Driver::new(link.clone(), dial, ways, config.dial_share()).run()));
        Ok(Self { handle: Arc::new(Handle { link }) })
    }

    pub(crate) fn link(&self) -> &Arc<SessionLink> {
        &self.handle.link
    }

    /// Returns the session's number.
    pub fn session_id(&self) -> i64 {
        self.link().session_id().unwrap_or(0)
    }

    /// Returns the least session timeout that the service has granted so far.
    pub fn session_timeout(&self) -> Duration {
        self.link().timeout()
    }

    /// Tells whether requests go out now.
    pub fn is_online(&self) -> bool {
        self.link().status_now().phase.is_online()
    }

    /// Waits until the session is over. Every request under way has then failed, or will.
    ///
    /// A lost connection does not end the wait at once: it ends when a server says that the session is over, or when
    /// there was no connection for as long as its timeout.
    pub async fn over(&self) {
        self.link().until(|_| false).await;
    }

    /// Closes the session, for all clones. Everything asked for before goes first. The session is closed even if the
    /// future is dropped.
    ///
    /// # Errors
    ///
    /// Transient if there is no connection to send the close on, or it is lost. The service then ends the session at
    /// its timeout; the client goes on trying to close it.
    pub fn close(&self) -> impl Future<Output = Result<(), ClientError>> + Send + use<> {
        let link = self.link().clone();
        link.close();
        async move {
            match link.until(|status| status.phase == LinkPhase::Offline).await.phase {
                LinkPhase::Over => Ok(()),
                _ => {
                    let message = "there is no connection to close the session on; it ends at its timeout";
                    let (kind, operation) = (ClientErrorKind::ConnectionLost, OpCode::CloseSession);
                    Err(ClientError::new(kind, Advice::Transient, operation, "", message))
                }
            }
        }
    }
}

/// Says which ways were tried, and what came of each; what came of all of them is the error's source.
fn unreachable(config: &Config, failures: &BTreeMap<Server, Failure>, outcome: &str) -> ClientError {
    let (mut tried, mut is_hopeless) = (Vec::new(), true);
    for server in &config.servers {
        let before = tried.len();
        for (way, failure) in failures.iter().filter(|(way, _)| server.is_reached_by(way)) {
            tried.push((way, failure.to_string()));
            is_hopeless &= !failure.is_passing();
        }
        if tried.len() == before {
            tried.push((server, "no answer".to_owned()));
            is_hopeless = false;
        }
    }
    let common = tried.first().map(|(_, why)| why).filter(|first| tried.iter().all(|(_, why)| why == *first));
    let shown = |(way, why): &(&Server, String)| match common {
        Some(_) => way.to_string(),
        None => format!("{way} ({why})"),
    };
    let are_strangers = failures.values().all(|failure| failure.kind == FailureKind::Protocol);
    let (kind, advice) = match is_hopeless {
        true if are_strangers => (ClientErrorKind::Protocol, Advice::Permanent),
        true => (ClientErrorKind::Untrusted, Advice::Permanent),
        false => (ClientErrorKind::ConnectionLost, Advice::Transient),
    };
    let message = format!("{outcome} from {}", tried.iter().map(shown).collect::<Vec<_>>().join(", "));
    ClientError::unreachable(kind, advice, message, common.cloned())
}

impl fmt::Debug for Client {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = format!("{:#x}", self.session_id());
        formatter.debug_struct("Client").field("session", &id).field("status", &self.link().status_now()).finish()
    }
}
