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
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::AbortHandle;

use crate::engine::{ATTEMPTS_MAX, AnswerSender, NamedLockWait, WakeMethod, Wire, WireEnd, pause};
use crate::line::{AskedStatement, KILL, QueueStep, StatementQueue};
use crate::mysql::named_lock::LockWaits;
use crate::mysql::{call, refusal};
use crate::statement::{AnswerRow, Argument, Statement, of_one, unwanted};

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
    line: WireLine,
    lock_waits: LockWaits,
    clock: Arc<dyn Clock>,
    task: AbortHandle,
    is_over: watch::Receiver<bool>,
}

/// Where statements wait for their turn.
struct WireLine {
    queue: Arc<Mutex<StatementQueue<Waiter>>>,
    /// Tells the task that there is one. Once this is gone, the task ends when there is none.
    came: mpsc::Sender<()>,
}

impl WireLine {
    fn ask(&self, statement: Statement, tell: Option<AnswerSender>) -> Result<(), Failure> {
        let mut queue = self.queue.lock();
        if self.came.is_closed() {
            return Err(Failure::broken(Effect::None));
        }
        queue.ask(statement, Waiter { is_sent: false, tell })?;
        // A task that was not told of the one before sees both.
        let _ = self.came.try_send(());
        Ok(())
    }
}

/// The caller that waits for an answer; the end of a wait has none. It is told so if there never will be an answer.
struct Waiter {
    is_sent: bool,
    tell: Option<AnswerSender>,
}

impl Waiter {
    fn answer(mut self, answer: Result<Vec<AnswerRow>, Failure>) {
        if let Some(tell) = self.tell.take() {
            // The caller may have given up.
            let _ = tell.send(answer);
        }
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        if let Some(tell) = self.tell.take() {
            let effect = if self.is_sent { Effect::Unknown } else { Effect::None };
            let _ = tell.send(Err(Failure::broken(effect)));
        }
    }
}

/// A statement, and who asked for it.
type Call = (Statement, Vec<AskedStatement<Waiter>>);

fn note_sent(message: &mut VecDeque<Call>, is_sent: bool) {
    message.iter_mut().flat_map(|(_, asked)| asked).for_each(|asked| asked.tell.is_sent = is_sent);
}

/// The task's end of the line. The callers that wait there are told when it is dropped.
struct LineEnd {
    queue: Arc<Mutex<StatementQueue<Waiter>>>,
    came: mpsc::Receiver<()>,
}

impl LineEnd {
    /// Waits for what is to be executed next; there is none once the connection is of no use to any caller.
    async fn next(&mut self) -> Option<Call> {
        loop {
            let gives_up = self.queue.lock().gives_up_next();
            if gives_up {
                // The session's own task asks for its end, and runs now if it is told to.
                tokio::task::yield_now().await;
            }
            let step = self.queue.lock().next();
            match step {
                Some(QueueStep::Send(statement, asked)) => return Some((statement, asked)),
                Some(QueueStep::Unwanted(asked)) => {
                    self.queue.lock().leave(&asked.turn);
                    asked.tell.answer(Ok(unwanted()));
                }
                None => self.came.recv().await?,
            }
        }
    }

    fn answer(&self, (_, asked): Call, mut answer: Result<Vec<AnswerRow>, Failure>) {
        self.queue.lock().answered(&asked);
        for AskedStatement { tell, ticket, .. } in asked {
            tell.answer(match (&mut answer, ticket) {
                (Ok(rows), Some(ticket)) => Ok(of_one(rows, ticket)),
                // It is the only one.
                (Ok(rows), None) => Ok(std::mem::take(rows)),
                (Err(failure), _) => Err(failure.clone()),
            });
        }
    }
}

impl Drop for LineEnd {
    fn drop(&mut self) {
        // From here on nothing is asked any more.
        self.came.close();
        let given_up = self.queue.lock().give_up();
        drop(given_up);
    }
}

struct WireTask {
    connection: Conn,
    schema: String,
    clock: Arc<dyn Clock>,
    grants: String,
    line: LineEnd,
    /// Tells that the connection is over, also if the task was ended.
    _over: WireEnd,
}

impl WireTask {
    /// Executes one statement after the other until the connection is over or of no use to any caller.
    async fn serve(mut self) {
        while let Some(first) = self.line.next().await {
            let mut message = VecDeque::from([first]);
            message.extend(self.line.queue.lock().next_of(&COMPANIONS));
            if self.execute(message).await.is_break() {
                return;
            }
        }
        // What it holds at the server ends before the next connection may begin.
        let _ = self.connection.disconnect().await;
    }

    /// Executes the statements of a message; one again if the server gave it up for another transaction's sake. What
    /// comes behind it waits, so that none ever goes past another. The server executes none behind one that failed:
    /// that is sent anew.
    async fn execute(&mut self, mut message: VecDeque<Call>) -> ControlFlow<()> {
        let mut left = ATTEMPTS_MAX;
        while !message.is_empty() {
            let answering = async { Ok(self.answer_all(&mut message).await) };
            let error = match contained(answering).await {
                Ok(Err(error)) => error,
                Ok(Ok(())) if message.is_empty() => return ControlFlow::Continue(()),
                // An answer less than there were calls is of no server of ours.
                Ok(Ok(())) => return ControlFlow::Break(()),
                Err(failure) => {
                    message.drain(..).for_each(|call| self.line.answer(call, Err(failure.clone())));
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
                self.line.answer(failed, Err(refusal::of_statement(error, &self.grants)));
            }
            if is_last {
                return ControlFlow::Break(());
            }
            note_sent(&mut message, false);
        }
        ControlFlow::Continue(())
    }

    /// Sends statements in one message, and answers each when all of its answer is read: its transaction is committed
    /// only after the last row. If one fails, it stands first in the message then.
    async fn answer_all(&mut self, message: &mut VecDeque<Call>) -> Result<(), Error> {
        let text = message.iter().map(|(statement, _)| text(&self.schema, statement)).collect::<Vec<_>>().join("; ");
        note_sent(message, true);
        let mut result = self.connection.query_iter(text).await?;
        let mut rows = Vec::new();
        while let Some(columns) = result.columns() {
            let set: Vec<mysql_async::Row> = result.collect().await?;
            rows.extend(set);
            // The end of a call has no columns, and what else is asked has no other answer.
            if columns.is_empty()
                && let Some(call) = message.pop_front()
            {
                let rows = std::mem::take(&mut rows);
                self.line.answer(call, rows.into_iter().map(call::row).collect());
            }
        }
        // Errors of later statements surface here.
        result.drop_result().await
    }
}

fn text(schema: &str, statement: &Statement) -> String {
    match (statement.function, &statement.arguments[..]) {
        (KILL, [Argument::Int(thread)]) => format!("{KILL} {thread}"),
        _ => call::call(schema, statement),
    }
}

impl MysqlWire {
    /// Begins to execute statements, on the runtime in which this is called.
    pub(super) fn new(parts: WireParts, connection: Conn) -> Self {
        let WireParts { schema, clock, access, lock_wait_settings, grants, wake_method } = parts;
        let (came, told) = mpsc::channel(1);
        let line = WireLine { queue: Arc::default(), came };
        let (over, is_over) = watch::channel(false);
        let server = WireTask {
            connection,
            schema,
            clock: clock.clone(),
            grants,
            line: LineEnd { queue: line.queue.clone(), came: told },
            _over: WireEnd(over),
        };
        let task = tokio::spawn(at_home(server.serve())).abort_handle();
        let (queue, came) = (line.queue.clone(), line.came.downgrade());
        let end_query = Box::new(move |thread| {
            // If it cannot be asked, the wait goes on until its time is up.
            if let Some(came) = came.upgrade() {
                let line = WireLine { queue: queue.clone(), came };
                let _ = line.ask(Statement::new(KILL, vec![Argument::Int(i64::from(thread))]), None);
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
        let (tell, told) = oneshot::channel();
        let asked = self.line.ask(statement, Some(tell));
        self.told(async move {
            asked?;
            told.await.unwrap_or_else(|_| Err(Failure::broken(Effect::Unknown)))
        })
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
