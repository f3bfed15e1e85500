//! The order of the calls: what is called goes out at the call, or stands in line for the next connection.
//!
//! A server executes what comes over one connection in the order in which it was sent. What must be sent again over the
//! next connection keeps its turn.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use lockkeeper_core::{Backoff, BoxFuture};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::{Failure, Link};

type SendLater<L> = Box<dyn FnOnce(&Arc<L>) + Send>;

/// Makes a request and sends it over a connection: before it returns, so that requests stand in the order of the calls.
pub type Make<L, T> = Arc<dyn Fn(&Arc<L>) -> BoxFuture<Result<T, Failure>> + Send + Sync>;

/// What one session calls, in the order of the calls.
pub(crate) struct CallOutbox<L> {
    state: Mutex<OutboxState<L>>,
}

struct OutboxState<L> {
    link: Option<Arc<L>>,
    /// What waits for the next connection, by its turn. The calls of the program are their limit.
    waiting: BTreeMap<u64, SendLater<L>>,
    next_turn: u64,
    /// Whether no connection comes any more.
    is_over: bool,
}

/// A call under way.
pub struct SessionCall<L, T> {
    turn: u64,
    make: Make<L, T>,
    sending: Sending<T>,
    /// The pauses after answers that the service has too much to do.
    pub(crate) overload: Backoff,
}

enum Sending<T> {
    /// It was sent.
    Sent(BoxFuture<Result<T, Failure>>),
    /// It waits for the next connection.
    Waits(oneshot::Receiver<BoxFuture<Result<T, Failure>>>),
}

impl<L: Link> CallOutbox<L> {
    /// Sends something now, or once there is a connection.
    pub(crate) fn call<T: Send + 'static>(&self, make: Make<L, T>) -> SessionCall<L, T> {
        let mut state = self.state.lock();
        let turn = state.next_turn;
        state.next_turn += 1;
        let sending = state.send(turn, make.clone());
        SessionCall { turn, make, sending, overload: Backoff::OVERLOADED }
    }

    /// Sends a call again after a failure, at its turn.
    pub(crate) fn again<T: Send + 'static>(&self, call: &mut SessionCall<L, T>) {
        call.sending = self.state.lock().send(call.turn, call.make.clone());
    }

    /// Sends what has waited, and from now on what is called, over this connection.
    pub(crate) fn attach(&self, link: &Arc<L>) {
        let mut state = self.state.lock();
        state.link = Some(link.clone());
        for send in std::mem::take(&mut state.waiting).into_values() {
            send(link);
        }
    }

    /// Has what is called from now on wait for the next connection.
    pub(crate) fn detach(&self) {
        self.state.lock().link = None;
    }

    /// Sends nothing any more: each call that waits, and each new one, fails.
    pub(crate) fn end(&self) {
        let mut state = self.state.lock();
        state.is_over = true;
        state.link = None;
        state.waiting.clear();
    }
}

impl<L: Link> OutboxState<L> {
    fn send<T: Send + 'static>(&mut self, turn: u64, make: Make<L, T>) -> Sending<T> {
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

impl<L: Link, T: Send + 'static> SessionCall<L, T> {
    /// Waits for the answer, and for a connection before.
    ///
    /// # Errors
    ///
    /// What the service or the connection has refused; that the session is over once no connection comes any more.
    pub async fn answer(&mut self) -> Result<T, Failure> {
        if let Sending::Waits(given) = &mut self.sending {
            match given.await {
                Ok(sent) => self.sending = Sending::Sent(sent),
                Err(_) => return Err(Failure::session_over()),
            }
        }
        match &mut self.sending {
            Sending::Sent(sent) => sent.await,
            Sending::Waits(_) => unreachable!("it was just given"),
        }
    }

    /// Whether it may be on its way.
    pub const fn is_sent(&self) -> bool {
        matches!(self.sending, Sending::Sent(_))
    }
}

impl<L> Default for CallOutbox<L> {
    fn default() -> Self {
        let state = OutboxState { link: None, waiting: BTreeMap::new(), next_turn: 0, is_over: false };
        Self { state: Mutex::new(state) }
    }
}

impl<L, T> fmt::Debug for SessionCall<L, T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("SessionCall").field("turn", &self.turn).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::{FailureKind, Server};

    /// A connection that notes what is sent over it, and answers with its number.
    #[derive(Default)]
    struct Wire {
        number: u32,
        is_over: AtomicBool,
        sent: Mutex<Vec<u32>>,
    }

    impl Wire {
        fn new(number: u32) -> Arc<Self> {
            Arc::new(Self { number, ..Self::default() })
        }

        fn sent(&self) -> Vec<u32> {
            self.sent.lock().clone()
        }
    }

    impl Link for Wire {
        fn is_over(&self) -> bool {
            self.is_over.load(Ordering::SeqCst)
        }

        fn shut(&self) {
            self.is_over.store(true, Ordering::SeqCst);
        }

        fn server(&self) -> &Server {
            unreachable!("no call asks for it")
        }

        fn number(&self) -> u64 {
            self.number.into()
        }
    }

    fn request(number: u32) -> Make<Wire, u32> {
        Arc::new(move |wire: &Arc<Wire>| {
            wire.sent.lock().push(number);
            Box::pin(std::future::ready(Ok(wire.number)))
        })
    }

    #[tokio::test]
    async fn what_waits_for_a_connection_is_sent_over_it_in_the_order_of_the_calls() {
        let (outbox, wire) = (CallOutbox::default(), Wire::new(7));
        let mut calls: Vec<_> = (0..3).map(|number| outbox.call(request(number))).collect();
        assert!(calls.iter().all(|call| !call.is_sent()));
        outbox.attach(&wire);
        assert_eq!(wire.sent(), [0, 1, 2]);
        assert_eq!(calls[2].answer().await.unwrap(), 7);
    }

    #[test]
    fn a_call_that_is_made_again_keeps_its_turn_before_later_ones() {
        let (outbox, one, other) = (CallOutbox::default(), Wire::new(1), Wire::new(2));
        outbox.attach(&one);
        let mut first = outbox.call(request(0));
        one.is_over.store(true, Ordering::SeqCst);
        let _second = outbox.call(request(1));
        outbox.detach();
        outbox.again(&mut first);
        outbox.attach(&other);
        assert_eq!((one.sent(), other.sent()), (vec![0], vec![0, 1]));
    }

    #[tokio::test]
    async fn once_no_connection_comes_any_more_calls_fail_whether_made_before_or_after() {
        let outbox = CallOutbox::<Wire>::default();
        let mut before = outbox.call(request(0));
        outbox.end();
        let mut after = outbox.call(request(1));
        for call in [&mut before, &mut after] {
            assert_eq!(call.answer().await.unwrap_err().kind, FailureKind::SessionGone);
        }
    }
}
