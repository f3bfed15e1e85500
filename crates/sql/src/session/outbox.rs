//! The order of the calls: what is called goes out at the call, or stands in line for the next connection.
//!
//! A server executes what comes over one connection in the order in which it was sent. What must be sent again over the
//! next connection keeps its turn.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lockkeeper_core::BoxFuture;
use tokio::sync::oneshot;

use crate::failure::{Effect, Failure, FailureKind};
use crate::session::link::Link;

type Sender = Box<dyn FnOnce(&Arc<Link>) + Send>;

/// Makes a request and sends it over a connection.
pub(crate) type Make<T> = Arc<dyn Fn(&Arc<Link>) -> BoxFuture<Result<T, Failure>> + Send + Sync>;

/// What is called, in the order of the calls.
#[derive(Default)]
pub(super) struct Outbox {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    link: Option<Arc<Link>>,
    /// What waits for the next connection, by its turn. The calls of the program are their limit.
    waiting: BTreeMap<u64, Sender>,
    next_turn: u64,
    /// Whether no connection comes any more.
    is_over: bool,
}

/// A call under way.
pub(crate) struct Call<T> {
    turn: u64,
    make: Make<T>,
    sending: Sending<T>,
}

enum Sending<T> {
    /// It was sent.
    Sent(BoxFuture<Result<T, Failure>>),
    /// It waits for the next connection.
    Waits(oneshot::Receiver<BoxFuture<Result<T, Failure>>>),
}

impl Outbox {
    /// Sends something now, or once there is a connection.
    pub(super) fn call<T: Send + 'static>(&self, make: Make<T>) -> Call<T> {
        let mut state = self.state();
        let turn = state.next_turn;
        state.next_turn += 1;
        let sending = state.send(turn, make.clone());
        Call { turn, make, sending }
    }

    /// Sends it again, at its turn.
    fn again<T: Send + 'static>(&self, call: &mut Call<T>) {
        call.sending = self.state().send(call.turn, call.make.clone());
    }

    /// Sends what has waited, and from now on what is called, over this connection.
    pub(super) fn attach(&self, link: &Arc<Link>) {
        let mut state = self.state();
        state.link = Some(link.clone());
        for send in std::mem::take(&mut state.waiting).into_values() {
            send(link);
        }
    }

    pub(super) fn detach(&self) {
        self.state().link = None;
    }

    /// Sends nothing any more.
    pub(super) fn end(&self) {
        let mut state = self.state();
        state.is_over = true;
        state.link = None;
        state.waiting.clear();
    }

    /// What is sent while it is locked calls nothing back, and does not panic.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn send<T: Send + 'static>(&mut self, turn: u64, make: Make<T>) -> Sending<T> {
        match &self.link {
            Some(link) if !link.is_over() => Sending::Sent(make(link)),
            _ => {
                let (give, given) = oneshot::channel();
                if !self.is_over {
                    // A caller that has gone meanwhile has called all the same.
                    self.waiting.insert(turn, Box::new(move |link| drop(give.send(make(link)))));
                }
                Sending::Waits(given)
            }
        }
    }
}

impl<T: Send + 'static> Call<T> {
    /// Waits for the answer, and for a connection before. Once no connection comes any more, the failure is of the kind
    /// [`FailureKind::SessionGone`].
    pub(super) async fn answer(&mut self) -> Result<T, Failure> {
        if let Sending::Waits(given) = &mut self.sending {
            match given.await {
                Ok(sent) => self.sending = Sending::Sent(sent),
                Err(_) => return Err(Failure::new(FailureKind::SessionGone, Effect::None, "the session is over")),
            }
        }
        match &mut self.sending {
            Sending::Sent(sent) => sent.await,
            Sending::Waits(_) => unreachable!("it was just given"),
        }
    }

    /// Whether it may be on its way.
    pub(super) const fn is_sent(&self) -> bool {
        matches!(self.sending, Sending::Sent(_))
    }

    /// Sends it again after a failure.
    pub(super) fn again(&mut self, outbox: &Outbox) {
        outbox.again(self);
    }
}
