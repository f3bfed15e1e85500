//! The connection: statements are sent in the order of the calls, each a transaction, and each failure says whether it
//! may have had an effect.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};

use lockkeeper_core::BoxFuture;
use lockkeeper_core::clock::Clock;
use lockkeeper_session::{Asking, Effect, Failure, Meter, Mutex};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Error};

use crate::engine::{self, ATTEMPTS_MAX, pause};
use crate::postgres::line::{Line, Turn};
use crate::postgres::values::Parameter;
use crate::postgres::{plain, refusal, values};
use crate::statement::{Argument, Row, SessionId, Statement, word};
use crate::url::Config;

/// How many sessions of a schema are told by the server. Each notification wakes all of them: with a thousand, eight
/// writers that notify come to 65 commits a second.
pub(crate) const LISTENERS_MAX: i64 = 128;

/// In which transactions statements are executed.
#[derive(Debug)]
pub(super) enum Transactions {
    /// Each is one by itself, sent while the one before is under way.
    Single,
    /// Each is one message by itself, with the isolation and the limits that it needs: behind a pooler, whose
    /// connections have other settings each time. One is sent after the other is answered: else a pooler that lends a
    /// server for a transaction may give an answer to another client, as it may if a transaction is several messages
    /// (PgBouncer, issue 759).
    Lent {
        /// Whose turn it is, in the order of the calls.
        turns: Arc<tokio::sync::Mutex<()>>,
    },
}

impl Transactions {
    pub(super) fn lent() -> Self {
        Self::Lent { turns: Arc::default() }
    }
}

/// The statements that the server has parsed and planned before, once it has. Until then, and without them, each is
/// sent as it is.
#[derive(Default)]
pub(super) struct Prepared(Arc<OnceLock<HashMap<&'static str, tokio_postgres::Statement>>>);

impl Prepared {
    /// Has what is asked most often prepared. It is sent now, and what is asked next does not wait for the answer.
    pub(super) fn begin(client: &Arc<Client>, schema: &str) -> Self {
        let runtime = Handle::current();
        let preparing: Vec<_> = OFTEN
            .iter()
            .map(|(function, types)| {
                let text = values::call(schema, function, types.len());
                let client = client.clone();
                Asking::begin(async move { client.prepare_typed(&text, types).await }, runtime.clone())
            })
            .collect();
        let this = Self::default();
        let slot = this.0.clone();
        runtime.spawn(async move {
            let mut prepared = HashMap::new();
            for ((function, _), statement) in OFTEN.iter().zip(preparing) {
                // Why one could not be prepared, it says when it is executed.
                if let Ok(statement) = statement.await {
                    prepared.insert(*function, statement);
                }
            }
            // It is set once.
            let _ = slot.set(prepared);
        });
        this
    }

    fn get(&self, function: &str) -> Option<tokio_postgres::Statement> {
        self.0.get()?.get(function).cloned()
    }
}

/// What is asked most often, with the types of its arguments.
const OFTEN: &[(&str, &[Type])] = &[
    (
        "join",
        &[
            Type::UUID,
            Type::INT8,
            Type::TEXT,
            Type::INT8,
            Type::UUID_ARRAY,
            Type::BYTEA,
            Type::BOOL,
            Type::UUID,
            Type::TEXT,
            Type::BOOL,
        ],
    ),
    ("leave", &[Type::UUID, Type::TEXT, Type::INT8, Type::UUID]),
    ("look", &[Type::TEXT, Type::INT8, Type::UUID, Type::BOOL]),
    ("missing", &[Type::UUID_ARRAY]),
    ("beat", &[Type::UUID, Type::INT8, Type::INT8, Type::UUID_ARRAY, Type::UUID_ARRAY, Type::INT8]),
    ("listen", &[Type::UUID, Type::BOOL, Type::INT8]),
    ("rest", &[Type::UUID, Type::TEXT, Type::INT8, Type::INT8, Type::INT8, Type::INT8]),
];

/// A connection to one server. Dropping it closes it.
pub(super) struct Wire {
    pub(super) shared: Arc<Shared>,
    /// Whether the server can tell a session.
    pub(super) wakes: bool,
    pub(super) driver: Driver,
    pub(super) is_over: watch::Receiver<bool>,
}

/// What a statement needs until it is answered.
pub(super) struct Shared {
    pub(super) config: Arc<Config>,
    pub(super) client: Arc<Client>,
    /// The statements that give our role its rights.
    pub(super) grants: String,
    pub(super) transactions: Transactions,
    pub(super) prepared: Prepared,
    pub(super) line: Mutex<Line>,
    pub(super) meter: Arc<Meter>,
    pub(super) clock: Arc<dyn Clock>,
    /// Where statements go on that are given up.
    pub(super) runtime: Handle,
}

/// What one attempt is answered.
type Attempt = Asking<Result<Result<Vec<Row>, Failure>, Error>>;

impl Shared {
    /// Sends a statement, behind all that were sent before.
    fn send(&self, statement: &Statement) -> Attempt {
        let (client, runtime) = (self.client.clone(), self.runtime.clone());
        match &self.transactions {
            Transactions::Single => {
                let prepared = self.prepared.get(statement.function);
                let text = values::call(&self.config.schema, statement.function, statement.arguments.len());
                let parameters: Vec<_> = statement.arguments.iter().map(values::parameter).collect();
                Asking::begin(execute(client, prepared, text, parameters), runtime)
            }
            Transactions::Lent { turns } => {
                let text = plain::call(&self.config, statement);
                // In the line now; and it goes on whether or not its caller waits, since others wait behind it.
                let mut turn = Box::pin(turns.clone().lock_owned());
                let first = turn.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                let asking = runtime.spawn(async move {
                    let _turn = match first {
                        Poll::Ready(turn) => turn,
                        Poll::Pending => turn.await,
                    };
                    client.simple_query(&text).await.map(|answer| plain::rows(&answer))
                });
                let answered = async move {
                    match asking.await {
                        Ok(answer) => answer,
                        // The runtime has ended, and with it all that could be answered.
                        Err(_) => std::future::pending().await,
                    }
                };
                Asking::begin(answered, runtime)
            }
        }
    }

    /// Takes the answer; asks again if the server gave the statement up for another transaction's sake, unless another
    /// one went past it whose order matters to it.
    async fn finish(self: Arc<Self>, statement: Statement, turn: Turn, first: Attempt) -> Result<Vec<Row>, Failure> {
        let mut attempt = first;
        let mut left = ATTEMPTS_MAX;
        loop {
            let answer = attempt.await;
            self.meter.note_progress();
            let error = match answer {
                Ok(rows) => return rows,
                Err(error) => error,
            };
            if !refusal::is_given_up(&error) || left == 0 {
                return Err(refusal::of_statement(error, &self.grants));
            }
            left -= 1;
            pause(&*self.clock).await;
            let line = self.line.lock();
            if line.is_overtaken(&turn) {
                return Err(refusal::of_statement(error, &self.grants));
            }
            attempt = self.send(&statement);
            drop(line);
        }
    }
}

/// Executes a function, and reads all of its answer: the transaction is committed only after its last row.
async fn execute(
    client: Arc<Client>,
    prepared: Option<tokio_postgres::Statement>,
    text: String,
    parameters: Vec<Parameter>,
) -> Result<Result<Vec<Row>, Failure>, Error> {
    let values = parameters.iter().map(|(value, _)| &**value as &(dyn ToSql + Sync));
    let found = match prepared {
        Some(statement) => client.query(&statement, &values.collect::<Vec<_>>()).await,
        None => {
            let types = parameters.iter().map(|(_, kind)| kind.clone());
            client.query_typed(&text, &values.zip(types).collect::<Vec<_>>()).await
        }
    };
    found.map(|found| values::rows(&found))
}

impl engine::Wire for Wire {
    fn ask(&self, statement: Statement) -> BoxFuture<Result<Vec<Row>, Failure>> {
        if self.is_over() {
            return Box::pin(std::future::ready(Err(Failure::broken(Effect::None))));
        }
        let shared = self.shared.clone();
        // Under the lock, so that what is sent stands in the order of the calls.
        let mut line = shared.line.lock();
        let turn = match line.enter(&statement) {
            Ok(turn) => turn,
            Err(failure) => return Box::pin(std::future::ready(Err(failure))),
        };
        let first = shared.send(&statement);
        drop(line);
        let leaving = Leaving { shared: shared.clone(), turn: turn.clone() };
        let runtime = shared.runtime.clone();
        // In a task, also while no caller reads it: the driver hands out an answer in pieces, and until each is taken
        // no later answer comes. A beat among them would be missed.
        let reading = runtime.spawn(async move {
            let answer = shared.finish(statement, turn, first).await;
            drop(leaving);
            answer
        });
        Box::pin(async move {
            match reading.await {
                Ok(answer) => answer,
                Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                // The runtime has ended, and the connection with it.
                Err(_) => Err(Failure::broken(Effect::Unknown)),
            }
        })
    }

    fn listen(&self, session: SessionId) -> BoxFuture<Result<bool, Failure>> {
        if !self.wakes {
            return Box::pin(std::future::ready(Ok(false)));
        }
        let arguments = vec![session.into(), Argument::Flag(true), Argument::Int(LISTENERS_MAX)];
        let listening = self.ask(Statement::new("listen", arguments));
        Box::pin(async move {
            match word(&listening.await?)? {
                "ok" => Ok(true),
                "full" => Ok(false),
                _ => Err(Failure::unexpected()),
            }
        })
    }

    fn unlisten(&self, session: SessionId) -> BoxFuture<Result<(), Failure>> {
        let arguments = vec![session.into(), Argument::Flag(false), Argument::Int(LISTENERS_MAX)];
        let asking = self.ask(Statement::new("listen", arguments));
        Box::pin(async move { asking.await.map(drop) })
    }

    fn end(&self) -> watch::Receiver<bool> {
        self.is_over.clone()
    }

    fn shut(&self) {
        self.driver.0.abort();
    }
}

/// Takes a statement out of the line when it is answered, or can never be.
struct Leaving {
    shared: Arc<Shared>,
    turn: Turn,
}

impl Drop for Leaving {
    fn drop(&mut self) {
        self.shared.line.lock().leave(&self.turn);
    }
}

impl fmt::Debug for Wire {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { shared, wakes, .. } = self;
        let mut text = formatter.debug_struct("Wire");
        text.field("service", &shared.config).field("wakes", wakes).field("transactions", &shared.transactions);
        text.finish_non_exhaustive()
    }
}

/// The task with the socket, which ends with this.
#[derive(Debug)]
pub(super) struct Driver(pub(super) AbortHandle);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}
