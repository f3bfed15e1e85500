//! A server that loads its data after a restart: how a client hears of it, and what it knows of it. How a connection
//! waits for the end, `open` says.
//!
//! Such a server serves connections between two pieces of its data, so each client that comes back takes time from the
//! loading. Thousands that each open a connection twice a second, and send it all scripts, keep it from its end. So of
//! each client one connection waits, and asks by one small command.

use std::sync::Arc;

use lockkeeper_core::clock::{BootInstant, Clock};
use lockkeeper_session::{Failure, Server};
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

/// Which server of a service loads its data, as far as one client has heard. Its clones are the same.
#[derive(Clone, Default)]
pub(crate) struct LoadingNote(Arc<NotedLoading>);

#[derive(Default)]
struct NotedLoading {
    heard: Mutex<Option<(Server, Failure)>>,
    /// Held by the attempt whose connection waits for it.
    waiting: tokio::sync::Mutex<()>,
}

impl LoadingNote {
    /// Returns why the service does not serve, if that is why.
    pub(crate) fn trouble(&self) -> Option<Failure> {
        self.0.heard.lock().as_ref().map(|(_, failure)| failure.clone())
    }

    /// Notes what a server has said that loads its data.
    pub(super) fn set(&self, server: &Server, failure: Failure) {
        *self.0.heard.lock() = Some((server.clone(), failure.at(server)));
    }

    /// Notes that a server serves, or that this one cannot be used for another reason.
    pub(super) fn clear<T>(&self, server: &Server, opened: &Result<T, Failure>) {
        if opened.is_ok() || self.of(server).is_some() {
            *self.0.heard.lock() = None;
        }
    }

    /// What was heard of this server.
    fn of(&self, server: &Server) -> Option<Failure> {
        let heard = self.0.heard.lock();
        heard.as_ref().filter(|(loading, _)| loading == server).map(|(_, failure)| failure.clone())
    }

    /// Has one attempt wait for a server, until what this returns is dropped; `None` if another one does.
    pub(super) fn begin_to_wait(&self) -> Option<MutexGuard<'_, ()>> {
        self.0.waiting.try_lock().ok()
    }

    /// Waits while another attempt waits for this server: a session that is opened and the former one that is ended
    /// need not both ask it.
    ///
    /// # Errors
    ///
    /// What that has heard, if it waits until the deadline.
    pub(super) async fn until_none_waits(
        &self,
        server: &Server,
        clock: &dyn Clock,
        deadline: BootInstant,
    ) -> Result<(), Failure> {
        let (Some(heard), Err(_)) = (self.of(server), self.0.waiting.try_lock()) else {
            return Ok(());
        };
        tokio::select! {
            biased;
            _ = self.0.waiting.lock() => Ok(()),
            () = clock.sleep_until(deadline) => Err(heard),
        }
    }
}
