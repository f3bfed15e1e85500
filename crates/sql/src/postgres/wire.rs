//! The connection: statements are sent in the order of the calls, each a transaction, and each failure says whether it
//! may have had an effect.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use lockkeeper_core::BoxFuture;
use lockkeeper_core::clock::Clock;
use lockkeeper_session::{AnswerMeter, Asking, Effect, Failure, contained};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};
use tokio::task::AbortHandle;
use tokio_postgres::Client;
use tokio_postgres::types::{ToSql, Type};

use crate::engine::{ATTEMPTS_MAX, AnswerSender, Wire, WireEnd, pause};
use crate::postgres::call::{self, AnswerAttempt, Parameter};
use crate::postgres::lent::LentWay;
use crate::postgres::line::{AskedStatement, QueueStep, StatementQueue};
use crate::postgres::pool::PoolError;
use crate::postgres::refusal;
use crate::statement::{AnswerRow, Argument, SessionNumber, Statement, of_one, unwanted, word};
use crate::url::Config;

/// How many sessions of a schema are told by the server. Each notification wakes all of them: with a thousand, eight
/// writers that notify come to 65 commits a second.
pub(crate) const LISTENERS_MAX: i64 = 128;

/// The way of statements to the server.
pub(super) enum StatementWay {
    /// A connection that is ours alone: each is one transaction by itself, sent while the one before is under way.
    Own { client: Arc<Client>, prepared: PreparedStatements },
    /// Connections that are lent for one message.
    Lent(LentWay),
}

/// The statements that the server has parsed and planned before, once it has. Until then, and without them, each is
/// sent as it is.
#[derive(Default)]
pub(super) struct PreparedStatements(Arc<OnceLock<HashMap<&'static str, tokio_postgres::Statement>>>);

impl PreparedStatements {
    /// Has what is asked most often prepared. It is sent now, and what is asked next does not wait for the answer.
    pub(super) fn begin(client: &Arc<Client>, schema: &str) -> Self {
        let runtime = Handle::current();
        let preparing: Vec<_> = OFTEN
            .iter()
            .map(|(function, types)| {
                let text = call::call(schema, function, types.len());
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

/// A connection to one server, or a pool of them. Dropping it ends its use.
pub(super) struct PostgresWire {
    pub(super) shared: Arc<WireState>,
    /// Whether the server can tell a session.
    pub(super) wakes: bool,
    pub(super) closing: WireClosing,
    pub(super) is_over: watch::Receiver<bool>,
}

/// What ends with a connection's use.
pub(super) enum WireClosing {
    /// The task with its socket.
    Socket(Driver),
    /// The statements over a pool, which goes on.
    Pool(WireEnd),
}

/// What a statement needs until it is answered.
pub(super) struct WireState {
    pub(super) config: Arc<Config>,
    /// The statements that give our role its rights.
    pub(super) grants: String,
    pub(super) way: StatementWay,
    pub(super) line: Mutex<StatementQueue<AnswerSender>>,
    pub(super) meter: Arc<AnswerMeter>,
    pub(super) clock: Arc<dyn Clock>,
    /// Where statements go on that are given up.
    pub(super) runtime: Handle,
}

impl WireState {
    /// Sends a statement, behind all that were sent before.
    fn send(&self, statement: &Statement) -> AnswerAttempt {
        let runtime = self.runtime.clone();
        match &self.way {
            StatementWay::Own { client, prepared } => {
                let prepared = prepared.get(statement.function);
                let text = call::call(&self.config.schema, statement.function, statement.arguments.len());
                let parameters: Vec<_> = statement.arguments.iter().map(call::parameter).collect();
                Asking::begin(execute(client.clone(), prepared, text, parameters), runtime)
            }
            StatementWay::Lent(way) => way.send(statement, runtime),
        }
    }

    /// Sends what may be sent now, with the line locked, so that what is sent stands in the order of the calls. The
    /// answers are [read](Self::read) once it is not locked.
    fn send_next(self: &Arc<Self>, line: &mut StatementQueue<AnswerSender>) -> Vec<SentStatement> {
        let mut sent = Vec::new();
        while let Some(next) = line.next() {
            match next {
                QueueStep::Send(statement, asked) => {
                    let first = self.send(&statement);
                    sent.push(SentStatement { asking: Some((statement, first)), asked, shared: self.clone() });
                }
                QueueStep::Unwanted(asked) => {
                    line.leave(&asked.turn);
                    // The caller may have given up.
                    let _ = asked.tell.send(Ok(unwanted()));
                }
            }
        }
        sent
    }

    /// Reads answers, in tasks, also while no caller waits: the driver hands out an answer in pieces, and until each is
    /// taken no later answer comes. A beat among them would be missed.
    fn read(&self, sent: Vec<SentStatement>) {
        for sent in sent {
            self.runtime.spawn(sent.finish());
        }
    }

    /// Waits for the answer; asks again if the server gave the statement up for another transaction's sake, unless
    /// another one went past it whose order matters to it.
    async fn answer(
        &self,
        statement: &Statement,
        asked: &[AskedStatement<AnswerSender>],
        first: AnswerAttempt,
    ) -> Result<Vec<AnswerRow>, Failure> {
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
            if asked.iter().any(|asked| line.is_overtaken(&asked.turn)) {
                return Err(refusal::of_statement(error, &self.grants));
            }
            attempt = self.send(statement);
            drop(line);
        }
    }
}

/// A statement that was sent, for these.
struct SentStatement {
    asking: Option<(Statement, AnswerAttempt)>,
    asked: Vec<AskedStatement<AnswerSender>>,
    shared: Arc<WireState>,
}

impl SentStatement {
    /// Takes the answer, has the next statement sent, and tells the answer to those who asked.
    async fn finish(mut self) {
        let Some((statement, first)) = self.asking.take() else { return };
        let answer = contained(self.shared.answer(&statement, &self.asked, first)).await;
        let asked = std::mem::take(&mut self.asked);
        let mut line = self.shared.line.lock();
        line.answered(&asked);
        let next = self.shared.send_next(&mut line);
        drop(line);
        self.shared.read(next);
        for AskedStatement { tell, ticket, .. } in asked {
            let told = match (&answer, ticket) {
                (Ok(rows), Some(ticket)) => Ok(of_one(rows, ticket)),
                (answer, _) => answer.clone(),
            };
            // The caller may have given up.
            let _ = tell.send(told);
        }
    }
}

/// Without an answer: the runtime has ended, and with it all that could be answered. The waiters are told when what
/// they asked with is dropped.
impl Drop for SentStatement {
    fn drop(&mut self) {
        if !self.asked.is_empty() {
            let given_up = {
                let mut line = self.shared.line.lock();
                line.answered(&self.asked);
                line.give_up()
            };
            drop(given_up);
        }
    }
}

/// Executes a function, and reads all of its answer: the transaction is committed only after its last row.
async fn execute(
    client: Arc<Client>,
    prepared: Option<tokio_postgres::Statement>,
    text: String,
    parameters: Vec<Parameter>,
) -> Result<Result<Vec<AnswerRow>, Failure>, PoolError> {
    let values = parameters.iter().map(|(value, _)| &**value as &(dyn ToSql + Sync));
    let found = match prepared {
        Some(statement) => client.query(&statement, &values.collect::<Vec<_>>()).await,
        None => {
            let types = parameters.iter().map(|(_, kind)| kind.clone());
            client.query_typed(&text, &values.zip(types).collect::<Vec<_>>()).await
        }
    };
    Ok(call::rows(&found?))
}

impl Wire for PostgresWire {
    fn ask(&self, statement: Statement) -> BoxFuture<Result<Vec<AnswerRow>, Failure>> {
        if self.is_over() {
            return Box::pin(std::future::ready(Err(Failure::broken(Effect::None))));
        }
        let (tell, told) = oneshot::channel();
        let mut line = self.shared.line.lock();
        if let Err(failure) = line.ask(statement, tell) {
            return Box::pin(std::future::ready(Err(failure)));
        }
        let sent = self.shared.send_next(&mut line);
        drop(line);
        self.shared.read(sent);
        // The runtime may end, and the connection with it.
        Box::pin(async move { told.await.unwrap_or_else(|_| Err(Failure::broken(Effect::Unknown))) })
    }

    fn listen(&self, session: SessionNumber) -> BoxFuture<Result<bool, Failure>> {
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

    fn unlisten(&self, session: SessionNumber) -> BoxFuture<Result<(), Failure>> {
        let arguments = vec![session.into(), Argument::Flag(false), Argument::Int(LISTENERS_MAX)];
        let asking = self.ask(Statement::new("listen", arguments));
        Box::pin(async move { asking.await.map(drop) })
    }

    fn end(&self) -> watch::Receiver<bool> {
        self.is_over.clone()
    }

    fn shut(&self) {
        match &self.closing {
            WireClosing::Socket(driver) => driver.0.abort(),
            WireClosing::Pool(end) => {
                end.0.send_replace(true);
            }
        }
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
