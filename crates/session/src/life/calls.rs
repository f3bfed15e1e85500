//! The calls under a session: when each is made, how long it is waited for, and what its caller is told.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{BoxFuture, Error, ErrorKind, Liveness, LossReason, Operation, Result};

use crate::{Effect, Failure, FailureKind, Life, Link, Make, SessionCall, late};

/// The pause before a call is retried that the service has turned away for now.
pub(crate) const PAUSE: Duration = Duration::from_millis(100);

/// How often a look is tried again after a failure in passing; each attempt waits for the next connection.
pub(crate) const LOOK_ATTEMPTS_MAX: u32 = 4;

/// What callers are told whose session went with its runtime.
const ABANDONED: &str = "the runtime that kept the session has ended";

impl<L: Link> Life<L> {
    /// Calls the service: now, or over the next connection if there is none.
    pub fn call<T: Send + 'static>(&self, make: Make<L, T>) -> SessionCall<L, T> {
        self.outbox.call(make)
    }

    /// Waits for the answer to a call until this moment.
    ///
    /// # Errors
    ///
    /// Why there was none: the call's failure, or the last trouble of the session if the call was never sent.
    pub async fn answer<T: Send + 'static>(
        &self,
        call: &mut SessionCall<L, T>,
        deadline: BootInstant,
    ) -> Result<T, Failure> {
        let is_in_time = tokio::select! {
            biased;
            answer = call.answer() => return answer,
            () = late(&*self.clock, deadline) => call.is_sent(),
        };
        match (is_in_time, self.trouble()) {
            (false, Some(trouble)) => Err(trouble),
            (false, None) => Err(Failure::late(Effect::None)),
            (true, _) => Err(Failure::late(Effect::Unknown)),
        }
    }

    /// When a request that is made now must be answered.
    pub fn deadline(&self) -> BootInstant {
        self.clock.now().saturating_add(self.operation_timeout)
    }

    /// Calls what only looks: now, and again over the next connections if that fails in passing.
    pub fn look<T: Send + 'static>(self: &Arc<Self>, make: Make<L, T>) -> BoxFuture<Result<T, Failure>> {
        let (mut call, life, deadline) = (self.call(make), self.clone(), self.deadline());
        Box::pin(async move {
            let mut left = LOOK_ATTEMPTS_MAX;
            loop {
                left -= 1;
                match life.answer(&mut call, deadline).await {
                    Err(failure) if failure.is_passing() && failure.kind != FailureKind::Deadline && left > 0 => {
                        life.again(&mut call, &failure).await;
                    }
                    answer => return answer,
                }
            }
        })
    }

    /// Calls what changes something, once.
    pub fn write<T: Send + 'static>(self: &Arc<Self>, make: Make<L, T>) -> BoxFuture<Result<T, Failure>> {
        let (mut call, life, deadline) = (self.call(make), self.clone(), self.deadline());
        Box::pin(async move { life.answer(&mut call, deadline).await })
    }

    /// Makes a call again that failed in passing, at its turn.
    pub async fn again<T: Send + 'static>(&self, call: &mut SessionCall<L, T>, failure: &Failure) {
        if failure.needs_another() {
            // Where each connection fails at once, the caller can still give the call up.
            tokio::task::yield_now().await;
        } else if failure.kind == FailureKind::Overloaded && failure.keeps_connection() {
            call.overload.rest(&*self.clock).await;
        } else {
            self.clock.sleep_until(self.clock.now().saturating_add(PAUSE)).await;
        }
        self.outbox.again(call);
    }

    /// Waits after a failure over this connection: until another one is in use if it is of no use any more, else a
    /// little.
    pub async fn pause_after(&self, link: &L, failure: &Failure) {
        if !failure.needs_another() {
            self.clock.sleep_until(self.clock.now().saturating_add(PAUSE)).await;
            return;
        }
        link.shut();
        self.until_other(link).await;
    }

    /// Takes in what came of a request of this name: the use of its connection ends if that brings nothing any more.
    ///
    /// # Errors
    ///
    /// The request's.
    pub fn hear<T>(&self, link: &L, request: impl fmt::Debug, answer: Result<T, Failure>) -> Result<T, Failure> {
        let failure = match &answer {
            Ok(_) if self.testing.loses(&request) => {
                link.shut();
                return Err(Failure::broken(Effect::Unknown));
            }
            Ok(_) => return answer,
            Err(failure) => failure,
        };
        tracing::trace!(target: "lockkeeper", ?request, %failure, "not answered");
        if failure.needs_another() {
            link.shut();
        }
        answer
    }

    /// Refuses a call under a session that is lost.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Lost`], transient: another session may be opened.
    pub fn check(&self, operation: Operation) -> Result<()> {
        match self.bond.liveness() {
            Liveness::Lost(reason) => Err(self.lost(reason, operation)),
            Liveness::Held { .. } | Liveness::Jeopardy { .. } => Ok(()),
        }
    }

    /// The error that the session is over.
    pub fn over(&self, operation: Operation) -> Error {
        match self.bond.liveness() {
            Liveness::Lost(reason) => self.lost(reason, operation),
            Liveness::Held { .. } | Liveness::Jeopardy { .. } => self.lost(LossReason::Expired, operation),
        }
    }

    /// Turns a failure into an error of locks; a session that is lost meanwhile says more.
    pub fn fail(&self, failure: Failure, operation: Operation, is_write: bool) -> Error {
        if failure.kind == FailureKind::SessionGone {
            self.expire();
        }
        match self.bond.liveness() {
            Liveness::Lost(reason) => self.lost(reason, operation),
            Liveness::Held { .. } | Liveness::Jeopardy { .. } => failure.into_core(operation, is_write),
        }
    }

    fn lost(&self, reason: LossReason, operation: Operation) -> Error {
        let message = match self.is_abandoned.load(Ordering::SeqCst) {
            true => ABANDONED.to_owned(),
            false => reason.to_string(),
        };
        Error::transient(ErrorKind::Lost(reason), operation, message)
    }
}

/// An answer that is there at once: the refusal of a call.
pub fn refuse<T: Send + 'static>(error: Error) -> BoxFuture<Result<T>> {
    Box::pin(std::future::ready(Err(error)))
}
