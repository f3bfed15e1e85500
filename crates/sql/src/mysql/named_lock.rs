//! Waits for named locks: a contender's connection has a lock of the server by the contender's ticket while it stands,
//! and one that waits for its departure waits for that lock, over a connection for this alone. The lock proves nothing:
//! it is free too if its connection ends.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::Ticket;
use lockkeeper_core::clock::Clock;
use lockkeeper_session::{Effect, Failure, at_home, contained};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Error, Opts};
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;

use crate::engine::NamedLockWait;
use crate::mysql::access::begin;
use crate::mysql::{call, refusal};

/// How long the connection is kept while nothing is waited for.
const IDLE_FOR: Duration = Duration::from_secs(60);

/// The most waits that were asked for and not begun yet: each takes the turn of the one before at once.
const WAITS_MAX: usize = 64;

/// Ends what this thread of the server executes, by another connection.
pub(super) type EndQuery = Box<dyn Fn(u32) + Send + Sync>;

/// Where waits for named locks are asked for.
pub(super) struct LockWaits {
    waits: mpsc::Sender<LockWait>,
    task: AbortHandle,
}

struct LockWait {
    ticket: Ticket,
    within: Duration,
    tell: oneshot::Sender<Result<NamedLockWait, Failure>>,
}

impl LockWaits {
    /// Begins to take waits; it opens a connection with the first, and sets it up by `settings`.
    pub(super) fn new(access: Opts, settings: String, clock: Arc<dyn Clock>, end_query: EndQuery) -> Self {
        let (waits, asked) = mpsc::channel(WAITS_MAX);
        let listener = LockListener { access, settings, clock, end_query, asked, connection: None };
        let task = tokio::spawn(at_home(listener.listen())).abort_handle();
        Self { waits, task }
    }

    /// Waits for a named lock; the wait before is given up.
    pub(super) fn wait(
        &self,
        ticket: Ticket,
        within: Duration,
    ) -> impl Future<Output = Result<NamedLockWait, Failure>> + use<> {
        let (tell, told) = oneshot::channel();
        // What is not taken is told so below.
        let _ = self.waits.try_send(LockWait { ticket, within, tell });
        async move { told.await.unwrap_or_else(|_| Err(Failure::broken(Effect::None))) }
    }

    /// Ends all waits.
    pub(super) fn shut(&self) {
        self.task.abort();
    }
}

impl Drop for LockWaits {
    fn drop(&mut self) {
        self.shut();
    }
}

/// The answer to a wait: whether the lock was free, and that it was released.
type LockAnswer = (Option<i64>, Option<i64>);

/// What waits for named locks.
struct LockListener {
    access: Opts,
    settings: String,
    clock: Arc<dyn Clock>,
    end_query: EndQuery,
    asked: mpsc::Receiver<LockWait>,
    connection: Option<Conn>,
}

impl LockListener {
    async fn listen(mut self) {
        let mut next = None;
        loop {
            let wait = match next.take() {
                Some(wait) => wait,
                None => match self.asked().await {
                    Some(wait) => wait,
                    None => return,
                },
            };
            next = self.serve(wait).await;
        }
    }

    /// Waits until a wait is asked for; closes the connection if none is for long.
    async fn asked(&mut self) -> Option<LockWait> {
        if self.connection.is_some() {
            let idle = self.clock.sleep_until(self.clock.now().saturating_add(IDLE_FOR));
            tokio::select! {
                biased;
                wait = self.asked.recv() => return wait,
                () = idle => {}
            }
            if let Some(connection) = self.connection.take() {
                let _ = connection.disconnect().await;
            }
        }
        self.asked.recv().await
    }

    /// Waits for one named lock; returns the wait that took its turn.
    async fn serve(&mut self, mut wait: LockWait) -> Option<LockWait> {
        // Only the last of those that were asked for has the turn.
        while let Ok(later) = self.asked.try_recv() {
            wait.give_up();
            wait = later;
        }
        if wait.tell.is_closed() {
            return None;
        }
        let mut connection = match contained(self.connect()).await {
            Ok(connection) => connection,
            Err(failure) => {
                wait.end(Err(failure));
                return None;
            }
        };
        let thread = connection.id();
        let within_s = wait.within.as_secs_f64().ceil().max(1.0);
        let text = call::wait_for_named_lock(wait.ticket, within_s);
        let mut waiting = Box::pin(connection.query_first::<LockAnswer, _>(text));
        let (mut wait, mut next) = (Some(wait), None::<LockWait>);
        let outcome = loop {
            tokio::select! {
                biased;
                outcome = &mut waiting => break outcome,
                Some(later) = self.asked.recv() => {
                    // It is ended once; if it ended by itself, the next wait may be ended in its place, and says so.
                    if let Some(wait) = wait.take() {
                        (self.end_query)(thread);
                        wait.give_up();
                    }
                    if let Some(earlier) = next.replace(later) {
                        earlier.give_up();
                    }
                }
            }
        };
        drop(waiting);
        let ended = judge(outcome);
        if !matches!(&ended, Err((_, true))) {
            self.connection = Some(connection);
        }
        if let Some(wait) = wait {
            wait.end(ended.map_err(|(failure, _)| failure));
        }
        next
    }

    /// Returns the connection, which is opened if there is none.
    async fn connect(&mut self) -> Result<Conn, Failure> {
        if let Some(connection) = self.connection.take() {
            return Ok(connection);
        }
        let mut connection = begin(&self.access).await?;
        connection.query_drop(self.settings.as_str()).await.map_err(refusal::of_greeting)?;
        Ok(connection)
    }
}

/// Says how a wait ended, and if it failed, whether the connection is of no use any more.
fn judge(outcome: Result<Option<LockAnswer>, Error>) -> Result<NamedLockWait, (Failure, bool)> {
    match outcome {
        Ok(Some((Some(1), _))) => Ok(NamedLockWait::Free),
        Ok(_) => Ok(NamedLockWait::GivenUp),
        Err(error) => {
            let is_last = refusal::is_last(&error);
            if matches!(&error, Error::Server(said) if said.code == 1317) {
                return Ok(NamedLockWait::GivenUp);
            }
            Err((refusal::of_statement(error, ""), is_last))
        }
    }
}

impl LockWait {
    fn end(self, ended: Result<NamedLockWait, Failure>) {
        // The caller may have given up.
        let _ = self.tell.send(ended);
    }

    fn give_up(self) {
        self.end(Ok(NamedLockWait::GivenUp));
    }
}
