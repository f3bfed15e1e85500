//! The way of a call to its turn: the key at once or through the line, then a turn of the place that is there, or a new
//! place.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{Caller, Error, ErrorKind, Liveness, Result, Wait};
use tokio_util::context::TokioContext;

use super::grant::Grant;
use super::key::{InLine, Key};
use super::lead::{Lead, Led, lead_at_once};
use super::line::SlotNumber;
use super::state::{Start, Unled};
use super::turn::{LocalGrant, LocalQueue};
use crate::contend::{Granted, OnePlace, Progress, grant_later, grant_since, unanswered};
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

impl LocalQueue {
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
    ) -> Result<Option<Granted<LocalGrant>>> {
        // The moment of the call is the present one until something is waited for.
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
        let mut unled = match start {
            Start::Turn(grant) => match self.take_if_whole(key, &grant, call.begun_at) {
                Ok(granted) => return self.refuse(shared).map(|()| Some(granted)),
                // What seldom happens lies in a box, so that the future of a call is small: it is moved when it
                // is made, and ten thousand of them wait at a time.
                Err(key) => return Box::pin(self.turn(shared, key, call)).await,
            },
            Start::Lead(unled) => unled,
        };
        let mut begun = (Progress::NoPlace(None), None);
        if call.wait != Wait::No && self.refuse(shared).is_ok() {
            let (wanted, progress) = (self.wanted(call.caller), &mut begun.0);
            let lead = |context: &mut Context<'_>| {
                Poll::Ready(lead_at_once(&wanted, shared, &mut unled.pending, progress, context))
            };
            match poll_fn(lead).await {
                Ok(Some(led)) => return self.led(shared, key, led).map(Some),
                Ok(None) => {}
                Err(error) => begun.1 = Some(error),
            }
        }
        Box::pin(self.lead(shared, key, unled, call, begun)).await
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
    fn timed_out(&self, shared: &Shared) -> Result<Option<Granted<LocalGrant>>> {
        if self.state().has_place() || shared.is_held_up(&self.queue) {
            return Ok(None);
        }
        Err(unanswered(shared).at(&self.queue))
    }

    /// Takes a turn with the key, of a grant that may be doubtful.
    async fn turn(
        self: &Arc<Self>,
        shared: &Arc<Shared>,
        mut key: Key,
        mut call: Call,
    ) -> Result<Option<Granted<LocalGrant>>> {
        loop {
            let start = self.state().start();
            let grant = match start {
                Start::Turn(grant) => grant,
                Start::Lead(unled) => {
                    return self.lead(shared, key, unled, call, (Progress::NoPlace(None), None)).await;
                }
            };
            let now = shared.clock.now();
            match worth(&grant, now) {
                Worth::Whole => match self.take(key, &grant, now) {
                    Ok(granted) => return self.refuse(shared).map(|()| Some(granted)),
                    Err(kept) => key = kept,
                },
                Worth::Doubtful(seen) => {
                    if self.renewed(shared, &grant, seen, call.wait).await?.is_none() {
                        return Ok(None);
                    }
                    call.begun_at = shared.clock.now();
                }
                Worth::Nothing => self.change(|state| state.drop_lost(key.serial(), grant.number)),
            }
        }
    }

    /// Waits until something else may be believed of this grant's session than was seen; `None` if the time was up
    /// first.
    async fn renewed(&self, shared: &Shared, grant: &Grant, seen: Liveness, wait: Wait) -> Result<Option<()>> {
        tokio::select! {
            biased;
            had = shared.by(wait, grant.standing.bond().renewed(seen)) => Ok(had),
            closed = shared.until(Stage::Drained) => Err(closed.at(&self.queue)),
        }
    }

    /// Takes a turn of a grant that is worth as much now as one made anew; else the key is returned.
    fn take_if_whole(
        self: &Arc<Self>,
        key: Key,
        grant: &Grant,
        now: BootInstant,
    ) -> std::result::Result<Granted<LocalGrant>, Key> {
        match worth(grant, now) {
            Worth::Whole => self.take(key, grant, now),
            Worth::Doubtful(_) | Worth::Nothing => Err(key),
        }
    }

    /// Takes a turn of this grant; the key is returned if the grant is over.
    fn take(
        self: &Arc<Self>,
        key: Key,
        grant: &Grant,
        now: BootInstant,
    ) -> std::result::Result<Granted<LocalGrant>, Key> {
        let turn = self.state().take(key.serial(), grant.number);
        match turn {
            Some(turn) => Ok(LocalGrant::later(key.used(), grant, turn, now)),
            None => Err(key),
        }
    }

    fn wanted(&self, caller: Caller) -> OnePlace<'_> {
        OnePlace { queue: &self.queue, mode: self.mode, caller, is_kept: self.is_kept, asking: None }
    }

    /// Waits for a place in the service's queue, for all tasks of the line: goes on with what was begun without a wait,
    /// or after its failure.
    async fn lead(
        self: &Arc<Self>,
        shared: &Arc<Shared>,
        key: Key,
        unled: Unled,
        call: Call,
        (progress, failure): (Progress, Option<Error>),
    ) -> Result<Option<Granted<LocalGrant>>> {
        let Call { caller, wait, begun_at } = call;
        let lead = Lead::new(self.wanted(caller), key, unled, u32::from(failure.is_some()));
        let begun = (progress, failure.or_else(|| self.refuse(shared).err()));
        let outcome = {
            let granting = async {
                match wait {
                    Wait::No => grant_since(shared, &lead, wait, begun_at).await,
                    _ => grant_later(shared, &lead, wait, begun_at, begun).await,
                }
            };
            match self.is_kept {
                false => granting.await,
                true => self.in_kept_runtime(shared, granting).await,
            }
        };
        match outcome {
            Ok(Some(led)) => self.led(shared, lead.into_key(), led).map(Some),
            Ok(None) => Ok(None),
            Err(error) => {
                let now = shared.clock.now();
                let is_own = wait == Wait::No || wait.deadline(now).is_some_and(|deadline| deadline <= now);
                if !is_own && error.kind() != ErrorKind::Removed {
                    // Else each of them would fail after a whole retry policy, one after the other.
                    self.change(|state| state.fail_before(lead.shared_before(), &error));
                }
                Err(error)
            }
        }
    }

    /// Takes the first turn of a place that was granted.
    fn led(self: &Arc<Self>, shared: &Arc<Shared>, key: Key, led: Led) -> Result<Granted<LocalGrant>> {
        // What was granted at the moment in which the keeper was drained is given back.
        self.refuse(shared)?;
        led.granted.standing.granted();
        let granted_at = shared.clock.now();
        let (granted, watched) = {
            let mut state = self.state();
            let number = state.next_grant();
            let serial = key.serial();
            let turn = LocalGrant::first(key.used(), &led.granted, (number, granted_at));
            let (place, grant) = led.into_grant(number, granted_at);
            state.granted(place, grant);
            // In the same step: a watch that a new waiter starts may end this grant if it is lost already.
            let _ = state.take(serial, number).expect("the key was ours, and the grant is new");
            (turn, state.watch())
        };
        if let Some(watched) = watched {
            self.watch(shared, watched);
        }
        Ok(granted)
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
fn worth(grant: &Grant, now: BootInstant) -> Worth {
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
