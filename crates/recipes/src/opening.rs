//! The session of a keeper: the present one, and the opening of the next.
//!
//! No caller owns the opening. A task does it, in the runtime of the first caller. It goes on when that caller has
//! given up, and all callers that wait for it by then get its outcome. It ends with the keeper.

#[cfg(test)]
mod tests;

use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};

use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::shared::{Opened, Shared, Slot, Stage};
use lockkeeper_core::{BoxFuture, Error, ErrorKind, Operation, Result, Session};

/// How many openings without an outcome one caller waits for. An opening has no outcome if its runtime ended, and no
/// program ends more than a few runtimes in a row.
const OPENINGS_MAX: u32 = 4;

/// How a caller gets a session.
enum Way {
    /// It is there.
    There(Arc<dyn Session>),
    /// A task opens it and sends the outcome.
    Told(watch::Receiver<Option<Opened>>),
    /// The caller opens one itself, since there is no runtime for a task.
    Alone(BoxFuture<Opened>),
}

impl Shared {
    /// Returns the present session, or waits until the next one is open. If the future is dropped, the opening goes on.
    /// A caller that comes after an opening has failed begins another one.
    ///
    /// # Errors
    ///
    /// Those of the opening, for all callers that wait for it; [`ErrorKind::Closed`] once the keeper is closed.
    pub(crate) async fn session(&self) -> Opened {
        for _ in 0..OPENINGS_MAX {
            let mut outcome = match self.way_to_session()? {
                Way::There(session) => return Ok(session),
                Way::Alone(opening) => return self.settle(opening.await),
                Way::Told(outcome) => outcome,
            };
            let told = outcome.wait_for(Option::is_some).await.map(|opened| opened.clone());
            if let Ok(Some(opened)) = told {
                return opened;
            }
        }
        let message = "the runtime that was to open a session has ended";
        Err(Error::transient(ErrorKind::ConnectionLost, Operation::Connect, message))
    }

    fn way_to_session(&self) -> Result<Way> {
        self.refuse_from(Stage::Closed)?;
        let mut slot = self.slot();
        match &*slot {
            Slot::Open(session) if session.bond().liveness().is_held() => return Ok(Way::There(session.clone())),
            Slot::Opening(outcome) if outcome.has_changed().is_ok() => return Ok(Way::Told(outcome.clone())),
            Slot::Open(_) | Slot::Opening(_) | Slot::Empty => *slot = Slot::Empty,
        }
        // What is held is used under the session that there is.
        self.refuse_from(Stage::Drained)?;
        let mut opening = self.backend.session();
        // In memory and on files an opening needs no wait, and so no task.
        if let Poll::Ready(opened) = opening.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            drop(slot);
            return self.settle(opened).map(Way::There);
        }
        let Ok(runtime) = Handle::try_current() else {
            return Ok(Way::Alone(opening));
        };
        let (tell, outcome) = watch::channel(None);
        *slot = Slot::Opening(outcome.clone());
        runtime.spawn(open(self.me.clone(), opening, self.until_closing(), tell));
        Ok(Way::Told(outcome))
    }

    /// Keeps the opened session for all later callers.
    fn settle(&self, opened: Opened) -> Opened {
        let mut slot = self.slot();
        match opened {
            Err(error) => {
                if let Slot::Opening(_) = *slot {
                    *slot = Slot::Empty;
                }
                Err(error)
            }
            Ok(session) => {
                if let Err(closed) = self.refuse_from(Stage::Drained) {
                    drop(slot);
                    // No other owner would end it. The call alone does.
                    drop(session.close());
                    return Err(closed);
                }
                if let Slot::Open(other) = &*slot
                    && other.bond().liveness().is_held()
                {
                    // Two callers opened one at the same moment. The session that is dropped is closed.
                    return Ok(other.clone());
                }
                *slot = Slot::Open(session.clone());
                drop(slot);
                self.tell_of(&*session);
                Ok(session)
            }
        }
    }
}

/// Opens a session for a keeper, unless that is closed or dropped before.
async fn open(
    keeper: Weak<Shared>,
    opening: BoxFuture<Opened>,
    closing: impl Future<Output = ()> + Send,
    tell: watch::Sender<Option<Opened>>,
) {
    let opened = tokio::select! {
        biased;
        // A waiting caller looks again, and finds that the keeper is closed.
        () = closing => return,
        opened = opening => opened,
    };
    // A session that is dropped is closed.
    if let Some(keeper) = keeper.upgrade() {
        tell.send_replace(Some(keeper.settle(opened)));
    }
}
