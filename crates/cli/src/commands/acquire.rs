//! Waiting for a lock as a command does: a signal ends it, a line says what is waited for, and a failure is put into
//! words.

use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use lockkeeper::clock::{Clock, SystemClock};
use lockkeeper::{Keeper, Wait};

use super::claim::{ClaimHold, LockClaim};
use crate::exit::CommandFailure;
use crate::interruption::EndingSignals;
use crate::voice::Voice;
use crate::wait_line::narrate;

#[derive(Clone, Copy, Debug)]
pub(super) struct Acquiring<'a> {
    pub(super) keeper: &'a Keeper,
    pub(super) claim: &'a LockClaim,
    pub(super) voice: &'a Voice,
}

impl Acquiring<'_> {
    /// Waits for the lock; `None` if the timeout is over. A signal ends the wait, and dropping it leaves the queue.
    /// `fits` refuses a session by the notice that its holders are given.
    pub(super) async fn acquire(
        self,
        wait: Wait,
        fits: impl Fn(Option<Duration>) -> Result<(), CommandFailure>,
    ) -> Result<Option<ClaimHold>, CommandFailure> {
        let mut locking = pin!(self.lock(wait, fits));
        // A lock that is free costs neither signal handlers nor messages.
        if let Some(locked) = poll_once(locking.as_mut()).await {
            return locked;
        }
        let mut interruption = EndingSignals::listen()?;
        let name = self.claim.name();
        tokio::select! {
            biased;
            cause = interruption.heard() => Err(cause.ended(name, "while waiting for the lock; left the queue")),
            locked = locking => locked,
            () = narrate(self.keeper, name.as_str(), self.voice) => unreachable!("it never ends by itself"),
        }
    }

    /// Takes the lock, unless the session that it would be held under does not fit: a caller who would be refused in
    /// the end does not have to queue for it.
    async fn lock(
        self,
        wait: Wait,
        fits: impl Fn(Option<Duration>) -> Result<(), CommandFailure>,
    ) -> Result<Option<ClaimHold>, CommandFailure> {
        let refusal = async {
            match self.keeper.notice().await.map(fits) {
                Ok(Err(refused)) => refused,
                Err(error) if wait == Wait::No => error.at(self.claim.name()).into(),
                // The wait for the lock tries again to open a session, or says why there is none.
                Ok(Ok(())) | Err(_) => std::future::pending().await,
            }
        };
        tokio::select! {
            // It opens the session, and decides before a contender joins under it.
            biased;
            failure = refusal => Err(failure),
            locked = self.claim.take(wait) => Ok(locked?),
        }
    }

    /// Finds out why the lock is frozen, if it is: a caller that does not wait for it is told too.
    pub(super) async fn frozen(self) -> Option<String> {
        /// How long the answer may take; it is not essential.
        const LOOK_TIME_MAX: Duration = Duration::from_secs(1);
        let time_is_up = SystemClock.sleep_until(SystemClock.now().saturating_add(LOOK_TIME_MAX));
        let contenders = tokio::select! {
            contenders = self.keeper.contenders(self.claim.name().as_str()) => contenders.ok()?,
            () = time_is_up => return None,
        };
        contenders.into_iter().find_map(|contender| contender.frozen)
    }

    pub(super) fn in_vain(self, wait: Wait, frozen: Option<String>) -> String {
        let (name, service) = (self.claim.name(), self.keeper.service());
        let why = match (wait, frozen) {
            (_, Some(reason)) => format!("is frozen: {reason}"),
            (Wait::AtMost(longest), None) => format!("was not free within {longest:?}"),
            (Wait::No | Wait::Until(_) | Wait::Forever, None) => self.claim.in_use().to_owned(),
        };
        format!("{name} ({service}) {why}")
    }
}

async fn poll_once<Fut: Future>(mut future: Pin<&mut Fut>) -> Option<Fut::Output> {
    std::future::poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}
