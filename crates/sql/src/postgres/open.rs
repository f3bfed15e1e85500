//! Opens a connection: a socket, who we are, who the server is, its settings for us, and our schema.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use lockkeeper_core::clock::Clock;
use lockkeeper_session::{AnswerMeter, Effect, Failure, FailureKind, Server, Socket};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};
use tokio_postgres::config::SslMode;
use tokio_postgres::{AsyncMessage, Client, Connection, NoTls};

use crate::engine::{Connected, Hint, Intent, WireEnd, unmade};
use crate::postgres::call::limits_ms;
use crate::postgres::greeting::PostgresFacts;
use crate::postgres::wire::{Driver, PostgresWire, PreparedStatements, Transactions, WireState};
use crate::postgres::{grants, refusal, set_up, unasked};
use crate::schema::{Schema, incomplete};
use crate::url::Config;

/// What an operator sees in the server's list of connections.
const NAME: &str = "lockkeeper";

/// The longest answer, in bytes: a queue of a hundred thousand contenders, with their records, has a third of it. The
/// crate `tokio-postgres` has no limit.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// How many notifications wait for the session to read them. More are dropped: each is only a reason to look, and a
/// session that does not read them looks with its next beat.
const HINTS_MAX: usize = 4_096;

/// How long the making of our schema may take on the server, and wait for a lock there.
const SET_UP_MAX: Duration = Duration::from_secs(60);

/// The question whether it speaks TLS: its length and its number in PostgreSQL's protocol.
#[cfg(feature = "tls")]
const TLS_QUESTION: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];

struct GreetedClient {
    client: Arc<Client>,
    meter: Arc<AnswerMeter>,
    /// The process of the server that the greeting named, if it did.
    process: Option<i32>,
    driver: Driver,
    is_over: watch::Receiver<bool>,
    hints: mpsc::Receiver<Hint>,
}

/// Connects, and makes sure that locks can be had. It is driven on the runtime in which this is called.
pub(crate) async fn connect(
    config: &Arc<Config>,
    server: &Server,
    clock: &Arc<dyn Clock>,
    intent: Intent,
) -> Result<Connected, Failure> {
    let opened = begin_at(config, server).await?;
    let client = &opened.client;
    let named = opened.process;
    let found = PostgresFacts::greet(client, config, named, &settings(config)).await?;
    let is_pooled = found.who.is_behind_pooler(named);
    found.check_server()?;
    if ready_schema(config, client, &found, intent).await? == Schema::Missing {
        return Ok(unmade(format!("the schema `{}`", config.schema), found.greeting(false)));
    }
    let transactions = if is_pooled { Transactions::lent() } else { Transactions::Single };
    let prepared =
        if is_pooled { PreparedStatements::default() } else { PreparedStatements::begin(client, &config.schema) };
    let wakes = !is_pooled && !config.only_looks;
    let shared = WireState {
        config: config.clone(),
        client: opened.client,
        grants: grants(&config.schema, &found.role),
        transactions,
        prepared,
        line: Mutex::default(),
        meter: opened.meter,
        clock: clock.clone(),
        runtime: Handle::current(),
    };
    let wire = PostgresWire { shared: Arc::new(shared), wakes, driver: opened.driver, is_over: opened.is_over };
    Ok(Connected { wire: Arc::new(wire), greeting: found.greeting(wakes), hints: opened.hints })
}

/// Opens a socket, with TLS if that is asked for, and says who we are.
async fn begin_at(config: &Config, server: &Server) -> Result<GreetedClient, Failure> {
    let socket = Socket::connect(server, "postgres").await?;
    #[cfg(feature = "tls")]
    let socket = match &config.tls {
        Some(material) => secure(material, server, socket).await?,
        None => socket,
    };
    let meter = socket.meter();
    begin(config, socket).await.map_err(|failure| meter.judge(failure))
}

/// Makes sure that the other end is the server. It is asked whether it speaks TLS before anything else is said.
#[cfg(feature = "tls")]
async fn secure(
    material: &lockkeeper_tls::TlsMaterial,
    server: &Server,
    mut socket: Socket,
) -> Result<Socket, Failure> {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    let unanswered = |error: std::io::Error| Failure::broken(Effect::None).caused_by(error);
    socket.write_all(&TLS_QUESTION).await.map_err(unanswered)?;
    // Only this byte is read: what another end put behind it would be taken for a part of the handshake, and refused.
    match socket.read_u8().await.map_err(unanswered)? {
        b'S' => socket.secure(&lockkeeper_tls::Connector::new(material), server).await,
        b'N' => Err(Failure::untrusted("the server does not speak TLS; without it the URL begins with `postgres:`")),
        _ => Err(Failure::stranger("the server does not speak as PostgreSQL does")),
    }
}

/// Says who we are.
async fn begin(config: &Config, socket: Socket) -> Result<GreetedClient, Failure> {
    let mut access = tokio_postgres::Config::new();
    access.application_name(NAME).ssl_mode(SslMode::Disable);
    if let Some(user) = &config.user {
        access.user(user);
    }
    if let Some(password) = &config.password {
        access.password(password);
    }
    if let Some(database) = &config.database {
        access.dbname(database);
    }
    let process = Arc::<OnceLock<i32>>::default();
    let socket = socket.limited_to(ANSWER_BYTES_MAX).seen_by(unasked::process_reader(process.clone()));
    let meter = socket.meter();
    let connecting = access.connect_raw(socket, NoTls);
    let (client, connection) = connecting.await.map_err(refusal::of_greeting)?;
    let (is_over, over) = watch::channel(false);
    let (hints, taken) = mpsc::channel(HINTS_MAX);
    let driving = tokio::spawn(drive(connection, hints, meter.clone(), WireEnd(is_over)));
    let (client, process, driver) = (Arc::new(client), process.get().copied(), Driver(driving.abort_handle()));
    Ok(GreetedClient { client, meter, process, driver, is_over: over, hints: taken })
}

/// Reads and writes until the connection ends.
async fn drive(
    mut connection: Connection<Socket, tokio_postgres::tls::NoTlsStream>,
    hints: mpsc::Sender<Hint>,
    meter: Arc<AnswerMeter>,
    ending: WireEnd,
) {
    while let Some(message) = std::future::poll_fn(|context| connection.poll_message(context)).await {
        match message {
            Ok(AsyncMessage::Notification(notification)) => {
                meter.note_progress();
                if let Some(hint) = unasked::hint(notification.payload()) {
                    // One that finds no room is lost, as one is that comes between two connections: the session looks.
                    let _ = hints.try_send(hint);
                }
            }
            Ok(AsyncMessage::Notice(notice)) => {
                meter.note_progress();
                tracing::debug!(target: "lockkeeper", message = notice.message(), "PostgreSQL");
            }
            Ok(_) => {}
            Err(error) => {
                tracing::debug!(target: "lockkeeper", %error, "the connection to PostgreSQL ended");
                break;
            }
        }
    }
    drop(ending);
}

/// The settings of a connection that is ours alone. A server that has lost its client for a session's timeout lets go
/// of it; a statement ends early enough for the beat after it.
fn settings(config: &Config) -> [(&'static str, String); 10] {
    let timeout = config.session_timeout();
    let (statement_ms, lock_ms) = limits_ms(timeout);
    let keepalive_s = (timeout / 4).as_secs().max(1).to_string();
    [
        ("statement_timeout", statement_ms.to_string()),
        ("lock_timeout", lock_ms.to_string()),
        ("tcp_user_timeout", timeout.as_millis().to_string()),
        ("tcp_keepalives_idle", keepalive_s.clone()),
        ("tcp_keepalives_interval", keepalive_s),
        ("tcp_keepalives_count", "3".to_owned()),
        ("idle_session_timeout", "0".to_owned()),
        ("default_transaction_isolation", "read committed".to_owned()),
        ("jit", "off".to_owned()),
        ("lockkeeper.commit", if config.flushes_joins { "sync" } else { "async" }.to_owned()),
    ]
}

/// Makes sure that our schema is there; makes it if that is meant. It is missing still only to a look.
async fn ready_schema(
    config: &Config,
    client: &Client,
    found: &PostgresFacts,
    intent: Intent,
) -> Result<Schema, Failure> {
    if intent == Intent::SetUp {
        return set_up_schema(config, client, intent).await.map(|()| Schema::Ready);
    }
    match found.check_schema(&config.schema)? {
        Schema::Ready => Ok(Schema::Ready),
        Schema::Missing => {
            found.check_set_up(config)?;
            match intent {
                Intent::Look => Ok(Schema::Missing),
                _ => set_up_schema(config, client, intent).await.map(|()| Schema::Ready),
            }
        }
        Schema::Incomplete => {
            let version = version(config, client).await;
            Err(incomplete(&format!("the schema `{}`", config.schema), version.map(i64::from), None))
        }
    }
}

/// Makes our schema, or brings it up to date, in one transaction that no other of its kind runs beside.
async fn set_up_schema(config: &Config, client: &Client, intent: Intent) -> Result<(), Failure> {
    let Err(failure) = try_set_up(config, client, intent).await else {
        return Ok(());
    };
    // It ends the transaction, which has failed.
    let _ = client.batch_execute("ROLLBACK").await;
    let message = format!("the schema `{}` could not be made: {failure}", config.schema);
    let hint = if failure.kind == FailureKind::Refused { "; its owner, or an administrator, can" } else { "" };
    Err(Failure::new(failure.kind, Effect::None, message).with_hint(hint))
}

async fn try_set_up(config: &Config, client: &Client, intent: Intent) -> Result<(), Failure> {
    let (schema, most_ms) = (&config.schema, SET_UP_MAX.as_millis());
    let lock = format!(
        "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL statement_timeout = {most_ms}; \
         SET LOCAL lock_timeout = {most_ms}; SELECT pg_advisory_xact_lock(hashtextextended('lockkeeper {schema}', 0))"
    );
    client.batch_execute(&lock).await.map_err(refusal::of_greeting)?;
    // Another client may have made it meanwhile. Making it again would lock its tables, and keep that client waiting.
    let is_made = intent == Intent::Serve
        && matches!(PostgresFacts::ask(client, config).await?.check_schema(schema), Ok(Schema::Ready));
    let text = if is_made { String::new() } else { set_up(schema) };
    client.batch_execute(&format!("{text}\nCOMMIT")).await.map_err(refusal::of_greeting)
}

/// Asks which version a schema has that lacks what we call.
async fn version(config: &Config, client: &Client) -> Option<i32> {
    let asked = client.query_typed(&format!("SELECT {}.version()", config.schema), &[]).await;
    asked.ok()?.first()?.try_get(0).ok()
}
