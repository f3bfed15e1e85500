//! The way of a call to its turn: the key at once or through the line, then a turn of the place that is there, or a new
//! place.

use std::sync::Arc;

use lockkeeper_core::{Caller, ErrorKind, Liveness, Result, Wait};
use tokio::task::coop;
use tokio_util::context::TokioContext;

use super::key::{InLine, Key};
use super::lead::Lead;
use super::line::SlotNumber;
use super::state::Grant;
use super::turn::{Seat, Turn};
use crate::contend::{Granted, OnePlace, grant_by, unanswered};
use crate::shared::{Shared, Stage};

/// What a call finds that asks for the key.
enum Asked {
    Key(Key),
    Line(SlotNumber),
}

/// What a turn of a grant would be worth now.
enum Worth {
    /// As much as a place that is granted anew.
    Whole,
    /// The place stands, but its session is not as fresh as it is while renewals succeed.
    Doubtful(Liveness),
    /// Nothing: the place is lost.
    Nothing,
}

impl Seat {
    /// Waits for a turn; `None` if the time was up first.
    ///
    /// # Errors
    ///
    /// Those of [`grant_by`]; the failure of another task that led for all.
    pub(crate) async fn acquire(
        self: &Arc<Self>,
        shared: &Arc<Shared>,
        caller: Caller,
        wait: Wait,
    ) -> Result<Option<Granted<Turn>>> {
        // A task that takes turn after turn gives other tasks of its thread theirs.
        coop::consume_budget().await;
        let wait = wait.starting(shared.clock.now());
        if wait == Wait::No {
            let key = self.state().take_key();
            return match key {
                Some(serial) => self.turn(shared, Key::new(self.clone(), serial), caller, wait).await,
                None => self.refuse(shared).map(|()| None),
            };
        }
        let key = match self.ask(caller) {
            Asked::Key(key) => key,
            Asked::Line(slot) => {
                let line = InLine::new(self.clone(), slot);
                self.watch_if_needed(shared);
                // Once it stands in line: a keeper that is closed from now on fails the line, an earlier one this.
                self.refuse(shared)?;
                match shared.by(wait, line).await {
                    Some(key) => key?,
                    None => return self.timed_out(shared),
                }
            }
        };
        self.turn(shared, key, caller, wait).await
    }

    fn ask(self: &Arc<Self>, caller: Caller) -> Asked {
        let mut state = self.state();
        match state.take_key() {
            Some(serial) => Asked::Key(Key::new(self.clone(), serial)),
            None => Asked::Line(state.line.push(caller)),
        }
    }

    fn refuse(&self, shared: &Shared) -> Result<()> {
        shared.refuse_from(Stage::Drained).map_err(|closed| closed.at(&self.queue))
    }

    /// What a call is told whose time was up in the line.
    fn timed_out(&self, shared: &Shared) -> Result<Option<Granted<Turn>>> {
        if self.state().has_place() || shared.is_held_up(&self.queue) {
            return Ok(None);
        }
        Err(unanswered(shared).at(&self.queue))
    }

    /// Takes a turn with the key.
    async fn turn(
        self: &Arc<Self>,
        shared: &Arc<Shared>,
        mut key: Key,
        caller: Caller,
        wait: Wait,
    ) -> Result<Option<Granted<Turn>>> {
        loop {
            let Some(grant) = self.state().grant() else {
                return self.lead(shared, key, caller, wait).await;
            };
            match worth(&grant, shared) {
                Worth::Whole => match self.take(key, grant) {
                    Ok(granted) => return self.refuse(shared).map(|()| Some(granted)),
                    Err(kept) => key = kept,
                },
                Worth::Doubtful(seen) => {
                    let is_over = tokio::select! {
                        biased;
                        had = shared.by(wait, grant.standing.bond().renewed(seen)) => had.is_none(),
                        closed = shared.until(Stage::Drained) => return Err(closed.at(&self.queue)),
                    };
                    if is_over {
                        return Ok(None);
                    }
                }
                Worth::Nothing => self.change(|state| state.drop_lost(key.serial(), grant.number)),
            }
        }
    }

    /// Takes a turn of this grant; the key is returned if the grant is over.
    fn take(self: &Arc<Self>, key: Key, grant: Arc<Grant>) -> std::result::Result<Granted<Turn>, Key> {
        let turn = self.state().take(key.serial(), grant.number);
        match turn {
            Some(turn) => Ok(self.granted(grant, key.used().1, turn)),
            None => Err(key),
        }
    }

    /// Waits for a place in the service's queue, for all tasks of the line.
    async fn lead(
        self: &Arc<Self>,
        shared: &Arc<Shared>,
        key: Key,
        caller: Caller,
        wait: Wait,
    ) -> Result<Option<Granted<Turn>>> {
        let is_kept = self.is_kept;
        let wanted = OnePlace { queue: &self.queue, mode: self.mode, caller, is_kept };
        let lead = Lead::new(wanted, key);
        let runtime = shared.runtime_of(is_kept).map_err(|error| error.at(&self.queue))?;
        let outcome = match runtime.filter(|_| is_kept) {
            Some(runtime) => TokioContext::new(grant_by(shared, &lead, wait), runtime).await,
            None => grant_by(shared, &lead, wait).await,
        };
        let led = match outcome {
            Ok(Some(led)) => led,
            Ok(None) => return Ok(None),
            Err(error) => {
                let now = shared.clock.now();
                let is_own = wait == Wait::No || wait.deadline(now).is_some_and(|deadline| deadline <= now);
                if !is_own && error.kind() != ErrorKind::Removed {
                    // Else each of them would fail after a whole retry policy, one after the other.
                    self.change(|state| state.fail_before(lead.shared_before(), &error));
                }
                return Err(error);
            }
        };
        let key = lead.into_key();
        let (grant, turn) = {
            let mut state = self.state();
            let (place, grant) = led.into_grant(state.next_grant(), shared);
            let grant = Arc::new(grant);
            state.granted(place, grant.clone());
            // In the same step: a watch that a new waiter starts may end this grant if it is lost already.
            let turn = state.take(key.serial(), grant.number).expect("the key was ours, and the grant is new");
            (grant, turn)
        };
        let granted = self.granted(grant, key.used().1, turn);
        self.watch_if_needed(shared);
        Ok(Some(granted))
    }
}

/// Looks what may be believed of a place at the moment of a grant.
fn worth(grant: &Grant, shared: &Shared) -> Worth {
    let now = shared.clock.now();
    let liveness = grant.standing.liveness_at_turn(now);
    match liveness {
        Liveness::Lost(_) => Worth::Nothing,
        Liveness::Jeopardy { .. } => Worth::Doubtful(liveness),
        Liveness::Held { safe_until } => {
            let left = safe_until.left(now);
            match (left, grant.standing.bond().notice()) {
                (Some(left), Some(notice)) if left < notice => Worth::Doubtful(liveness),
                _ => Worth::Whole,
            }
        }
    }
}
