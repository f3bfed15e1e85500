//! One kind of database, as sessions and queues see it: how it is connected to, and what a connection can do. Where our
//! schema is not made yet, a look goes over a connection that shows nothing.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::clock::{BootInstant, Clock};
use lockkeeper_core::{BoxFuture, Ticket};
use lockkeeper_session::{Effect, Failure, FailureKind, Server};
use tokio::sync::{mpsc, oneshot, watch};

use crate::statement::{AnswerRow, SessionNumber, Statement};

/// The most statements that wait for their answers: a hundred times the contenders that one process is tested with.
pub(crate) const STATEMENTS_MAX: usize = 1 << 20;

/// How often a statement is asked again that the server gave up for another transaction's sake.
pub(crate) const ATTEMPTS_MAX: u32 = 10;

/// The longest pause before that; the shortest is a millisecond.
const PAUSE_MAX_MS: u64 = 20;

/// A kind of database. PostgreSQL and MySQL are two; they differ in the language of their functions, and in how they
/// wake a waiter.
pub(crate) trait DatabaseEngine: Send + Sync + 'static {
    /// Connects to a server, sees to the schema as is meant, and asks who it is. Fails if it cannot serve locks: it is
    /// read-only, or lacks what they need.
    fn connect(&self, server: &Server, deadline: BootInstant, intent: Intent) -> BoxFuture<Result<Connected, Failure>>;
}

/// What becomes of our schema where it is missing.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Intent {
    /// It is made if the URL allows it.
    Serve,
    /// It is not made. Where the first lock would make it, nothing is there to be seen.
    Look,
    /// It is made or brought up to date.
    SetUp,
}

pub(crate) struct Connected {
    pub(crate) wire: Arc<dyn Wire>,
    pub(crate) greeting: ServerGreeting,
    /// What the server tells by itself; it ends with the connection.
    pub(crate) hints: mpsc::Receiver<Hint>,
}

/// What a server says of itself.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct ServerGreeting {
    /// Which state of the data it serves: another one after a promotion or a restore.
    pub(crate) instance: String,
    /// How its waiters are woken.
    pub(crate) wake_method: WakeMethod,
}

/// How waiters are woken over a connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum WakeMethod {
    /// The server notifies a session that listens.
    Notified,
    /// A waiter waits for the named lock of the one ahead.
    NamedLocks,
    /// Waiters look at intervals.
    Polled,
}

/// What a server tells by itself. It is a reason to look, and but for [`Departed`](Hint::Departed) never a proof.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Hint {
    /// This contender is gone: it was told on this connection, after the removal was committed.
    Departed(Ticket),
    /// A queue that the session watches has changed, or its value: its name and part.
    Changed { name: String, part: i64 },
    /// Something is asked of the session: it should beat now.
    Asked,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum NamedLockWait {
    /// The lock was free, so its contender may be gone.
    Free,
    /// The time is up, or another wait took the turn.
    GivenUp,
}

/// One connection to a server. Statements are executed in the order in which they were asked.
pub(crate) trait Wire: Send + Sync {
    /// Asks: the statement is sent, or queued to be sent, before this returns, and goes on if the future is dropped.
    fn ask(&self, statement: Statement) -> BoxFuture<Result<Vec<AnswerRow>, Failure>>;

    /// Has the server tell this session; `false` if too many listen already. Only where [`WakeMethod::Notified`] is.
    fn listen(&self, _session: SessionNumber) -> BoxFuture<Result<bool, Failure>> {
        Box::pin(std::future::ready(Ok(false)))
    }

    /// Has the server tell it no more.
    fn unlisten(&self, _session: SessionNumber) -> BoxFuture<Result<(), Failure>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Waits until the named lock of a contender is free, for this long at most. A later call takes the turn of an
    /// earlier one. Only where [`WakeMethod::NamedLocks`] is.
    fn await_named_lock(&self, _ticket: Ticket, _within: Duration) -> BoxFuture<Result<NamedLockWait, Failure>> {
        Box::pin(std::future::ready(Err(Failure::broken(Effect::None))))
    }

    /// That there is no schema yet, if it is so.
    fn missing(&self) -> Option<Failure> {
        None
    }

    /// Whether the connection is over, now and later.
    fn end(&self) -> watch::Receiver<bool>;

    fn over(&self) -> BoxFuture<()> {
        let mut end = self.end();
        Box::pin(async move {
            // An error says that the connection's task was dropped.
            let _ = end.wait_for(|&is_over| is_over).await;
        })
    }

    fn is_over(&self) -> bool {
        *self.end().borrow()
    }

    /// Ends its use: what is unanswered fails.
    fn shut(&self);
}

/// Says that a connection is over when its task ends, also if that is because the runtime has ended.
pub(crate) struct WireEnd(pub(crate) watch::Sender<bool>);

impl Drop for WireEnd {
    fn drop(&mut self) {
        self.0.send_replace(true);
    }
}

/// Says that one connection has as many statements under way as it may have.
pub(crate) fn too_many() -> Failure {
    let message = format!("one connection waits for at most {STATEMENTS_MAX} answers at a time");
    Failure::new(FailureKind::Limit, Effect::None, message)
}

/// Waits before a statement is asked again. No two pauses are the same, so that two statements that met do not meet
/// again.
pub(crate) async fn pause(clock: &dyn Clock) {
    let random = RandomState::new().hash_one(0);
    let pause = Duration::from_millis(1 + random % PAUSE_MAX_MS);
    clock.sleep_until(clock.now().saturating_add(pause)).await;
}

/// Where the answer of a statement goes.
pub(crate) type AnswerSender = oneshot::Sender<Result<Vec<AnswerRow>, Failure>>;

/// What shows contenders and locks.
const LOOKS: [&str; 3] = ["inspect", "follow", "queues"];

/// No schema; it knows which one is missing, as in `the schema `lk``.
struct Unmade(String);

/// Stands for a connection to a server without our schema.
pub(crate) fn unmade(schema: String, greeting: ServerGreeting) -> Connected {
    Connected { wire: Arc::new(Unmade(schema)), greeting, hints: mpsc::channel(1).1 }
}

impl Unmade {
    fn not_made(&self) -> Failure {
        let message = format!("{} is not made yet: the first lock makes it, and so does `lockkeeper setup`", self.0);
        Failure::new(FailureKind::Settings, Effect::None, message)
    }
}

impl Wire for Unmade {
    fn ask(&self, statement: Statement) -> BoxFuture<Result<Vec<AnswerRow>, Failure>> {
        let answer = match LOOKS.contains(&statement.function) {
            true => Ok(vec![AnswerRow { text: Some("ok".to_owned()), ..AnswerRow::default() }]),
            false => Err(self.not_made()),
        };
        Box::pin(std::future::ready(answer))
    }

    fn missing(&self) -> Option<Failure> {
        Some(self.not_made())
    }

    fn end(&self) -> watch::Receiver<bool> {
        watch::channel(true).1
    }

    fn shut(&self) {}
}
