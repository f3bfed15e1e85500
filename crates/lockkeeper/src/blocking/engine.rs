//! The thread that does the work of waiting callers, and keeps their sessions alive; and what a keeper, its locks and
//! its guards have of it.

use std::pin::{Pin, pin};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};
use std::thread::{self, ThreadId};
use std::time::Duration;

use lockkeeper_core::Home;
use parking_lot::Mutex;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use crate::{Error, ErrorKind, Operation, OwnerKey, Result};

thread_local! {
    /// This thread, as the owner of what it locks.
    static THREAD: OwnerKey = OwnerKey::of_this_thread();
}

/// How long the last user of a keeper waits for the session's end: long enough for a service that answers at all, and
/// short enough for a program that ends while its service does not answer.
const CLOSE_WAIT: Duration = Duration::from_secs(5);

/// The engine of this process, while it has users.
static RUNNING: Mutex<Weak<Engine>> = Mutex::new(Weak::new());

/// A runtime on a separate thread, which ends when the engine is dropped.
pub(super) struct Engine {
    /// The process that has the thread.
    home: Home,
    runtime: Handle,
    thread: ThreadId,
    /// Ends the thread when it is dropped.
    _stop: oneshot::Sender<()>,
}

impl Engine {
    /// Returns the engine that is running, or starts one.
    pub(super) fn start() -> Result<Arc<Self>> {
        // No code panics while it is locked.
        let mut running = RUNNING.lock();
        match running.upgrade() {
            Some(engine) if engine.home.is_left() => std::mem::forget(engine),
            Some(engine) => return Ok(engine),
            None => {}
        }
        let failed = |error| {
            let message = "the thread for blocking locks cannot be started";
            Error::transient(ErrorKind::LimitReached, Operation::Connect, message).caused_by(error)
        };
        let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel();
        let drive = move || {
            // It ends with an error, since nothing is ever sent.
            let _ = runtime.block_on(stopped);
        };
        let thread = thread::Builder::new().name("lockkeeper".to_owned()).spawn(drive).map_err(failed)?;
        let home = Home::here();
        let engine = Arc::new(Self { home, runtime: handle, thread: thread.thread().id(), _stop: stop });
        *running = Arc::downgrade(&engine);
        Ok(engine)
    }

    /// Does this work, and keeps the calling thread waiting for it.
    pub(super) fn call<T: Send + 'static>(&self, work: impl Future<Output = Result<T>> + Send + 'static) -> Result<T> {
        if let Err(error) = self.home.check(Operation::Wait) {
            // What is given back by it is the parent's.
            std::mem::forget(work);
            return Err(error);
        }
        let mut work = Box::pin(work);
        if let Some(done) = self.at_once(work.as_mut()) {
            return done;
        }
        if self.is_current() {
            let message = "called from the thread that would have to do it";
            return Err(Error::permanent(ErrorKind::WouldDeadlock, Operation::Wait, message));
        }
        let (answer, answered) = sync_channel(1);
        self.runtime.spawn(async move {
            // The caller waits without end, so the answer is always received.
            let _ = answer.send(work.await);
        });
        answered.recv().unwrap_or_else(|_| {
            let message = "the work on the thread for blocking locks panicked";
            Err(Error::unknown(ErrorKind::Backend, Operation::Wait, message))
        })
    }

    /// Does work that needs no waiting on the calling thread, such as locking again what it holds: no thread is woken
    /// for it.
    fn at_once<T>(&self, work: Pin<&mut impl Future<Output = T>>) -> Option<T> {
        let _context = self.runtime.enter();
        match work.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(done) => Some(done),
            Poll::Pending => None,
        }
    }

    /// Has work done without waiting for it, except on a thread that may be kept waiting: those of runtimes may not.
    pub(super) fn finish(self: &Arc<Self>, work: impl Future<Output = ()> + Send + 'static) {
        if self.home.is_left() {
            // The thread that would do it is in the parent.
            std::mem::forget((self.clone(), work));
            return;
        }
        let may_wait = !self.is_current() && Handle::try_current().is_err();
        let (done, finished) = sync_channel::<()>(1);
        let engine = self.clone();
        self.runtime.spawn(async move {
            // The service ends what is unfinished then.
            let _ = tokio::time::timeout(CLOSE_WAIT, pin!(work)).await;
            drop((done, engine));
        });
        if may_wait {
            // Nothing is ever sent: this ends with the work, or when the time is over.
            let _ = finished.recv_timeout(CLOSE_WAIT);
        }
    }

    fn is_current(&self) -> bool {
        thread::current().id() == self.thread
    }
}

/// What a blocking keeper, its locks and its guards share.
pub(super) struct User {
    pub(super) keeper: crate::Keeper,
    engine: Arc<Engine>,
}

impl User {
    pub(super) const fn new(keeper: crate::Keeper, engine: Arc<Engine>) -> Self {
        Self { keeper, engine }
    }

    /// Does this work on the engine, and keeps the calling thread waiting for it.
    pub(super) fn call<T: Send + 'static>(&self, work: impl Future<Output = Result<T>> + Send + 'static) -> Result<T> {
        self.engine.call(work)
    }
}

/// Returns the owner key of this thread.
pub(super) fn this_thread() -> OwnerKey {
    // A thread that is ending has given up its key; what it locks then has a new owner.
    THREAD.try_with(OwnerKey::clone).unwrap_or_default()
}

impl Drop for User {
    fn drop(&mut self) {
        let keeper = self.keeper.clone();
        self.engine.finish(async move {
            // If this fails, the service ends the session at its timeout.
            let _ = keeper.close().await;
        });
    }
}

/// Unwraps the grant of a wait without an end.
pub(super) fn granted<T>(granted: Option<T>) -> T {
    granted.expect("without an end of the wait there is a grant or an error")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{Clock, SystemClock};

    #[test]
    fn work_that_panics_is_an_error_for_its_caller_alone() {
        let engine = Engine::start().unwrap();
        let error = engine
            .call(async {
                tokio::task::yield_now().await;
                if true {
                    panic!("as it should");
                }
                Ok(())
            })
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Backend);
        let answer = engine.call(async {
            tokio::task::yield_now().await;
            Ok(7)
        });
        assert_eq!(answer.unwrap(), 7);
    }

    #[test]
    fn the_last_user_waits_for_the_end_no_longer_than_it_may_and_within_a_runtime_not_at_all() {
        let engine = Engine::start().unwrap();
        let waited_for = |finish: &dyn Fn()| {
            let start = SystemClock.now();
            finish();
            SystemClock.now().saturating_duration_since(start)
        };
        let never = || engine.finish(std::future::pending());
        let runtime = Builder::new_current_thread().build().unwrap();
        assert!(waited_for(&|| runtime.block_on(async { never() })) < CLOSE_WAIT);
        assert!(waited_for(&|| engine.finish(async {})) < CLOSE_WAIT);
        let waited = waited_for(&never);
        assert!((CLOSE_WAIT..4 * CLOSE_WAIT).contains(&waited), "{waited:?}");
    }

    #[test]
    fn work_on_the_engines_own_thread_is_done_if_it_needs_no_waiting_and_else_refused() {
        let engine = Engine::start().unwrap();
        let inner = engine.clone();
        let (at_once, waiting) = engine
            .call(async move {
                tokio::task::yield_now().await;
                let waiting = inner.call(async {
                    tokio::task::yield_now().await;
                    Ok(())
                });
                Ok((inner.call(async { Ok(7) }), waiting))
            })
            .unwrap();
        assert_eq!(at_once.unwrap(), 7);
        assert_eq!(waiting.unwrap_err().kind(), ErrorKind::WouldDeadlock);
    }
}
