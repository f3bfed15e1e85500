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
use crate::postgres::call::{self, limits_ms};
use crate::postgres::greeting::PostgresFacts;
use crate::postgres::lent::LentWay;
use crate::postgres::pool::{OneConnection, PostgresPool};
use crate::postgres::wire::{Driver, PostgresWire, PreparedStatements, StatementWay, WireClosing, WireState};
use crate::postgres::{functions, grants, refusal, set_up, unasked};
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
    end: watch::Sender<bool>,
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
    let (client, named) = (&opened.client, opened.process);
    let pool = Arc::new(OneConnection(client.clone()));
    let found = PostgresFacts::greet(&*pool, config, named, &settings(config)).await?;
    let is_pooled = found.who.is_behind_pooler(named);
    let wakes = !is_pooled && !config.only_looks;
    if readied(config, &*pool, &found, intent).await? == Schema::Missing {
        return Ok(unmade(format!("the schema `{}`", config.schema), found.greeting(false)));
    }
    let is_over = opened.end.subscribe();
    let way = match is_pooled {
        true => StatementWay::Lent(LentWay::over_one(pool, config.clone(), opened.end)),
        false => {
            let prepared = PreparedStatements::begin(client, &config.schema);
            StatementWay::Own { client: opened.client, prepared }
        }
    };
    let shared = WireState { meter: opened.meter, ..state(config, &found, way, clock) };
    let wire = PostgresWire { shared: Arc::new(shared), wakes, closing: WireClosing::Socket(opened.driver), is_over };
    Ok(Connected { wire: Arc::new(wire), greeting: found.greeting(wakes), hints: opened.hints })
}

/// Makes sure that locks can be had over a pool.
pub(crate) async fn connect_over(
    pool: &Arc<dyn PostgresPool>,
    config: &Arc<Config>,
    clock: &Arc<dyn Clock>,
    intent: Intent,
) -> Result<Connected, Failure> {
    let found = PostgresFacts::greet(&**pool, config, None, &[]).await?;
    if readied(config, &**pool, &found, intent).await? == Schema::Missing {
        return Ok(unmade(format!("the schema `{}`", config.schema), found.greeting(false)));
    }
    let way = LentWay::over_any(pool.clone(), config.clone());
    let (is_over, closing) = (way.end.subscribe(), WireClosing::Pool(WireEnd(way.end.clone())));
    let shared = Arc::new(state(config, &found, StatementWay::Lent(way), clock));
    let wire = PostgresWire { shared, wakes: false, closing, is_over };
    Ok(Connected { wire: Arc::new(wire), greeting: found.greeting(false), hints: mpsc::channel(1).1 })
}

fn state(config: &Arc<Config>, found: &PostgresFacts, way: StatementWay, clock: &Arc<dyn Clock>) -> WireState {
    WireState {
        config: config.clone(),
        grants: grants(&config.schema, &found.role),
        way,
        line: Mutex::default(),
        meter: Arc::default(),
        clock: clock.clone(),
        runtime: Handle::current(),
    }
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
    let (client, connection) = connecting.await.map_err(|error| refusal::of_greeting(error.into()))?;
    let end = watch::channel(false).0;
    let (hints, taken) = mpsc::channel(HINTS_MAX);
    let driving = tokio::spawn(drive(connection, hints, meter.clone(), WireEnd(end.clone())));
    let (client, process, driver) = (Arc::new(client), process.get().copied(), Driver(driving.abort_handle()));
    Ok(GreetedClient { client, meter, process, driver, end, hints: taken })
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

/// Makes sure that a server can serve locks, and that our schema is there; makes it if that is meant. It is missing
/// still only to a look.
async fn readied(
    config: &Config,
    pool: &dyn PostgresPool,
    found: &PostgresFacts,
    intent: Intent,
) -> Result<Schema, Failure> {
    found.check_server(config)?;
    if intent == Intent::SetUp {
        return set_up_schema(config, pool, intent).await.map(|()| Schema::Ready);
    }
    match found.check_schema(&config.schema)? {
        Schema::Ready => Ok(Schema::Ready),
        Schema::Missing => {
            found.check_set_up(config)?;
            match intent {
                Intent::Look => Ok(Schema::Missing),
                _ => set_up_schema(config, pool, intent).await.map(|()| Schema::Ready),
            }
        }
        Schema::Incomplete => {
            let version = version(config, pool).await;
            Err(incomplete(&format!("the schema `{}`", config.schema), version, None))
        }
    }
}

/// Makes our schema, or brings it up to date, in one transaction that no other of its kind runs beside.
async fn set_up_schema(config: &Config, pool: &dyn PostgresPool, intent: Intent) -> Result<(), Failure> {
    let made = pool.ask(set_up_message(&config.schema, intent), call::free_within(config)).await;
    let Err(failure) = made.map_err(refusal::of_greeting) else {
        return Ok(());
    };
    let message = format!("the schema `{}` could not be made: {failure}", config.schema);
    let hint = if failure.kind == FailureKind::Refused { "; its owner, or an administrator, can" } else { "" };
    Err(Failure::new(failure.kind, Effect::None, message).with_hint(hint))
}

/// One message, which is one transaction. Another client may have made the schema while it waits for its turn: making
/// it again would lock its tables, and keep that client waiting.
fn set_up_message(schema: &str, intent: Intent) -> String {
    let most_ms = SET_UP_MAX.as_millis();
    let functions: Vec<_> = functions().map(|function| format!("'{function}_v1'")).collect();
    let (least, names) = (functions.len(), functions.join(", "));
    let is_made = match intent {
        Intent::SetUp => "false".to_owned(),
        _ => format!(
            "(SELECT count(DISTINCT p.proname) >= {least} FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace \
             WHERE n.nspname = '{schema}' AND p.proname IN ({names}))"
        ),
    };
    format!(
        "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; SET LOCAL statement_timeout = {most_ms}; \
         SET LOCAL lock_timeout = {most_ms}; SELECT pg_advisory_xact_lock(hashtextextended('lockkeeper {schema}', 0)); \
         DO $set_up$ BEGIN IF NOT {is_made} THEN EXECUTE $schema$\n{}\n$schema$; END IF; END $set_up$",
        set_up(schema)
    )
}

/// Asks which version a schema has that lacks what we call.
async fn version(config: &Config, pool: &dyn PostgresPool) -> Option<i64> {
    let asked = pool.ask(format!("SELECT {}.version()", config.schema), call::free_within(config)).await;
    call::optional(call::only_row(&asked.ok()?).ok()?, 0).ok()?
}
