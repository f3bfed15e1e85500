//! The calls of one user, and what is recorded of them.

use std::time::Duration;

use lockkeeper_conformance::{Ask, Held, History, at_most};
use lockkeeper_core::Result;
use lockkeeper_core::clock::Clock;
use lockkeeper_history::What;
use lockkeeper_recipes::Keeper;

use crate::machine::Machine;
use crate::plan::{CallPlan, Drop};

/// A user of a machine's client.
pub(crate) struct User {
    pub(crate) number: u32,
    pub(crate) keeper: Keeper,
    pub(crate) machine: Machine,
    pub(crate) history: History,
}

impl User {
    /// Makes the calls, one after the other; the first has this number.
    pub(crate) async fn make(self, calls: Vec<CallPlan>, first_attempt: u32) {
        for (attempt, call) in (first_attempt..).zip(calls) {
            self.sleep(call.after).await;
            self.history.record(What::Calling { attempt, keeper: self.number, asks: call.ask.recorded() });
            let asking = self.ask(call.ask, &call);
            match self.history.on_behalf_of(attempt, asking).await {
                Some(Ok(Some(held))) => self.hold(attempt, held, &call).await,
                // A call fails where the service is away for longer than it is tried again.
                None | Some(Ok(None) | Err(_)) => self.history.record(What::GaveUp { attempt }),
            }
        }
    }

    /// Asks; `None` if the call was dropped before its answer.
    async fn ask(&self, ask: Ask, call: &CallPlan) -> Option<Result<Option<Held>>> {
        let asking = ask.within(&self.keeper, call.wait);
        match call.dropped_after {
            None => Some(asking.await),
            Some(Drop::Polls(polls)) => at_most(polls, asking).await,
            Some(Drop::Time(time)) => tokio::select! {
                biased;
                answer = asking => Some(answer),
                () = self.sleep(time) => None,
            },
        }
    }

    async fn hold(&self, attempt: u32, held: Held, call: &CallPlan) {
        self.history.record_seen(|| What::Granted { attempt, token: held.token(), held: held.is_held() });
        let holds = held.holds();
        let is_lost = tokio::select! {
            biased;
            // The permits of one call have one session.
            _ = holds[0].lost() => true,
            is_lost = self.look(attempt, &held, call) => is_lost,
        };
        if is_lost {
            self.history.record(What::Lost { attempt });
        } else {
            self.history.record(What::Releasing { attempt });
        }
        if call.drops_guard {
            drop(held);
        } else {
            // It may be lost, and the service may be away.
            let _ = held.release().await;
        }
    }

    /// Asks the guard now and then; returns whether it has said that it is lost.
    async fn look(&self, attempt: u32, held: &Held, call: &CallPlan) -> bool {
        for _ in 0..=call.looks {
            self.sleep(call.hold / (call.looks + 1)).await;
            if !held.is_held() {
                return true;
            }
            self.history.record(What::Held { attempt });
        }
        false
    }

    async fn sleep(&self, time: Duration) {
        self.machine.sleep_until(self.machine.now().saturating_add(time)).await;
    }
}
