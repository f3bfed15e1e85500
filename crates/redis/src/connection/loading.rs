//! A server that loads its data after a restart: how a client hears of it, and what it knows of it. How a connection
//! waits for the end, `open` says.
//!
//! Such a server serves connections between two pieces of its data, so each client that comes back takes time from the
//! loading. Thousands that each open a connection twice a second, and send it all scripts, keep it from its end. So of
//! each client one connection waits, and asks by one small command.

use std::sync::Arc;

use lockkeeper_core::clock::{BootInstant, Clock};
use lockkeeper_session::{Effect, Failure, FailureKind, Server};
use parking_lot::Mutex;
use redis::{Cmd, Value, cmd};
use tokio::sync::MutexGuard;

use crate::connection::answer::answer;

/// A script that does nothing. A server that loads refuses it, and who may lock may send it: a user may lack `PING`.
const NOTHING: &str = "return 0";

/// What is asked of a server to hear whether it loads its data.
pub(super) fn question() -> Cmd {
    let mut question = cmd("SCRIPT");
    question.arg("LOAD").arg(NOTHING);
    question
}

/// Reads the answer to that: why the server serves none, if it loads its data. Any other refusal is for those that need
/// what it refuses.
pub(super) fn refusal_of_loading(answered: Value) -> Option<Failure> {
    match &answered {
        Value::ServerError(error) if error.code() == "LOADING" => answer(answered, "SCRIPT LOAD").err(),
        _ => None,
    }
}

/// Which server of a service loads its data or is away, as far as one client has heard. Its clones are the same.
#[derive(Clone, Default)]
pub(crate) struct LoadingNote(Arc<NotedLoading>);

#[derive(Default)]
struct NotedLoading {
    last: Mutex<LastAttempt>,
    /// Held by the attempt that connects to such a server, and waits for it.
    waiting: tokio::sync::Mutex<()>,
}

/// How the last attempt to connect ended.
#[derive(Clone, Default)]
enum LastAttempt {
    #[default]
    Served,
    /// This server hung up, or refused. It may load its data when it comes back.
    Refused(Server),
    Loads(Server, Failure),
}

impl LoadingNote {
    /// Returns why the service does not serve, if that is why.
    pub(crate) fn trouble(&self) -> Option<Failure> {
        match &*self.0.last.lock() {
            LastAttempt::Loads(_, failure) => Some(failure.clone()),
            LastAttempt::Served | LastAttempt::Refused(_) => None,
        }
    }

    /// Tells whether a server that is connected to now may well load its data.
    pub(super) fn is_likely(&self) -> bool {
        !matches!(*self.0.last.lock(), LastAttempt::Served)
    }

    /// Notes what a server has said that loads its data.
    pub(super) fn set(&self, server: &Server, failure: Failure) {
        *self.0.last.lock() = LastAttempt::Loads(server.clone(), failure.at(server));
    }

    /// Notes that a server serves, or that this one cannot be used for another reason than its loading.
    pub(super) fn conclude<T>(&self, server: &Server, opened: &Result<T, Failure>) {
        let mut last = self.0.last.lock();
        match opened {
            Ok(_) => *last = LastAttempt::Served,
            Err(_) if matches!(&*last, LastAttempt::Loads(loads, _) if loads != server) => {}
            // One that is silent is none that hangs up, and no reason for another attempt to wait.
            Err(failure) if failure.kind == FailureKind::Deadline => *last = LastAttempt::Served,
            Err(_) => *last = LastAttempt::Refused(server.clone()),
        }
    }

    /// Has one attempt wait for a server, until what this returns is dropped; `None` if another one does.
    pub(super) fn begin_to_wait(&self) -> Option<MutexGuard<'_, ()>> {
        self.0.waiting.try_lock().ok()
    }

    /// Waits while another attempt connects to this server, if it loads or is away: a session that is opened and the
    /// former one that is ended need not both ask it. `None` if there is no need for turns.
    ///
    /// # Errors
    ///
    /// What was heard of it, if another one waits until the deadline.
    pub(super) async fn turn(
        &self,
        server: &Server,
        clock: &dyn Clock,
        deadline: BootInstant,
    ) -> Result<Option<MutexGuard<'_, ()>>, Failure> {
        if !self.is_about(server) {
            return Ok(None);
        }
        tokio::select! {
            biased;
            turn = self.0.waiting.lock() => Ok(Some(turn).filter(|_| self.is_about(server))),
            () = clock.sleep_until(deadline) => Err(self.trouble().unwrap_or_else(|| Failure::late(Effect::None))),
        }
    }

    fn is_about(&self, server: &Server) -> bool {
        match &*self.0.last.lock() {
            LastAttempt::Served => false,
            LastAttempt::Refused(noted) | LastAttempt::Loads(noted, _) => noted == server,
        }
    }
}
