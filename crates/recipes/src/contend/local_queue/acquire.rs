//! The way of a call to its turn: the key at once or through the line, then a turn of the place that is there, or a new
//! place.

use std::sync::Arc;

use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{Caller, ContenderId, ErrorKind, Liveness, LivenessAt, QueueView, Result, Wait};
use tokio_util::context::TokioContext;

use crate::contend::local_queue::key::Leader;
use crate::contend::local_queue::key::{LineWait, TurnKey};
use crate::contend::local_queue::line::SlotNumber;
use crate::contend::local_queue::state::{GrantedPlace, SharedGrant};
use crate::contend::local_queue::state::{PendingLeader, Start};
use crate::contend::local_queue::{LocalGrant, LocalQueue};
use crate::contend::{Granted, OnePlace, grant, unanswered};
use crate::shared::{KeeperStage, Shared};

/// What a call finds that asks for the key.
enum KeyAnswer {
    Key(TurnKey, Start),
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
    /// Those of [`grant`]; the failure of another task that led for all.
    pub(crate) async fn acquire(
        self: &Arc<Self>,
        shared: &Arc<Shared>,
        caller: &Caller,
        wait: Wait,
        called_at: BootInstant,
    ) -> Result<Option<Granted<LocalGrant>>> {
        // The moment of the call is the present one until something is waited for.
        let mut call = TurnCall { caller, wait: wait.starting(called_at), begun_at: called_at };
        let asked = match call.wait {
            Wait::No => self.ask_at_once(),
            _ => Some(self.ask(*caller)),
        };
        let (key, start) = match asked {
            Some(KeyAnswer::Key(key, start)) => (key, start),
            None => return self.refuse(shared).map(|()| None),
            Some(KeyAnswer::Line(slot)) => {
                let line = LineWait::new(self.clone(), slot);
                self.watch_if_needed(shared);
                // Once it stands in line: a keeper that is closed from now on fails the line, an earlier one this.
                self.refuse(shared)?;
                let key = match shared.by(call.wait, line).await {
                    Some(key) => key?,
                    None => return self.timed_out(shared),
                };
                call.begun_at = shared.clock.now();
                let start = self.state.lock().start();
                (key, start)
            }
        };
        let left = match start {
            Start::Turn(grant) => match self.take_if_whole(key, grant, call.begun_at) {
                Ok(granted) => return self.refuse(shared).map(|()| Some(granted)),
                // What seldom happens lies in a box, so that the future of a call is small: it is moved when it
                // is made, and ten thousand of them wait at a time.
                Err(key) => return Box::pin(self.turn(shared, key, call)).await,
            },
            Start::Lead(left) => left,
        };
        self.lead(shared, key, left, &call).await
    }

    fn ask(self: &Arc<Self>, caller: Caller) -> KeyAnswer {
        let mut state = self.state.lock();
        match state.take_key() {
            Some(serial) => KeyAnswer::Key(TurnKey::new(self.clone(), serial), state.start()),
            None => KeyAnswer::Line(state.line.push(caller)),
        }
    }

    /// Asks without standing in line.
    fn ask_at_once(self: &Arc<Self>) -> Option<KeyAnswer> {
        let mut state = self.state.lock();
        let serial = state.take_key()?;
        Some(KeyAnswer::Key(TurnKey::new(self.clone(), serial), state.start()))
    }

    fn refuse(&self, shared: &Shared) -> Result<()> {
        shared.refuse_from(KeeperStage::Drained).map_err(|closed| closed.at(&self.queue))
    }

    /// What a call is told whose time was up in the line.
    fn timed_out(&self, shared: &Shared) -> Result<Option<Granted<LocalGrant>>> {
        if self.state.lock().has_place() || shared.is_held_up(&self.queue) {
            return Ok(None);
        }
        Err(unanswered(shared).at(&self.queue))
    }

    /// Takes a turn with the key, of a grant that may be doubtful.
    async fn turn(
        self: &Arc<Self>,
        shared: &Arc<Shared>,
        mut key: TurnKey,
        mut call: TurnCall<'_>,
    ) -> Result<Option<Granted<LocalGrant>>> {
        loop {
            let start = self.state.lock().start();
            let grant = match start {
                Start::Turn(grant) => grant,
                Start::Lead(left) => {
                    return self.lead(shared, key, left, &call).await;
                }
            };
            let now = shared.clock.now();
            match worth(&grant, now) {
                Worth::Whole => match self.take(key, grant, now) {
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
    async fn renewed(&self, shared: &Shared, grant: &SharedGrant, seen: Liveness, wait: Wait) -> Result<Option<()>> {
        tokio::select! {
            biased;
            had = shared.by(wait, grant.session.bond().renewed(seen)) => Ok(had),
            closed = shared.until(KeeperStage::Drained) => Err(closed.at(&self.queue)),
        }
    }

    /// Takes a turn of a grant that is worth as much now as one made anew; else the key is returned.
    fn take_if_whole(
        self: &Arc<Self>,
        key: TurnKey,
        grant: Arc<SharedGrant>,
        now: BootInstant,
    ) -> std::result::Result<Granted<LocalGrant>, TurnKey> {
        match worth(&grant, now) {
            Worth::Whole => self.take(key, grant, now),
            Worth::Doubtful(_) | Worth::Nothing => Err(key),
        }
    }

    /// Takes a turn of this grant; the key is returned if the grant is over.
    fn take(
        self: &Arc<Self>,
        key: TurnKey,
        grant: Arc<SharedGrant>,
        now: BootInstant,
    ) -> std::result::Result<Granted<LocalGrant>, TurnKey> {
        let turn = self.state.lock().take(key.serial(), grant.number);
        match turn {
            Some(turn) => Ok(LocalGrant::turn(key.used(), grant, turn, now)),
            None => Err(key),
        }
    }

    fn wanted(&self, caller: Caller) -> OnePlace<'_> {
        OnePlace { queue: &self.queue, mode: self.mode, caller, is_kept: self.is_kept, asking: None }
    }

    /// Waits for a place in the service's queue, for all tasks of the line, and takes its first turn.
    async fn lead(
        self: &Arc<Self>,
        shared: &Arc<Shared>,
        key: TurnKey,
        left: PendingLeader,
        &TurnCall { caller, wait, begun_at }: &TurnCall<'_>,
    ) -> Result<Option<Granted<LocalGrant>>> {
        let mut leader = Leader::new(self.wanted(*caller), key, left);
        let outcome = if self.is_kept {
            let granting = grant(shared, &self.queue, &mut leader, wait, Some(begun_at));
            Box::pin(self.in_kept_runtime(shared, granting)).await
        } else {
            grant(shared, &self.queue, &mut leader, wait, Some(begun_at)).await
        };
        match outcome {
            Ok(Some((granted, view))) => Ok(Some(self.first_turn(shared, leader.into_key(), granted, view))),
            Ok(None) => Ok(None),
            Err(error) => {
                let now = shared.clock.now();
                let is_own = wait == Wait::No || wait.deadline(now).is_some_and(|deadline| deadline <= now);
                if !is_own && error.kind() != ErrorKind::Removed {
                    // Else each of them would fail after a whole retry policy, one after the other.
                    self.change(|state| state.fail_before(leader.shared_before(), &error));
                }
                Err(error)
            }
        }
    }

    /// Takes the first turn of a place that was granted, where the queue at the join may tell that it is alone.
    fn first_turn(
        self: &Arc<Self>,
        shared: &Arc<Shared>,
        key: TurnKey,
        Granted { place, grant }: Granted,
        view: QueueView,
    ) -> Granted<LocalGrant> {
        grant.standing.granted();
        let (session, granted_at) = (place.session().clone(), shared.clock.now());
        let alone = is_alone(&grant.id, &view).then_some(view);
        let (grant, watched) = {
            let mut state = self.state.lock();
            let grant = Arc::new(SharedGrant { number: state.next_grant(), grant, session, granted_at, alone });
            state.granted(GrantedPlace { place, grant: grant.clone() });
            // In the same step: a watch that a new waiter starts may end this grant if it is lost already.
            let _ = state.take(key.serial(), grant.number).expect("the key was ours, and the grant is new");
            (grant, state.watch())
        };
        if let Some(watched) = watched {
            self.watch(shared, watched);
        }
        LocalGrant::turn(key.used(), grant, 0, granted_at)
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
struct TurnCall<'a> {
    caller: &'a Caller,
    wait: Wait,
    /// Since when no other task is waited for: from then on the retry policy counts.
    begun_at: BootInstant,
}

/// Tells whether no other contender was in the queue.
fn is_alone(id: &ContenderId, view: &QueueView) -> bool {
    view.omitted == 0 && view.elsewhere.is_none() && matches!(&view.contenders[..], [only] if only.id == *id)
}

/// Looks what may be believed of a place at the moment of a grant.
fn worth(grant: &SharedGrant, now: BootInstant) -> Worth {
    let liveness = grant.grant.standing.liveness(LivenessAt::Turn(now));
    match liveness {
        Liveness::Lost(_) => Worth::Nothing,
        Liveness::Jeopardy { .. } => Worth::Doubtful(liveness),
        Liveness::Held { safe_until } => {
            let left = safe_until.left(now);
            match (left, grant.session.bond().notice()) {
                (Some(left), Some(notice)) if left < notice => Worth::Doubtful(liveness),
                _ => Worth::Whole,
            }
        }
    }
}
