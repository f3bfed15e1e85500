//! Statements over connections that are lent for a message each: by a pooler between, or by the program's own pool.
//!
//! Each is one message by itself, with the isolation and the limits that it needs, since such connections have other
//! settings each time. One is sent after the other is answered: a pooler that lends a server for a transaction may else
//! give an answer to another client, as it may if a transaction is several messages (PgBouncer, issue 759), and over
//! two connections of a pool a later one may come first. A beat of a pool waits for none of them.
//!
//! Where one has no answer, nothing more is sent: it may still have its effect, and the connection that the session is
//! taken over to next refuses that.

use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};

use lockkeeper_session::{Asking, Failure};
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::postgres::call::{self, AnswerAttempt};
use crate::postgres::pool::{PoolError, PostgresPool, TextRow};
use crate::postgres::refusal::is_unanswered;
use crate::statement::{AnswerRow, Statement, status};
use crate::url::Config;

/// What names the state of the data in its answer.
const GREET: &str = "greet";

/// What is sent without waiting for what was sent before.
const BEAT: &str = "beat";

/// The way of statements to lent connections. Its clones are the same.
#[derive(Clone)]
pub(super) struct LentWay {
    pub(super) pool: Arc<dyn PostgresPool>,
    pub(super) config: Arc<Config>,
    /// Whose turn it is, in the order of the calls.
    turns: Arc<tokio::sync::Mutex<()>>,
    /// Whether a beat waits for its turn too: where there is one connection to a pooler.
    is_one: bool,
    /// The state of the data that was greeted: each message makes sure that it has come there.
    state: Arc<OnceLock<String>>,
    /// Whether nothing more is sent.
    pub(super) end: watch::Sender<bool>,
}

impl LentWay {
    /// Over one connection to a pooler, which ends so.
    pub(super) fn over_one(pool: Arc<dyn PostgresPool>, config: Arc<Config>, end: watch::Sender<bool>) -> Self {
        Self { pool, config, turns: Arc::default(), is_one: true, state: Arc::default(), end }
    }

    /// Over any connection of a pool.
    pub(super) fn over_any(pool: Arc<dyn PostgresPool>, config: Arc<Config>) -> Self {
        Self { is_one: false, ..Self::over_one(pool, config, watch::channel(false).0) }
    }

    /// Sends a statement, behind all that were sent before; it goes on whether or not its caller waits, since others
    /// wait behind it.
    pub(super) fn send(&self, statement: &Statement, runtime: Handle) -> AnswerAttempt {
        let (this, statement) = (self.clone(), statement.clone());
        let waits = self.is_one || statement.function != BEAT;
        // In the line now.
        let turn = waits.then(|| {
            let mut turn = Box::pin(self.turns.clone().lock_owned());
            let first = turn.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            (turn, first)
        });
        let asking = runtime.spawn(async move {
            let _turn = match turn {
                Some((_, Poll::Ready(turn))) => Some(turn),
                Some((turn, Poll::Pending)) => Some(turn.await),
                None => None,
            };
            this.ask(&statement).await
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

    async fn ask(&self, statement: &Statement) -> Result<Result<Vec<AnswerRow>, Failure>, PoolError> {
        let message = call::call_as_text(&self.config, self.state.get().map(String::as_str), statement);
        let answer = self.answer(message).await;
        if answer.as_ref().is_err_and(is_unanswered) {
            self.end.send_replace(true);
        }
        let rows = call::rows_of_texts(&answer?);
        if statement.function == GREET
            && let Ok(Some(state)) =
                rows.as_deref().map(|rows| status(rows).ok().and_then(|status| status.ask.as_ref()))
        {
            self.state.get_or_init(|| state.clone());
        }
        Ok(rows)
    }

    async fn answer(&self, message: String) -> Result<Vec<TextRow>, PoolError> {
        let mut end = self.end.subscribe();
        tokio::select! {
            biased;
            // An error says that this was dropped, which it was not.
            _ = end.wait_for(|&is_over| is_over) => Err(PoolError::Broken("nothing more is asked".into())),
            answer = self.pool.ask(message, call::free_within(&self.config)) => answer,
        }
    }
}
