//! The opening of a connection: a socket, TLS where the URL asks for it, the greeting in RESP3, and tracking.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use lockkeeper_core::clock::{BootInstant, Clock};
use lockkeeper_session::{AnswerMeter, Asking, Effect, Failure, FailureKind, Server, Socket};
use parking_lot::Mutex;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, ProtocolVersion, PushInfo, RedisConnectionInfo, RedisError, Value, pipe};
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::connection::answer::{HELLO, answer, of_transport, refusal, refusal_of_hello};
use crate::connection::greeting::HelloReply;
use crate::connection::tracking::WaitRegistry;
use crate::connection::{BATCHES_MAX, Batch, Connection, ConnectionEnd, Driver, SendLine, send, sorted};
use crate::url::{RedisAccess, RedisCredentials};

/// What an operator sees in the server's list of connections.
const NAME: &str = "lockkeeper";

/// The longest answer, in bytes: a queue of a hundred thousand contenders, with their data, has a third of it. It is
/// the crate `redis` that reads answers, and it has no limit for them.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// A connection whose server was asked more with what asks who it is.
pub(crate) struct OpenedConnection {
    pub(crate) connection: Connection,
    /// When that was sent, or before.
    pub(crate) sent_at: BootInstant,
    /// What the first batch was answered, as [`batch`](Connection::send) would have it.
    pub(crate) answers: Result<Vec<Value>, Failure>,
}

impl Connection {
    /// Connects to a server, and makes sure that it has what locks need, and is a master, or one of a cluster.
    ///
    /// It is driven on the runtime in which this is called.
    pub(crate) async fn open(
        server: &Server,
        access: &RedisAccess,
        clock: &Arc<dyn Clock>,
        deadline: BootInstant,
    ) -> Result<Self, Failure> {
        Self::open_with(Batch::new(), server, access, clock, deadline).await.map(|opened| opened.connection)
    }

    /// Connects, and sends a first batch with what asks who the server is, so that it takes no round trip more.
    ///
    /// It may take effect although this fails: on a server that is refused for what it is, or when time is up.
    pub(crate) async fn open_with(
        first: Batch,
        server: &Server,
        access: &RedisAccess,
        clock: &Arc<dyn Clock>,
        deadline: BootInstant,
    ) -> Result<OpenedConnection, Failure> {
        tokio::select! {
            biased;
            opened = connect(first, server, access, clock) => opened.map_err(|failure| failure.at(server)),
            () = clock.sleep_until(deadline) => Err(silent(access).at(server)),
        }
    }
}

/// Says that a server did not answer. A Redis without TLS waits for the end of what it takes for a command.
fn silent(access: &RedisAccess) -> Failure {
    let failure = Failure::late(Effect::None);
    if access.is_secured { failure.with_hint("; a server without TLS needs `redis:`") } else { failure }
}

async fn connect(
    first: Batch,
    server: &Server,
    access: &RedisAccess,
    clock: &Arc<dyn Clock>,
) -> Result<OpenedConnection, Failure> {
    let socket = Socket::connect(server, "redis").await?;
    #[cfg(feature = "tls")]
    let socket = match &access.tls {
        Some(tls) => socket.secure(tls, server).await?,
        None => socket,
    };
    let socket = socket.limited_to(ANSWER_BYTES_MAX);
    let (meter, waits) = (socket.meter(), Arc::<WaitRegistry>::default());
    let config = AsyncConnectionConfig::new()
        .set_response_timeout(None)
        .set_connection_timeout(None)
        .set_pipeline_buffer_size(BATCHES_MAX)
        .set_push_sender(push_sender(&meter, &waits));
    let begun = MultiplexedConnection::new_with_config(&info(access), socket, config).await;
    let (connection, driver) = begun.map_err(|error| meter.judge(of_first_answers(error, access)))?;
    let (is_over, over) = watch::channel(false);
    let ending = ConnectionEnd { is_over, waits: waits.clone() };
    let runtime = Handle::current();
    let driving = runtime.spawn(async move {
        driver.await;
        drop(ending);
    });
    let driver = Driver(driving.abort_handle());
    let sent_at = clock.now();
    let introduced = introduce(connection.clone(), meter.clone(), clock.clone());
    let introduced = Asking::begin(introduced, runtime.clone());
    let answered = Asking::begin(ask(connection.clone(), first, meter.clone(), clock.clone()), runtime.clone());
    // A server that is refused is not waited for until it has answered all.
    let introduced = introduced.await.map_err(|error| meter.judge(of_broken_greeting(error, access)))?;
    let greeting = greeting(introduced)?;
    let answers = answered.await;
    let connection = Connection {
        server: server.clone(),
        greeting,
        line: Mutex::new(SendLine { connection, queued_bytes: meter.written() }),
        meter,
        waits,
        driver,
        is_over: over,
        clock: clock.clone(),
        runtime,
        batches: Arc::new(AtomicUsize::new(0)),
    };
    Ok(OpenedConnection { connection, sent_at, answers })
}

/// Takes in what the server tells unasked.
fn push_sender(
    meter: &Arc<AnswerMeter>,
    waits: &Arc<WaitRegistry>,
) -> impl Fn(PushInfo) -> Result<(), std::convert::Infallible> + Send + Sync + 'static {
    let (meter, waits) = (meter.clone(), waits.clone());
    move |push| {
        meter.note_progress();
        waits.take_in(push);
        Ok(())
    }
}

/// What the crate `redis` does by itself: it greets, says who we are, and takes the database.
fn info(access: &RedisAccess) -> RedisConnectionInfo {
    let info = RedisConnectionInfo::default()
        .set_protocol(ProtocolVersion::RESP3)
        .set_skip_set_lib_name()
        .set_db(i64::from(access.database));
    match &access.credentials {
        None => info,
        Some(RedisCredentials { user: None, password }) => info.set_password(password),
        Some(RedisCredentials { user: Some(user), password }) => info.set_username(user).set_password(password),
    }
}

/// Gives the connection its name, has the server tell of changes of what is read, and asks what it is.
///
/// Without NOLOOP: a script of this very connection may remove the contender that another of our own waits for.
async fn introduce(
    connection: MultiplexedConnection,
    meter: Arc<AnswerMeter>,
    clock: Arc<dyn Clock>,
) -> Result<Vec<Value>, RedisError> {
    let mut introduction = pipe();
    introduction.cmd("CLIENT").arg("SETNAME").arg(NAME);
    introduction.cmd("CLIENT").arg("TRACKING").arg("ON").arg("OPTIN");
    // A user may lack the right to this alone, and would then wait in vain.
    introduction.cmd("CLIENT").arg("CACHING").arg("YES");
    introduction.cmd(HELLO);
    send(connection, &introduction, &meter, &*clock).await
}

/// Reads the answers to that.
fn greeting(answers: Vec<Value>) -> Result<HelloReply, Failure> {
    let [named, tracked, cached, greeted] = <[_; 4]>::try_from(answers).map_err(|_| Failure::unexpected())?;
    let greeting = HelloReply::of(&answer(greeted, HELLO)?)?;
    greeting.check_use()?;
    answer(named, "CLIENT SETNAME")?;
    answer(tracked, "CLIENT TRACKING")?;
    answer(cached, "CLIENT CACHING")?;
    Ok(greeting)
}

/// Sends the first batch, if there is one.
async fn ask(
    connection: MultiplexedConnection,
    first: Batch,
    meter: Arc<AnswerMeter>,
    clock: Arc<dyn Clock>,
) -> Result<Vec<Value>, Failure> {
    let Batch { pipeline, parts } = first;
    if parts.is_empty() {
        return Ok(Vec::new());
    }
    let answers = send(connection, &pipeline, &meter, &*clock).await;
    sorted(&parts, answers.map_err(|error| of_transport(error, Effect::Unknown))?)
}

/// Judges why there was no greeting.
fn of_first_answers(error: RedisError, access: &RedisAccess) -> Failure {
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
        _ => of_broken_greeting(error, access),
    }
}

/// Judges why the connection ended before there was one, and adds what may be wrong.
fn of_broken_greeting(error: RedisError, access: &RedisAccess) -> Failure {
    let failure = of_transport(error, Effect::None);
    match failure.kind {
        FailureKind::Broken if !access.is_secured => {
            failure.with_hint("; if it is a Redis that speaks TLS, the URL must begin with `redis+tls:`")
        }
        _ => failure,
    }
}
