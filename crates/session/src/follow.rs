//! Follows a service over one connection after the other.
//!
//! What is asked over a connection, and what it tells, its backend knows.

use std::sync::Arc;

use lockkeeper_core::clock::Clock;
use lockkeeper_core::{Backoff, EventSender, FollowEvent, Follower, Operation};

use crate::Failure;

/// How one service is followed.
pub trait Follow: Send + 'static {
    /// The clock of all pauses.
    fn clock(&self) -> &Arc<dyn Clock>;

    /// Follows over one connection until that is of no use any more, or there is no reader: then it ends well. What it
    /// tells begins the pauses anew.
    fn until_lost(
        &mut self,
        telling: &EventSender,
        backoff: &mut Backoff,
    ) -> impl Future<Output = Result<(), Failure>> + Send;
}

/// Begins, in a task of the runtime that this is called in.
pub fn follow(mut following: impl Follow) -> Follower {
    Follower::run(|telling| async move {
        let mut backoff = Backoff::CONNECTING;
        while let Err(failure) = following.until_lost(&telling, &mut backoff).await {
            let is_passing = failure.is_passing();
            let error = failure.into_core(Operation::Inspect, false);
            if !telling.tell(FollowEvent::Lost(error)).await || !is_passing {
                return;
            }
            backoff.rest(&**following.clock()).await;
        }
    })
}
