//! Opens a connection: a socket, TLS where it is asked for, the greeting in RESP3, and tracking.

use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};

use lockkeeper_core::clock::{BootInstant, Clock};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, ProtocolVersion, PushInfo, RedisConnectionInfo, RedisError, pipe};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::connection::answer::{HELLO, answer, refusal, refusal_of_hello};
use crate::connection::failure::{Effect, Failure, FailureKind};
use crate::connection::greeting::Greeting;
use crate::connection::tap::{Meter, Tap};
use crate::connection::tracking::Registry;
use crate::connection::wire::{Connection, Driver, FLIGHTS_MAX, Line, Over};
use crate::url::{Access, Credentials, Server};

/// What an operator sees in the server's list of connections.
const NAME: &str = "lockkeeper";

impl Connection {
    /// Connects to a server, and makes sure that it is a master and has what locks need.
    ///
    /// It is driven on the runtime in which this is called.
    pub(crate) async fn open(
        server: &Server,
        access: &Access,
        clock: &Arc<dyn Clock>,
        deadline: BootInstant,
    ) -> Result<Self, Failure> {
        tokio::select! {
            biased;
            opened = connect(server, access, clock) => opened.map_err(|failure| failure.at(server)),
            () = clock.sleep_until(deadline) => Err(silent(access).at(server)),
        }
    }
}

async fn connect(server: &Server, access: &Access, clock: &Arc<dyn Clock>) -> Result<Connection, Failure> {
    let stream = socket(server).await?;
    #[cfg(feature = "tls")]
    if let Some(tls) = &access.tls {
        let stream = crate::tls::connect(tls, server, stream).await?;
        return greet(server, access, clock, stream).await;
    }
    greet(server, access, clock, stream).await
}

/// Says that a server did not answer. A Redis without TLS waits for the end of what it takes for a command.
fn silent(access: &Access) -> Failure {
    let failure = Failure::late(Effect::None);
    if access.is_secured() { failure.with_hint("; a server without TLS needs `redis:`") } else { failure }
}

/// Opens a socket without Nagle's delay, which would cost a lock 40 ms.
pub(super) async fn socket(server: &Server) -> Result<TcpStream, Failure> {
    let unreachable = |error: std::io::Error| Failure::unreachable("cannot be reached", error);
    let stream = TcpStream::connect((server.name.as_str(), server.port)).await.map_err(unreachable)?;
    stream.set_nodelay(true).map_err(unreachable)?;
    Ok(stream)
}

async fn greet<S: AsyncRead + AsyncWrite + Send + Unpin + 'static>(
    server: &Server,
    access: &Access,
    clock: &Arc<dyn Clock>,
    stream: S,
) -> Result<Connection, Failure> {
    let (meter, waits) = (Arc::<Meter>::default(), Arc::<Registry>::default());
    let config = AsyncConnectionConfig::new()
        .set_response_timeout(None)
        .set_connection_timeout(None)
        .set_pipeline_buffer_size(FLIGHTS_MAX)
        .set_push_sender(push_sender(&meter, &waits));
    let begun = MultiplexedConnection::new_with_config(&info(access), Tap::new(stream, meter.clone()), config).await;
    let (mut connection, driver) = begun.map_err(|error| of_first_answers(error, &meter, access))?;
    let (is_over, over) = watch::channel(false);
    let ending = Over { is_over, waits: waits.clone() };
    let runtime = Handle::current();
    let driving = runtime.spawn(async move {
        driver.await;
        drop(ending);
    });
    let driver = Driver(driving.abort_handle());
    let greeting = introduce(&mut connection, &meter, access).await?;
    Ok(Connection {
        server: server.clone(),
        greeting,
        line: Mutex::new(Line { connection, queued_bytes: meter.written() }),
        meter,
        waits,
        driver,
        is_over: over,
        clock: clock.clone(),
        runtime,
        flights: Arc::new(AtomicUsize::new(0)),
    })
}

/// Takes in what the server tells unasked.
fn push_sender(
    meter: &Arc<Meter>,
    waits: &Arc<Registry>,
) -> impl Fn(PushInfo) -> Result<(), std::convert::Infallible> + Send + Sync + 'static {
    let (meter, waits) = (meter.clone(), waits.clone());
    move |push| {
        meter.note_progress();
        waits.take_in(push);
        Ok(())
    }
}

/// What the crate `redis` does by itself: it greets, says who we are, and takes the database.
fn info(access: &Access) -> RedisConnectionInfo {
    let info = RedisConnectionInfo::default()
        .set_protocol(ProtocolVersion::RESP3)
        .set_skip_set_lib_name()
        .set_db(i64::from(access.database));
    match &access.credentials {
        None => info,
        Some(Credentials { user: None, password }) => info.set_password(password),
        Some(Credentials { user: Some(user), password }) => info.set_username(user).set_password(password),
    }
}

/// Gives the connection its name, has the server tell of changes of what is read, and asks what it is.
///
/// Without NOLOOP: a script of this very connection may remove the contender that another of our own waits for.
async fn introduce(
    connection: &mut MultiplexedConnection,
    meter: &Meter,
    access: &Access,
) -> Result<Greeting, Failure> {
    let mut introduction = pipe();
    introduction.cmd("CLIENT").arg("SETNAME").arg(NAME);
    introduction.cmd("CLIENT").arg("TRACKING").arg("ON").arg("OPTIN");
    // A user may lack the right to this alone, and would then wait in vain.
    introduction.cmd("CLIENT").arg("CACHING").arg("YES");
    introduction.cmd(HELLO);
    let answers = connection.send_packed_commands(&introduction, 0, introduction.len()).await;
    let answers = answers.map_err(|error| hinted(Failure::of_transport(error, Effect::None), meter, access))?;
    let [named, tracked, cached, greeted] = <[_; 4]>::try_from(answers).map_err(|_| Failure::unexpected())?;
    let greeting = Greeting::of(&answer(greeted, HELLO)?)?;
    answer(named, "CLIENT SETNAME")?;
    answer(tracked, "CLIENT TRACKING")?;
    answer(cached, "CLIENT CACHING")?;
    Ok(greeting)
}

/// Judges why there was no greeting.
fn of_first_answers(error: RedisError, meter: &Meter, access: &Access) -> Failure {
    if let Some(errors) = error.clone().into_server_errors() {
        return errors.first().map_or_else(Failure::unexpected, |(_, error)| refusal(error, HELLO));
    }
    match error.kind() {
        redis::ErrorKind::RESP3NotSupported => refusal_of_hello("it has no command HELLO"),
        // What is left of a refused SELECT.
        redis::ErrorKind::Server(_) => {
            let (number, detail) = (access.database, error.detail().unwrap_or_default());
            let message = format!("the database {number} cannot be used: {detail}");
            Failure::new(FailureKind::Settings, Effect::None, message)
        }
        _ => hinted(Failure::of_transport(error, Effect::None), meter, access),
    }
}

/// Adds what may be wrong if there was no answer, or none of a Redis.
fn hinted(failure: Failure, meter: &Meter, access: &Access) -> Failure {
    match (meter.first_read(), failure.kind) {
        (Some(first), _) if first.starts_with(b"HTTP") => Failure::stranger("this is an HTTP server, and no Redis"),
        (Some([TLS_ALERT, TLS_MAJOR_VERSION, ..]), _) => {
            Failure::stranger("the server speaks TLS, so the URL must begin with `redis+tls:`")
        }
        (_, FailureKind::Broken) if access.is_secured() => {
            failure.with_hint("; a server that asks for a certificate needs `cert` and `key` in the URL")
        }
        (_, FailureKind::Broken) => {
            failure.with_hint("; if it is a Redis that speaks TLS, the URL must begin with `redis+tls:`")
        }
        _ => failure,
    }
}

/// With these two bytes a TLS server says that it was not greeted in TLS.
const TLS_ALERT: u8 = 21;
const TLS_MAJOR_VERSION: u8 = 3;
