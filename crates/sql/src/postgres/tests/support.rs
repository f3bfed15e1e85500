//! What the tests share: servers, connections, and calls of functions.

use std::sync::Arc;
use std::thread;

pub(super) use lockkeeper_conformance::{SOON, soon};
use lockkeeper_core::clock::{BootInstant, Clock, SystemClock};
use lockkeeper_core::{BoxFuture, Ticket};
use lockkeeper_faults::postgres::{Server, Setup};
use lockkeeper_faults::wait;
use lockkeeper_session::Failure;
use tokio::sync::mpsc;

use crate::engine::{Connected, Engine, Greeting, Hint, Wire};
use crate::postgres::{Postgres, text};
use crate::statement::{Argument, Row, SessionId, Statement, What, word};
use crate::url::Config;

/// How often a planted fault is tried at most until it is seen: on a busy machine one may come too late to do harm.
const TRIES_MAX: u32 = 10;

/// How long a function takes that was made slow, in seconds.
pub(super) const SLOW_S: f64 = 1.0;

/// Whether the test that asks may go on; if not, it is skipped by the name that the harness gave to its thread.
pub(super) fn can_run() -> bool {
    lockkeeper_faults::postgres::availability()
        .or_skip(thread::current().name().expect("the harness names the thread of a test"))
}

const ASLEEP: &str = "FROM pg_stat_activity WHERE wait_event = 'PgSleep'";

/// Waits until a statement sleeps: one of a function that was made slow, or of another's transaction.
pub(super) async fn until_asleep(server: &Server) {
    let is_one = async || {
        let count = server.value(&format!("SELECT count(*) {ASLEEP}")).await;
        count.is_ok_and(|count| count != "0").then_some(())
    };
    wait::until("a statement that sleeps", SOON, is_one).await.expect("one sleeps");
}

/// Ends the statements that sleep.
pub(super) async fn wake(server: &Server) {
    server.ask(&format!("SELECT pg_cancel_backend(pid) {ASLEEP}")).await.expect("the operator's right");
}

/// Whether a planted fault shows itself in one of several tries.
pub(super) async fn is_seen(is_it: impl AsyncFn() -> bool) -> bool {
    for _ in 0..TRIES_MAX {
        if is_it().await {
            return true;
        }
    }
    false
}

pub(super) fn deadline() -> BootInstant {
    SystemClock.now().saturating_add(SOON)
}

pub(super) fn engine(url: &str) -> Postgres {
    let config = Config::from_url(&url.parse().expect("a URL")).expect("a good URL");
    Postgres::new(Arc::new(config), Arc::new(SystemClock))
}

/// Connects to a URL's first server.
pub(super) async fn connect(url: &str) -> Result<Connected, Failure> {
    engine(url).connect(0, deadline()).await
}

/// Starts a server without any schema.
pub(super) async fn server() -> Server {
    Setup::new().start().await.expect("a server")
}

/// The superuser's URL of a server.
pub(super) fn url(server: &Server) -> String {
    format!("{}?session_timeout=30s", server.url("postgres"))
}

/// A session on a connection that is only its own.
pub(super) struct Client {
    pub(super) wire: Arc<dyn Wire>,
    pub(super) greeting: Greeting,
    pub(super) hints: mpsc::Receiver<Hint>,
    pub(super) session: SessionId,
}

impl Client {
    /// Connects and opens a session with this number.
    pub(super) async fn open(url: &str, session: u128) -> Self {
        let client = Self::connect(url, session).await;
        let arguments = vec![
            client.session.into(),
            Argument::Int(10_000),
            Argument::Text("a test".to_owned()),
            Argument::Flag(false),
        ];
        client.ok("greet", vec![Argument::OptionalText(Some(client.greeting.instance.clone()))]).await;
        client.ok("open", arguments).await;
        client
    }

    /// Connects, and opens no session.
    pub(super) async fn connect(url: &str, session: u128) -> Self {
        let Connected { wire, greeting, hints } = connect(url).await.expect("a connection");
        Self { wire, greeting, hints, session: SessionId(session) }
    }

    /// Calls a function.
    pub(super) fn call(
        &self,
        function: &'static str,
        arguments: Vec<Argument>,
    ) -> BoxFuture<Result<Vec<Row>, Failure>> {
        self.wire.ask(Statement::new(function, arguments))
    }

    /// Calls a function, and returns the word and the rows behind it.
    pub(super) async fn told(&self, function: &'static str, arguments: Vec<Argument>) -> (String, Vec<Row>) {
        read(soon(function, self.call(function, arguments)).await.expect(function))
    }

    /// Calls a function that says `ok`.
    pub(super) async fn ok(&self, function: &'static str, arguments: Vec<Argument>) -> Vec<Row> {
        let (word, rows) = self.told(function, arguments).await;
        assert_eq!(word, "ok", "{function}");
        rows
    }

    /// Begins to join, with one mutex.
    pub(super) fn joining(&self, name: &str, ticket: u128) -> BoxFuture<Result<Vec<Row>, Failure>> {
        self.call("join", join(self.session, 1, name, &[ticket], &[0]))
    }

    /// Joins; returns the rows of the view.
    pub(super) async fn join(&self, name: &str, ticket: u128) -> Vec<Row> {
        let (word, rows) = read(soon("a join", self.joining(name, ticket)).await.expect("a join"));
        assert_eq!(word, "ok");
        rows
    }

    pub(super) async fn leave(&self, name: &str, ticket: u128) -> String {
        self.told("leave", leave(self.session, name, ticket)).await.0
    }

    /// Waits for a hint.
    pub(super) async fn hint(&mut self) -> Hint {
        soon("a hint", self.hints.recv()).await.expect("the connection stands")
    }

    /// Makes sure that nothing was told so far: what is told before an answer comes before it.
    pub(super) async fn assert_untold(&mut self) {
        self.ok("missing", vec![Argument::Ids(Vec::new())]).await;
        assert_eq!(self.hints.try_recv().ok(), None);
    }
}

pub(super) fn join(session: SessionId, epoch: i64, name: &str, tickets: &[u128], modes: &[u8]) -> Vec<Argument> {
    vec![
        session.into(),
        Argument::Int(epoch),
        Argument::Text(name.to_owned()),
        Argument::Int(0),
        Argument::Ids(tickets.to_vec()),
        Argument::Bytes(modes.to_vec()),
        Argument::Flag(false),
        Argument::OptionalId(None),
        Argument::Text("{}".to_owned()),
        Argument::Flag(false),
    ]
}

pub(super) fn leave(session: SessionId, name: &str, ticket: u128) -> Vec<Argument> {
    vec![session.into(), Argument::Text(name.to_owned()), Argument::Int(0), Argument::Id(ticket)]
}

pub(super) fn look(name: &str, around: Option<u128>, is_whole: bool) -> Vec<Argument> {
    let name = Argument::Text(name.to_owned());
    vec![name, Argument::Int(0), Argument::OptionalId(around), Argument::Flag(is_whole)]
}

/// The word of an answer, and the rows behind it.
pub(super) fn read(mut rows: Vec<Row>) -> (String, Vec<Row>) {
    let word = word(&rows).expect("a status").to_owned();
    rows.remove(0);
    (word, rows)
}

/// The rows of one kind.
pub(super) fn all(rows: &[Row], what: What) -> Vec<&Row> {
    rows.iter().filter(|row| row.what == what as i16).collect()
}

/// The tickets of the rows of one kind, in their order.
pub(super) fn tickets(rows: &[Row], what: What) -> Vec<u128> {
    all(rows, what).iter().map(|row| row.ticket.expect("it has a ticket")).collect()
}

/// The tickets of a queue, as it stands.
pub(super) async fn queue(client: &Client, name: &str) -> Vec<u128> {
    tickets(&client.ok("look", look(name, None, true)).await, What::Contender)
}

pub(super) fn departed(ticket: u128) -> Hint {
    Hint::Departed(Ticket::from_bits(ticket))
}

/// Changes the text of the functions. What is to be changed must be there.
pub(super) async fn plant(server: &Server, changes: &[(&str, &str)]) {
    let mut text = text::set_up("lockkeeper");
    for (is, becomes) in changes {
        assert!(text.contains(is), "there is no `{is}` to be changed");
        text = text.replace(is, becomes);
    }
    server.ask(&text).await.expect("the changed functions");
}
