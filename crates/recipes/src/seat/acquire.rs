//! The way of a call to its turn: the key at once or through the line, then a turn of the place that is there, or a new
//! place.

use std::pin::pin;
use std::sync::Arc;

use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{Caller, ErrorKind, Liveness, Result, Wait};
use tokio::task::coop;
use tokio_util::context::TokioContext;

use super::key::{InLine, Key};
use super::lead::Lead;
use super::line::SlotNumber;
use super::state::{Grant, Start, Unled};
use super::turn::{Seat, Turn};
use crate::contend::{Granted, OnePlace, grant_since, unanswered};
use crate::shared::{Shared, Stage};

/// What a call finds that asks for the key.
enum Asked {
    Key(Key, Start),
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
        called_at: BootInstant,
    ) -> Result<Option<Granted<Turn>>> {
        // A task that takes turn after turn gives other tasks of its thread theirs.
        coop::consume_budget().await;
        let mut call = Call { caller, wait: wait.starting(called_at), begun_at: called_at };
        let asked = match call.wait {
            Wait::No => self.ask_at_once(),
            _ => Some(self.ask(caller)),
        };
        let (key, start) = match asked {
            Some(Asked::Key(key, start)) => (key, start),
            None => return self.refuse(shared).map(|()| None),
            Some(Asked::Line(slot)) => {
                let line = InLine::new(self.clone(), slot);
                self.watch_if_needed(shared);
                // Once it stands in line: a keeper that is closed from now on fails the line, an earlier one this.
                self.refuse(shared)?;
                let key = match shared.by(call.wait, line).await {
                    Some(key) => key?,
                    None => return self.timed_out(shared),
                };
                call.begun_at = shared.clock.now();
                let start = self.state().start();
                (key, start)
            }
        };
        self.turn(shared, key, start, call).await
    }

    fn ask(self: &Arc<Self>, caller: Caller) -> Asked {
        let mut state = self.state();
        match state.take_key() {
            Some(serial) => Asked::Key(Key::new(self.clone(), serial), state.start()),
            None => Asked::Line(state.line.push(caller)),
        }
    }

    /// Asks without standing in line.
    fn ask_at_once(self: &Arc<Self>) -> Option<Asked> {
        let mut state = self.state();
        let serial = state.take_key()?;
        Some(Asked::Key(Key::new(self.clone(), serial), state.start()))
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
        mut start: Start,
        mut call: Call,
    ) -> Result<Option<Granted<Turn>>> {
        loop {
            let grant = match start {
                Start::Turn(grant) => grant,
                Start::Lead(unled) => return self.lead(shared, key, unled, call).await,
            };
            match worth(&grant, shared) {
                Worth::Whole => match self.take(key, grant) {
                    Ok(granted) => return self.refuse(shared).map(|()| Some(granted)),
                    Err(kept) => key = kept,
                },
                Worth::Doubtful(seen) => {
                    let renewed = Box::pin(grant.standing.bond().renewed(seen));
                    let is_over = tokio::select! {
                        biased;
                        had = shared.by(call.wait, renewed) => had.is_none(),
                        closed = shared.until(Stage::Drained) => return Err(closed.at(&self.queue)),
                    };
                    if is_over {
                        return Ok(None);
                    }
                    call.begun_at = shared.clock.now();
                }
                Worth::Nothing => self.change(|state| state.drop_lost(key.serial(), grant.number)),
            }
            start = self.state().start();
        }
    }

    /// Takes a turn of this grant; the key is returned if the grant is over.
    fn take(self: &Arc<Self>, key: Key, grant: Arc<Grant>) -> std::result::Result<Granted<Turn>, Key> {
        let turn = self.state().take(key.serial(), grant.number);
        match turn {
            Some(turn) => Ok(Turn::granted(key.used(), grant, turn)),
            None => Err(key),
        }
    }

    /// Waits for a place in the service's queue, for all tasks of the line.
    async fn lead(
        self: &Arc<Self>,
        shared: &Arc<Shared>,
        key: Key,
        unled: Unled,
        call: Call,
    ) -> Result<Option<Granted<Turn>>> {
        let (Call { caller, wait, begun_at }, is_kept) = (call, self.is_kept);
        let wanted = OnePlace { queue: &self.queue, mode: self.mode, caller, is_kept, asking: None };
        let lead = Lead::new(wanted, key, unled);
        let outcome = {
            let granting = pin!(grant_since(shared, &lead, wait, begun_at));
            match is_kept {
                false => granting.await,
                true => self.in_kept_runtime(shared, granting).await,
            }
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
        let (grant, turn, watched) = {
            let mut state = self.state();
            let (place, grant) = led.into_grant(state.next_grant(), shared);
            let grant = Arc::new(grant);
            state.granted(place, grant.clone());
            // In the same step: a watch that a new waiter starts may end this grant if it is lost already.
            let turn = state.take(key.serial(), grant.number).expect("the key was ours, and the grant is new");
            (grant, turn, state.watch())
        };
        let granted = Turn::granted(key.used(), grant, turn);
        if let Some(watched) = watched {
            self.watch(shared, watched);
        }
        Ok(Some(granted))
    }

    /// Waits for a place that is kept, in the runtime of such places.
    async fn in_kept_runtime<T>(&self, shared: &Shared, granting: impl Future<Output = Result<T>> + Send) -> Result<T> {
        match shared.runtime_of(true).map_err(|error| error.at(&self.queue))? {
            Some(runtime) => Box::pin(TokioContext::new(granting, runtime)).await,
            None => granting.await,
        }
    }
}

/// A call for a turn.
#[derive(Clone, Copy)]
struct Call {
    caller: Caller,
    wait: Wait,
    /// Since when no other task is waited for: from then on the retry policy counts.
    begun_at: BootInstant,
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
