//! The connection: one task has it, and executes statements in the order of the calls, each when the one before is
//! answered, or in one message with it; many that give up places in a row are one. Each failure says whether it may
//! have had an effect.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::clock::Clock;
use lockkeeper_core::{BoxFuture, Ticket};
use lockkeeper_session::{Effect, Failure, answered, at_home, contained};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Error, Opts};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::AbortHandle;

use crate::engine::{
    ATTEMPTS_MAX, AnswerSender, NamedLockWait, STATEMENTS_MAX, WakeMethod, Wire, WireEnd, pause, too_many,
};
use crate::mysql::named_lock::LockWaits;
use crate::mysql::{call, refusal};
use crate::statement::{AnswerRow, LEAVE, LEAVES_MAX, Statement, leave_all, of_one, place, unwanted};

/// The most beats and other statements that go before them: there is one of each at a time.
const URGENT_MAX: usize = 16;

/// What goes in one message with the statement before it: the beginning of a session behind the question that comes
/// first, and its end behind the last release. No beat is due meanwhile, which would be late behind a longer message.
const COMPANIONS: [&str; 2] = ["open", "close"];

pub(super) struct WireParts {
    pub(super) schema: String,
    pub(super) clock: Arc<dyn Clock>,
    /// How another connection is opened to the same server.
    pub(super) access: Opts,
    /// The settings of a connection that waits for named locks.
    pub(super) lock_wait_settings: String,
    /// The statements that give our user its rights.
    pub(super) grants: String,
    pub(super) wake_method: WakeMethod,
}

/// A connection to one server. Dropping it lets what was asked be executed, and then closes it.
pub(super) struct MysqlWire {
    wake_method: WakeMethod,
    line: StatementLines,
    lock_waits: LockWaits,
    clock: Arc<dyn Clock>,
    task: AbortHandle,
    is_over: watch::Receiver<bool>,
}

/// Where statements wait for their turn.
struct StatementLines {
    usual: mpsc::Sender<QueuedStatement>,
    /// What goes before: a beat would be late behind joins that each wait for a row of another transaction.
    urgent: mpsc::Sender<QueuedStatement>,
}

/// A statement that waits for its answer. One that never will be answered is told so.
struct QueuedStatement {
    what: QueuedWork,
    is_sent: bool,
    tell: Option<AnswerSender>,
}

enum QueuedWork {
    Statement(Statement),
    /// A text that nobody waits for.
    Text(String),
    /// One statement for many that each give up a place of one session: their tickets, and their waiters.
    Leaves(u128, Vec<(u128, QueuedStatement)>),
}

impl QueuedStatement {
    const fn new(what: QueuedWork, tell: Option<AnswerSender>) -> Self {
        Self { what, is_sent: false, tell }
    }

    fn text(&self, schema: &str) -> String {
        match &self.what {
            QueuedWork::Statement(statement) => call::call(schema, statement),
            QueuedWork::Text(text) => text.clone(),
            QueuedWork::Leaves(session, leaves) => {
                let tickets = leaves.iter().map(|(ticket, _)| *ticket).collect();
                call::call(schema, &leave_all(*session, tickets))
            }
        }
    }

    const fn function(&self) -> &'static str {
        match &self.what {
            QueuedWork::Statement(statement) => statement.function,
            QueuedWork::Leaves(..) => LEAVE,
            QueuedWork::Text(_) => "",
        }
    }

    /// The session and the ticket of the place that it gives up.
    fn place(&self) -> Option<(u128, u128)> {
        match &self.what {
            QueuedWork::Statement(statement) => place(statement),
            QueuedWork::Text(_) | QueuedWork::Leaves(..) => None,
        }
    }

    fn is_wanted(&self) -> bool {
        !matches!(&self.what, QueuedWork::Statement(statement) if !statement.is_wanted())
    }

    fn answer(mut self, answer: Result<Vec<AnswerRow>, Failure>) {
        if let QueuedWork::Leaves(_, leaves) = &mut self.what {
            for (ticket, asked) in std::mem::take(leaves) {
                asked.answer(answer.as_ref().map(|rows| of_one(rows, ticket)).map_err(Failure::clone));
            }
        }
        if let Some(tell) = self.tell.take() {
            // The caller may have given up.
            let _ = tell.send(answer);
        }
    }

    fn note_sent(&mut self, is_sent: bool) {
        self.is_sent = is_sent;
        if let QueuedWork::Leaves(_, leaves) = &mut self.what {
            leaves.iter_mut().for_each(|(_, asked)| asked.is_sent = is_sent);
        }
    }
}

impl Drop for QueuedStatement {
    fn drop(&mut self) {
        if let Some(tell) = self.tell.take() {
            let effect = if self.is_sent { Effect::Unknown } else { Effect::None };
            let _ = tell.send(Err(Failure::broken(effect)));
        }
    }
}

impl StatementLines {
    /// Puts a statement into the line, and returns what waits for its answer.
    fn ask(&self, statement: Statement) -> impl Future<Output = Result<Vec<AnswerRow>, Failure>> + use<> {
        let (tell, told) = oneshot::channel();
        // A beat says nothing that another statement changes, but that the session lives.
        let lane = if statement.function == "beat" { &self.urgent } else { &self.usual };
        // What was not taken tells so, unless the line is full.
        let asked = lane.try_send(QueuedStatement::new(QueuedWork::Statement(statement), Some(tell)));
        let is_full = matches!(asked, Err(TrySendError::Full(_)));
        async move {
            if is_full {
                return Err(too_many());
            }
            told.await.unwrap_or_else(|_| Err(Failure::broken(Effect::Unknown)))
        }
    }
}

struct WireTask {
    connection: Conn,
    schema: String,
    clock: Arc<dyn Clock>,
    grants: String,
    usual: mpsc::Receiver<QueuedStatement>,
    urgent: mpsc::Receiver<QueuedStatement>,
    /// What was taken out of the line and is not sent yet.
    next: Option<QueuedStatement>,
    /// Tells that the connection is over, also if the task was ended.
    _over: WireEnd,
}

impl WireTask {
    /// Executes one statement after the other until the connection is over or of no use to any caller.
    async fn serve(mut self) {
        while let Some(asked) = self.next().await {
            let first = match asked.place() {
                Some((session, ticket)) => {
                    // The session's own task asks for its end, and runs now if it is told to.
                    tokio::task::yield_now().await;
                    self.with_more(session, ticket, asked)
                }
                None => asked,
            };
            let mut message = VecDeque::from([first]);
            message.extend(self.companion());
            if self.execute(message).await.is_break() {
                return;
            }
        }
        // What it holds at the server ends before the next connection may begin.
        let _ = self.connection.disconnect().await;
    }

    /// The statement for all that give up a place next, if there are several.
    fn with_more(&mut self, session: u128, ticket: u128, first: QueuedStatement) -> QueuedStatement {
        let mut leaves = vec![(ticket, first)];
        while leaves.len() < LEAVES_MAX {
            self.peek();
            let of_session = |next: &mut QueuedStatement| next.place().is_some_and(|(of, _)| of == session);
            let Some(next) = self.next.take_if(of_session) else { break };
            if let Some((_, ticket)) = next.place() {
                leaves.push((ticket, next));
            }
        }
        match leaves.len() {
            1 => leaves.remove(0).1,
            _ => QueuedStatement::new(QueuedWork::Leaves(session, leaves), None),
        }
    }

    async fn next(&mut self) -> Option<QueuedStatement> {
        loop {
            let next = self.taken().await?;
            if next.is_wanted() {
                return Some(next);
            }
            next.answer(Ok(unwanted()));
        }
    }

    async fn taken(&mut self) -> Option<QueuedStatement> {
        if let Ok(urgent) = self.urgent.try_recv() {
            return Some(urgent);
        }
        if let Some(next) = self.next.take() {
            return Some(next);
        }
        tokio::select! {
            biased;
            Some(asked) = self.urgent.recv() => Some(asked),
            asked = self.usual.recv() => asked,
        }
    }

    /// Takes what goes in one message with the statement before it, if that is next in the line.
    fn companion(&mut self) -> Option<QueuedStatement> {
        self.peek();
        self.next.take_if(|next| COMPANIONS.contains(&next.function()))
    }

    fn peek(&mut self) {
        if self.next.is_none() {
            self.next = self.usual.try_recv().ok();
        }
    }

    /// Executes the statements of a message; one again if the server gave it up for another transaction's sake. What
    /// comes behind it waits, so that none ever goes past another. The server executes none behind one that failed:
    /// that is sent anew.
    async fn execute(&mut self, mut message: VecDeque<QueuedStatement>) -> ControlFlow<()> {
        let mut left = ATTEMPTS_MAX;
        while !message.is_empty() {
            let answering = async { Ok(answer_all(&mut self.connection, &self.schema, &mut message).await) };
            let error = match contained(answering).await {
                Ok(Err(error)) => error,
                Ok(Ok(())) if message.is_empty() => return ControlFlow::Continue(()),
                // An answer less than there were calls is of no server of ours.
                Ok(Ok(())) => return ControlFlow::Break(()),
                Err(failure) => {
                    message.drain(..).for_each(|asked| asked.answer(Err(failure.clone())));
                    return ControlFlow::Break(());
                }
            };
            if refusal::is_given_up(&error) && left > 0 {
                left -= 1;
                pause(&*self.clock).await;
                continue;
            }
            left = ATTEMPTS_MAX;
            let is_last = refusal::is_last(&error);
            if let Some(failed) = message.pop_front() {
                failed.answer(Err(refusal::of_statement(error, &self.grants)));
            }
            if is_last {
                return ControlFlow::Break(());
            }
            message.iter_mut().for_each(|behind| behind.note_sent(false));
        }
        ControlFlow::Continue(())
    }
}

/// Sends statements in one message, and answers each when all of its answer is read: its transaction is committed only
/// after the last row. If one fails, it stands first in the message then.
async fn answer_all(connection: &mut Conn, schema: &str, message: &mut VecDeque<QueuedStatement>) -> Result<(), Error> {
    let text = message.iter().map(|asked| asked.text(schema)).collect::<Vec<_>>().join("; ");
    message.iter_mut().for_each(|asked| asked.note_sent(true));
    let mut result = connection.query_iter(text).await?;
    let mut rows = Vec::new();
    while let Some(columns) = result.columns() {
        let set: Vec<mysql_async::Row> = result.collect().await?;
        rows.extend(set);
        // The end of a call has no columns, and what else is asked has no other answer.
        if columns.is_empty()
            && let Some(asked) = message.pop_front()
        {
            let rows = std::mem::take(&mut rows);
            asked.answer(rows.into_iter().map(call::row).collect());
        }
    }
    // Errors of later statements surface here.
    result.drop_result().await
}

impl MysqlWire {
    /// Begins to execute statements, on the runtime in which this is called.
    pub(super) fn new(parts: WireParts, connection: Conn) -> Self {
        let WireParts { schema, clock, access, lock_wait_settings, grants, wake_method } = parts;
        let (usual, usual_asked) = mpsc::channel(STATEMENTS_MAX);
        let (urgent, urgent_asked) = mpsc::channel(URGENT_MAX);
        let (over, is_over) = watch::channel(false);
        let server = WireTask {
            connection,
            schema,
            clock: clock.clone(),
            grants,
            usual: usual_asked,
            urgent: urgent_asked,
            next: None,
            _over: WireEnd(over),
        };
        let task = tokio::spawn(at_home(server.serve())).abort_handle();
        let line = StatementLines { usual, urgent };
        let urgent = line.urgent.downgrade();
        let end_query = Box::new(move |thread| {
            // Without room for it, the wait goes on until its time is up.
            if let Some(urgent) = urgent.upgrade() {
                let work = QueuedWork::Text(format!("KILL QUERY {thread}"));
                let _ = urgent.try_send(QueuedStatement::new(work, None));
            }
        });
        let lock_waits = LockWaits::new(access, lock_wait_settings, clock.clone(), end_query);
        Self { wake_method, line, lock_waits, clock, task, is_over }
    }

    /// Waits for what the task is to tell.
    fn told<T: Send + 'static>(
        &self,
        told: impl Future<Output = Result<T, Failure>> + Send + 'static,
    ) -> BoxFuture<Result<T, Failure>> {
        let (is_over, clock) = (self.is_over.clone(), self.clock.clone());
        Box::pin(async move {
            let broken = || Err(Failure::broken(Effect::Unknown));
            answered(told, is_over, &*clock).await.unwrap_or_else(broken)
        })
    }
}

impl Wire for MysqlWire {
    fn ask(&self, statement: Statement) -> BoxFuture<Result<Vec<AnswerRow>, Failure>> {
        self.told(self.line.ask(statement))
    }

    fn await_named_lock(&self, ticket: Ticket, within: Duration) -> BoxFuture<Result<NamedLockWait, Failure>> {
        if self.wake_method != WakeMethod::NamedLocks || self.is_over() {
            return Box::pin(std::future::ready(Err(Failure::broken(Effect::None))));
        }
        self.told(self.lock_waits.wait(ticket, within))
    }

    fn end(&self) -> watch::Receiver<bool> {
        self.is_over.clone()
    }

    fn shut(&self) {
        self.task.abort();
        self.lock_waits.shut();
    }
}
