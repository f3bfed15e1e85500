//! The opening of a connection: a socket, TLS where the URL asks for it, the greeting in RESP3, and tracking. How a
//! server is waited for that loads its data: `loading`.

use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use lockkeeper_core::Backoff;
use lockkeeper_core::clock::{BootInstant, Clock};
use lockkeeper_session::{AnswerMeter, Asking, Effect, Failure, FailureKind, Server, Socket};
use parking_lot::Mutex;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Pipeline, ProtocolVersion, PushInfo, RedisConnectionInfo, RedisError, Value, pipe};
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::connection::answer::{HELLO, answer, of_transport, refusal, refusal_of_hello};
use crate::connection::greeting::HelloReply;
use crate::connection::loading::{question, refusal_of_loading};
use crate::connection::tracking::WaitRegistry;
use crate::connection::{BATCHES_MAX, Batch, Connection, ConnectionEnd, Driver, SendLine, send, sorted};
use crate::url::{RedisAccess, RedisCredentials};

/// What an operator sees in the server's list of connections.
const NAME: &str = "lockkeeper";

/// The longest answer, in bytes: a queue of a hundred thousand contenders, with their data, has a third of it. It is
/// the crate `redis` that reads answers, and it has no limit for them.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// How long a server that loads its data may take to say so again, between two pieces of it. Other attempts wait for
/// the one that asks, and should not do so for a connection that is dead.
const QUESTION_MAX: Duration = Duration::from_secs(5);

/// The pauses between these questions. Those of thousands of clients take time from the loading, and a server that has
/// loaded for seconds may be asked again seconds later.
const QUESTIONS: Backoff = Backoff::new(Duration::from_millis(20), Duration::from_secs(2));

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
        Self::open_with(Batch::new, server, access, clock, deadline).await.map(|opened| opened.connection)
    }

    /// Connects, and sends a first batch with what asks who the server is, so that it takes no round trip more.
    ///
    /// It may take effect although this fails: on a server that is refused for what it is, or when time is up. It is
    /// sent again to a server that was loading its data, and may take effect twice where that ended meanwhile.
    pub(crate) async fn open_with(
        first: impl FnOnce() -> Batch + Send,
        server: &Server,
        access: &RedisAccess,
        clock: &Arc<dyn Clock>,
        deadline: BootInstant,
    ) -> Result<OpenedConnection, Failure> {
        let _turn = access.loading.turn(server, &**clock, deadline).await?;
        let heard = OnceLock::new();
        let opened = tokio::select! {
            biased;
            opened = connect(first, server, access, clock, &heard) => opened,
            () = clock.sleep_until(deadline) => Err(heard.get().cloned().unwrap_or_else(|| silent(access))),
        };
        if opened.is_ok() || heard.get().is_none() {
            access.loading.conclude(server, &opened);
        }
        opened.map_err(|failure| failure.at(server))
    }
}

/// Says that a server did not answer. A Redis without TLS waits for the end of what it takes for a command.
fn silent(access: &RedisAccess) -> Failure {
    let failure = Failure::late(Effect::None);
    if access.is_secured { failure.with_hint("; a server without TLS needs `redis:`") } else { failure }
}

/// Opens the socket, greets, and sends the first batch; what a server says that loads its data is `heard`.
async fn connect(
    first: impl FnOnce() -> Batch + Send,
    server: &Server,
    access: &RedisAccess,
    clock: &Arc<dyn Clock>,
    heard: &OnceLock<Failure>,
) -> Result<OpenedConnection, Failure> {
    let socket = socket(server, access).await?;
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
    let speaker = Speaker { connection: connection.clone(), meter: meter.clone(), clock: clock.clone() };
    let (greeting, sent_at, answers) = greet(speaker, first(), server, access, heard).await?;
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

#[cfg_attr(not(feature = "tls"), expect(unused_variables, reason = "what is secured takes TLS"))]
async fn socket(server: &Server, access: &RedisAccess) -> Result<Socket, Failure> {
    let socket = Socket::connect(server, "redis").await?;
    #[cfg(feature = "tls")]
    let socket = match &access.tls {
        Some(tls) => socket.secure(tls, server).await?,
        None => socket,
    };
    Ok(socket.limited_to(ANSWER_BYTES_MAX))
}

/// Introduces us and sends the first batch, once the server has its data; returns when that was sent, too.
///
/// The first batch goes along, unless the server may well load its data: it has all scripts.
async fn greet(
    speaker: Speaker,
    first: Batch,
    server: &Server,
    access: &RedisAccess,
    heard: &OnceLock<Failure>,
) -> Result<(HelloReply, BootInstant, Result<Vec<Value>, Failure>), Failure> {
    let (runtime, first, sent_at) = (Handle::current(), Arc::new(first), speaker.clock.now());
    let introduced = Asking::begin(speaker.clone().introduce(), runtime.clone());
    let goes_along = !access.loading.is_likely();
    let answered = goes_along.then(|| Asking::begin(speaker.clone().ask(first.clone()), runtime));
    // A server that is refused is not waited for until it has answered all.
    let introduced = introduced.await.map_err(|error| speaker.meter.judge(of_broken_greeting(error, access)))?;
    let (greeting, loading) = greeting(introduced)?;
    match (loading, answered) {
        (None, Some(answered)) => return Ok((greeting, sent_at, answered.await)),
        (None, None) => {}
        (Some(failure), _) => {
            access.loading.set(server, failure.clone());
            let _ = heard.set(failure.clone());
            // Another one may serve, as after a promotion.
            if !access.is_alone || greeting.is_of_cluster {
                return Err(failure);
            }
            let _waiting = access.loading.begin_to_wait();
            speaker.clone().until_loaded(failure).await?;
        }
    }
    let sent_at = speaker.clock.now();
    Ok((greeting, sent_at, speaker.ask(first).await))
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

/// What speaks over a connection until it is one of ours.
#[derive(Clone)]
struct Speaker {
    connection: MultiplexedConnection,
    meter: Arc<AnswerMeter>,
    clock: Arc<dyn Clock>,
}

impl Speaker {
    async fn send(self, commands: &Pipeline) -> Result<Vec<Value>, RedisError> {
        send(self.connection, commands, &self.meter, &*self.clock).await
    }

    /// Gives the connection its name, has the server tell of changes of what is read, and asks what it is, and whether
    /// it loads its data.
    ///
    /// Without NOLOOP: a script of this very connection may remove the contender that another of our own waits for.
    async fn introduce(self) -> Result<Vec<Value>, RedisError> {
        let mut introduction = pipe();
        introduction.cmd("CLIENT").arg("SETNAME").arg(NAME);
        introduction.cmd("CLIENT").arg("TRACKING").arg("ON").arg("OPTIN");
        // A user may lack the right to this alone, and would then wait in vain.
        introduction.cmd("CLIENT").arg("CACHING").arg("YES");
        introduction.cmd(HELLO);
        introduction.add_command(question());
        self.send(&introduction).await
    }

    /// Asks again and again, until the server has loaded its data; fails as it has said first if it falls silent.
    async fn until_loaded(self, loading: Failure) -> Result<(), Failure> {
        let (mut backoff, mut asking) = (QUESTIONS, pipe());
        asking.add_command(question());
        loop {
            backoff.rest(&*self.clock).await;
            let silent_from = self.clock.now().saturating_add(QUESTION_MAX);
            let answers = tokio::select! {
                biased;
                answers = self.clone().send(&asking) => answers,
                () = self.clock.sleep_until(silent_from) => return Err(loading),
            };
            let answers = answers.map_err(|error| self.meter.judge(of_transport(error, Effect::None)))?;
            if !answers.into_iter().any(|answered| refusal_of_loading(answered).is_some()) {
                return Ok(());
            }
        }
    }

    /// Sends the first batch, if there is one.
    async fn ask(self, first: Arc<Batch>) -> Result<Vec<Value>, Failure> {
        let Batch { pipeline, parts } = &*first;
        if parts.is_empty() {
            return Ok(Vec::new());
        }
        let answers = self.send(pipeline).await;
        sorted(parts, answers.map_err(|error| of_transport(error, Effect::Unknown))?)
    }
}

/// Reads the answers to the introduction: what the server is, and whether it loads its data.
fn greeting(answers: Vec<Value>) -> Result<(HelloReply, Option<Failure>), Failure> {
    let [named, tracked, cached, greeted, asked] = <[_; 5]>::try_from(answers).map_err(|_| Failure::unexpected())?;
    let greeting = HelloReply::of(&answer(greeted, HELLO)?)?;
    greeting.check_use()?;
    answer(named, "CLIENT SETNAME")?;
    answer(tracked, "CLIENT TRACKING")?;
    answer(cached, "CLIENT CACHING")?;
    Ok((greeting, refusal_of_loading(asked)))
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
