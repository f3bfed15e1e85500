//! Hears what becomes of our own contenders, and finds out why one is gone.

use std::sync::Arc;

#[cfg(feature = "testing")]
use lockkeeper_core::Operation;
use lockkeeper_core::{LossReason, Ticket};
use lockkeeper_session::Ask;

use crate::queue::inner::Inner;
use crate::queue::leave;
use crate::queue::place::Place;
use crate::session::News;

/// Takes in what beats tell of our own contenders, until the session is over.
pub(super) async fn run(inner: Arc<Inner>) {
    let mut told = inner.core.roll.told();
    loop {
        let news = tokio::select! {
            biased;
            _ = inner.core.life.ended() => return,
            news = told.recv() => news,
        };
        match news {
            // Why it is gone is asked when it leaves what is left of it.
            Some(News::Missing(ticket) | News::Broken(ticket)) => {
                if let Some(place) = place(&inner, ticket) {
                    inner.found_gone(&place);
                }
            }
            Some(News::Asked(ticket, ask)) => {
                if let (Some(place), Some(revocation)) = (place(&inner, ticket), Ask::read(&ask)) {
                    place.bond.revoke(revocation);
                }
            }
            None => return,
        }
    }
}

fn place(inner: &Inner, ticket: Ticket) -> Option<Arc<Place>> {
    inner.entries().of_ticket(ticket).cloned()
}

impl Inner {
    /// Notes that a contender of ours is gone, and finds out why.
    pub(super) fn found_gone(self: &Arc<Self>, place: &Arc<Place>) {
        if place.bond.remove() {
            self.core.life.runtime.spawn(explain(self.clone(), place.clone()));
        }
    }
}

async fn explain(inner: Arc<Inner>, place: Arc<Place>) {
    let reason = tokio::select! {
        biased;
        reason = inner.core.life.bond().lost() => reason,
        reason = find_out(&inner, &place) => reason,
    };
    inner.core.roll.remove(place.ticket);
    if reason == LossReason::Expired {
        inner.core.life.expire();
    }
    place.bond.explain(reason);
    #[cfg(feature = "testing")]
    if inner.core.life.check(Operation::Wait).is_ok() {
        inner.core.testing.note_removal();
    }
}

/// Removes what is left of a contender of ours, and asks why it is gone: it was broken, it went with its session, or it
/// was removed.
async fn find_out(inner: &Arc<Inner>, place: &Place) -> LossReason {
    let mut call = inner.core.life.call(leave::leaving(inner, &place.queue, place.ticket));
    loop {
        let failure = match call.answer().await {
            Ok((_, answer)) => return reason(&answer.word),
            Err(failure) => failure,
        };
        if !failure.is_passing() {
            tracing::debug!(target: "lockkeeper", %failure, "the service does not say why a contender is gone");
            return LossReason::Removed;
        }
        inner.core.life.again(&mut call, &failure).await;
    }
}

/// Reads the word for why a contender is gone.
pub(super) fn reason(why: &str) -> LossReason {
    match why {
        "broken" => LossReason::Broken,
        "gone" => LossReason::Expired,
        _ => LossReason::Removed,
    }
}
