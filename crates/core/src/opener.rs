//! Something that many callers need and one task opens, such as a session.
//!
//! No caller owns the opening. A task does it, in the runtime of the first caller. It goes on when that caller has
//! given up, and all callers that wait for it by then get its outcome. It ends when the [`Opener`] is shut or dropped.

use std::fmt;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::backend::Session;
use crate::clock::Clock;
use crate::error::{Advice, Error, ErrorKind, Operation, Result};
use crate::future::BoxFuture;
use crate::liveness::LossReason;
use crate::wait::Backoff;

/// How many openings without an outcome one caller waits for. An opening has no outcome if its runtime ended, and no
/// program ends more than a few runtimes in a row.
const OPENINGS_MAX: u32 = 4;

/// What an [`Opener`] opens; cheap to clone.
pub trait Openable: Clone + Send + Sync + 'static {
    /// Tells whether it is still of use.
    fn is_open(&self) -> bool;

    /// Ends it, since no caller wants it.
    fn discard(self);
}

impl Openable for Arc<dyn Session> {
    fn is_open(&self) -> bool {
        self.bond().liveness().is_held()
    }

    fn discard(self) {
        // The call alone ends it.
        drop(self.close());
    }
}

/// Opens one thing for all callers, and the next one when that is of no use any more. For keepers, and for backends
/// that open a connection for looks.
pub struct Opener<T> {
    shared: Arc<OpenerShared<T>>,
}

struct OpenerShared<T> {
    slot: Mutex<OpenerSlot<T>>,
    /// The pauses of the one caller at a time that opens again and again.
    reopening: tokio::sync::Mutex<Backoff>,
    /// Whether nothing is opened any more.
    is_shut: watch::Sender<bool>,
    on_open: Box<dyn Fn(&T) + Send + Sync>,
}

/// What there is.
enum OpenerSlot<T> {
    /// Nothing, until a caller asks.
    Empty,
    /// A task opens it, and tells all waiters. If the sender is gone, its runtime has ended.
    Opening(watch::Receiver<Option<Result<T>>>),
    /// It may be of no use by now.
    Open(T),
}

/// How a caller gets it.
enum OpenerWay<T> {
    /// It is there.
    There(T),
    /// A task opens it and sends the outcome.
    Told(watch::Receiver<Option<Result<T>>>),
    /// The caller opens it itself, since there is no runtime for a task.
    Alone(BoxFuture<Result<T>>),
}

impl<T: Openable> Opener<T> {
    /// Starts with nothing open. `on_open` is called once with each thing that was opened and is kept.
    pub fn new(on_open: impl Fn(&T) + Send + Sync + 'static) -> Self {
        let (slot, is_shut) = (Mutex::new(OpenerSlot::Empty), watch::Sender::new(false));
        let reopening = tokio::sync::Mutex::new(Backoff::CONNECTING);
        Self { shared: Arc::new(OpenerShared { slot, reopening, is_shut, on_open: Box::new(on_open) }) }
    }

    /// Returns what is open, or waits until the next one is. If the future is dropped, the opening goes on. A caller
    /// that comes after an opening has failed begins another one.
    ///
    /// `open`, the first poll of its future and [`Openable::is_open`] run under this opener's lock, and must not call
    /// it.
    ///
    /// # Errors
    ///
    /// Those of the opening, for all callers that wait for it; [`ErrorKind::Closed`] once it is shut and nothing is
    /// open.
    pub async fn get(&self, open: impl Fn() -> BoxFuture<Result<T>> + Send + Sync) -> Result<T> {
        for _ in 0..OPENINGS_MAX {
            let mut outcome = match self.shared.way(&open)? {
                OpenerWay::There(opened) => return Ok(opened),
                OpenerWay::Alone(opening) => return self.shared.settle(opening.await),
                OpenerWay::Told(outcome) => outcome,
            };
            let told = outcome.wait_for(Option::is_some).await.map(|opened| opened.clone());
            if let Ok(Some(opened)) = told {
                return opened;
            }
        }
        let message = "the runtime that was to open a session has ended";
        Err(Error::transient(ErrorKind::ConnectionLost, Operation::Connect, message))
    }

    /// Waits after an opening that has failed until something is open, or an opening has failed in a way that does not
    /// pass. Of all callers that wait one opens, again and again with [`Backoff::CONNECTING`] between; another goes on
    /// if its future is dropped.
    pub async fn reopen(&self, clock: &dyn Clock, open: impl Fn() -> BoxFuture<Result<T>> + Send + Sync) {
        let mut backoff = self.shared.reopening.lock().await;
        while !self.present().is_some_and(|opened| opened.is_open()) {
            backoff.rest(clock).await;
            match self.get(&open).await {
                Err(error) if error.advice() != Advice::Permanent => {}
                Ok(_) | Err(_) => break,
            }
        }
        *backoff = Backoff::CONNECTING;
    }

    /// Opens nothing any more; what is open stays.
    pub fn shut(&self) {
        self.shared.is_shut.send_replace(true);
    }

    /// Returns what was opened last and not taken; it may be of no use any more.
    pub fn present(&self) -> Option<T> {
        match &*self.shared.slot.lock() {
            OpenerSlot::Open(opened) => Some(opened.clone()),
            OpenerSlot::Opening(_) | OpenerSlot::Empty => None,
        }
    }

    /// Never drops what is open, whatever becomes of this: it is the parent's of this process.
    pub fn leave(&self) {
        std::mem::forget(self.shared.clone());
    }

    /// Takes what is open, if there is something.
    pub fn take(&self) -> Option<T> {
        match std::mem::replace(&mut *self.shared.slot.lock(), OpenerSlot::Empty) {
            OpenerSlot::Open(opened) => Some(opened),
            OpenerSlot::Opening(_) | OpenerSlot::Empty => None,
        }
    }
}

impl<T: Openable> OpenerShared<T> {
    fn way(self: &Arc<Self>, open: impl Fn() -> BoxFuture<Result<T>>) -> Result<OpenerWay<T>> {
        let mut slot = self.slot.lock();
        match &*slot {
            OpenerSlot::Open(opened) if opened.is_open() => return Ok(OpenerWay::There(opened.clone())),
            OpenerSlot::Opening(outcome) if outcome.has_changed().is_ok() => {
                return Ok(OpenerWay::Told(outcome.clone()));
            }
            OpenerSlot::Open(_) | OpenerSlot::Opening(_) | OpenerSlot::Empty => *slot = OpenerSlot::Empty,
        }
        self.refuse_if_shut()?;
        let mut opening = open();
        // In memory and on files an opening needs no wait, and so no task.
        if let Poll::Ready(opened) = opening.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            drop(slot);
            return self.settle(opened).map(OpenerWay::There);
        }
        let Ok(runtime) = Handle::try_current() else {
            return Ok(OpenerWay::Alone(opening));
        };
        let (tell, outcome) = watch::channel(None);
        *slot = OpenerSlot::Opening(outcome.clone());
        runtime.spawn(run(Arc::downgrade(self), opening, self.is_shut.subscribe(), tell));
        Ok(OpenerWay::Told(outcome))
    }

    /// Keeps what was opened for all callers from now on.
    fn settle(&self, opened: Result<T>) -> Result<T> {
        let mut slot = self.slot.lock();
        let opened = match opened {
            Ok(opened) => opened,
            Err(error) => {
                if let OpenerSlot::Opening(_) = *slot {
                    *slot = OpenerSlot::Empty;
                }
                return Err(error);
            }
        };
        if let Err(closed) = self.refuse_if_shut() {
            drop(slot);
            opened.discard();
            return Err(closed);
        }
        if let OpenerSlot::Open(other) = &*slot
            && other.is_open()
        {
            // Two callers asked at the same moment. The one that no caller takes ends when it is dropped.
            return Ok(other.clone());
        }
        *slot = OpenerSlot::Open(opened.clone());
        drop(slot);
        (self.on_open)(&opened);
        Ok(opened)
    }

    fn refuse_if_shut(&self) -> Result<()> {
        if *self.is_shut.borrow() {
            return Err(Error::permanent(ErrorKind::Closed, Operation::Connect, LossReason::Closed.to_string()));
        }
        Ok(())
    }
}

/// Opens something, unless the opener is shut or dropped before.
async fn run<T: Openable>(
    opener: Weak<OpenerShared<T>>,
    opening: BoxFuture<Result<T>>,
    mut is_shut: watch::Receiver<bool>,
    tell: watch::Sender<Option<Result<T>>>,
) {
    let shutting = async {
        // An error says that the opener was dropped.
        let _ = is_shut.wait_for(|&is_shut| is_shut).await;
    };
    let opened = tokio::select! {
        biased;
        // A caller that waits looks again, and finds it shut.
        () = shutting => return,
        opened = opening => opened,
    };
    // What no caller takes ends when it is dropped.
    if let Some(opener) = opener.upgrade() {
        tell.send_replace(Some(opener.settle(opened)));
    }
}

impl<T> fmt::Debug for Opener<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Opener").field("is_shut", &*self.shared.is_shut.borrow()).finish_non_exhaustive()
    }
}
