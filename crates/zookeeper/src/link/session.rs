//! One session, shared by the task with the socket and its users.
//!
//! Requests are handed to the machine where they are made, so that they go out in the order of the calls; proofs and
//! deletions go before those that are not written yet. The driver is woken and moves bytes. Answers are routed under
//! the same lock, in the order of their arrival.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use lockkeeper_core::clock::{BootInstant, Clock};
use lockkeeper_core::{
    BoxFuture, Error, ErrorKind, Liveness, LossReason, Operation, SafeUntil, SessionBond, SessionTimeout,
};
use lockkeeper_session::{Failure, LAPSED_IS_ENDED_WITHIN, Server};
use lockkeeper_zk_proto::client::{
    AnchorConfig, ClientSession, Engagement, LossReason as MachineLoss, SessionConfig, SessionState,
};
use lockkeeper_zk_proto::message::Auth;
use lockkeeper_zk_proto::path::Chroot;
use lockkeeper_zk_proto::time::Timestamp;
use tokio::sync::{Notify, watch};

use crate::config::Config;
use crate::link::length::ANSWER_BYTES_MAX;
use crate::link::state::State;

/// How many answers and events a single contender waits for at most: those of its join, or of the watches on its own
/// node and on the one ahead.
const EXPECTED_OF_ONE_MAX: usize = 2;

/// How a session stands with the service; callers wait for a change of it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Phase {
    /// There is no connection, or none on which requests go out.
    Offline,
    /// There is no connection, because a new one was asked for. No attempt at it has failed yet.
    Renewing,
    /// Requests go out; watches of the connection before are being set again.
    Online,
    /// Requests go out, and what was missed has been told.
    Restored,
    /// The session is over for good. Its end may still have to be told to the service.
    Over,
}

impl Phase {
    /// Whether requests go out now.
    pub(crate) const fn is_online(self) -> bool {
        matches!(self, Self::Online | Self::Restored)
    }
}

/// The phase, and the connection it is about.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Status {
    pub(crate) phase: Phase,
    /// Counts connections from 1.
    pub(crate) epoch: u64,
}

/// One session, shared.
pub(crate) struct Link {
    state: Mutex<State>,
    /// Wakes the driver.
    pub(crate) wake: Notify,
    status: watch::Sender<Status>,
    pub(crate) bond: SessionBond,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) chroot: Chroot,
    timeout_wanted: Duration,
    /// How long one request may take.
    pub(crate) operation_time_max: Duration,
    pub(super) anchor: AnchorConfig,
}

impl Link {
    pub(crate) fn new(config: &Config, clock: Arc<dyn Clock>) -> Self {
        let anchor = AnchorConfig::new(config.tick);
        let machine_config =
            SessionConfig::new(config.session_timeout).with_anchor(anchor).with_frame_bytes_max(ANSWER_BYTES_MAX);
        let mut state = State::new(machine_config);
        // Frequent pings all the time: a lock asked for after a quiet minute is granted on the strength of the last
        // one.
        state.machine.engage(Engagement::Engaged);
        if let Some(digest) = &config.digest {
            let auth = Auth { scheme: "digest".to_owned(), credentials: Bytes::from(digest.clone()) };
            state.machine.add_auth(auth).expect("one credential of a URL's length fits");
        }
        Self {
            state: Mutex::new(state),
            wake: Notify::new(),
            status: watch::Sender::new(Status { phase: Phase::Offline, epoch: 0 }),
            bond: SessionBond::new(clock.clone(), SafeUntil::ProcessEnd),
            clock,
            chroot: Chroot::new(config.chroot.clone()),
            timeout_wanted: config.session_timeout,
            operation_time_max: config.operation_timeout,
            anchor,
        }
    }

    pub(crate) fn status(&self) -> watch::Receiver<Status> {
        self.status.subscribe()
    }

    /// Waits until the session's status fulfils a condition, and no longer than until it is over.
    pub(crate) async fn until(&self, stands: impl Fn(Status) -> bool + Send + Sync) -> Status {
        let mut status = self.status.subscribe();
        let settled = status.wait_for(|status| status.phase == Phase::Over || stands(*status)).await;
        // The sender is ours, so this never fails.
        settled.map_or(Status { phase: Phase::Over, epoch: 0 }, |status| *status)
    }

    pub(crate) fn status_now(&self) -> Status {
        *self.status.borrow()
    }

    /// Returns the session's number once there is one.
    pub(crate) fn session_id(&self) -> Option<i64> {
        self.state().machine.credentials().map(|credentials| credentials.session_id)
    }

    /// Returns the least timeout ever granted, or the one asked for while none was.
    pub(crate) fn timeout(&self) -> Duration {
        self.state().machine.anchor().timeout_least().unwrap_or(self.timeout_wanted)
    }

    /// Returns what was asked for and the least that was ever granted.
    pub(crate) fn timeouts(&self) -> SessionTimeout {
        SessionTimeout { asked: self.timeout_wanted, granted: self.timeout() }
    }

    /// Returns until when the service has certainly not ended the session; `None` while nothing is proved.
    pub(crate) fn safe_until(&self) -> Option<BootInstant> {
        self.state().machine.safe_until().map(instant)
    }

    /// Returns when the last write that reached the quorum was asked for on this connection.
    pub(crate) fn last_write_at(&self) -> Option<BootInstant> {
        self.state().last_write_at.map(instant)
    }

    /// Has a future run by the session's task; it must end when the session is over. Needs no runtime here.
    pub(crate) fn adopt(&self, chore: BoxFuture<()>) {
        let refused = self.with(|state| match state.is_done {
            false => {
                state.chores.push(chore);
                None
            }
            true => Some(chore),
        });
        // Dropped outside the lock: it may hold calls.
        drop(refused);
        self.wake.notify_one();
    }

    /// Moves to a new connection if this process has stood still on this one, since a handshake proves at once what
    /// takes half a tick otherwise. Returns whether it does. No request fails for it.
    pub(crate) fn renew(&self, epoch: u64) -> bool {
        let now = self.now();
        let is_renewed = self.with(|state| state.machine.epoch().number() == epoch && state.machine.renew(now));
        self.wake.notify_one();
        is_renewed
    }

    /// Counts one more place whose standing depends on this session: from now on the bond has a deadline.
    pub(crate) fn depend(&self) {
        self.with(|state| {
            state.dependents += 1;
            state.is_resting = false;
        });
    }

    /// Counts one less.
    pub(crate) fn remove_dependent(&self) {
        let mut state = self.state();
        state.dependents = state.dependents.saturating_sub(1);
    }

    /// Takes the deadline off the bond if no place depends on the session; returns whether that is so.
    pub(crate) fn rest(&self) -> bool {
        self.with(|state| {
            state.is_resting = state.dependents == 0;
            state.is_resting
        })
    }

    /// Ends the session: everything asked for before goes first; the bond is lost at once.
    pub(crate) fn close(&self) {
        self.bond.lose(LossReason::Closed);
        let now = self.now();
        self.with(|state| {
            state.closing_since.get_or_insert(now);
            state.machine.close();
        });
        self.wake.notify_one();
    }

    /// Ends a session that cannot be believed any more, and fails all that was asked for under it.
    pub(crate) fn abandon(&self) {
        self.close();
        let dropped = self.with(State::take_waiters);
        drop(dropped);
    }

    pub(super) fn now(&self) -> Timestamp {
        Timestamp::from_nanos(self.clock.now().as_nanos())
    }

    /// No code panics while the state is locked, so a panic elsewhere leaves it whole.
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state, then tells the waiting callers about it.
    pub(super) fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state();
        let result = act(&mut state);
        // Before a caller is told of the connection, so that it finds the notice.
        if let Some(timeout) = state.take_new_timeout() {
            self.bond.set_notice(self.notice_under(timeout));
        }
        state.route_events(&self.status, &self.bond);
        state.publish(self.status_now().phase, &self.bond);
        result
    }
}

/// What only the driver does.
impl Link {
    /// Has the machine take what happened to its connection.
    pub(crate) fn drive(&self, happened: impl FnOnce(&mut ClientSession, Timestamp)) {
        let now = self.now();
        self.with(|state| happened(&mut state.machine, now));
    }

    /// How many requests wait to be written, if no proof does and others may come at once.
    pub(crate) fn gathered(&self) -> Option<usize> {
        let state = self.state();
        (!state.machine.has_urgent() && state.expected() > EXPECTED_OF_ONE_MAX).then(|| state.machine.queued())
    }

    /// Whether so many calls are under way, or contenders of ours wait, that an answer may set several of them going.
    pub(crate) fn is_crowded(&self) -> bool {
        self.state().expected() > EXPECTED_OF_ONE_MAX
    }

    pub(crate) fn handle_timeout(&self) {
        let now = self.now();
        self.with(|state| state.machine.handle_timeout(now));
        let is_due = self.closing_ends_at(&self.state()).is_some_and(|end| end <= now);
        match is_due {
            true if self.goes_on_closing() => self.tell_over(),
            true => self.end(),
            false => {}
        }
    }

    /// When closing is given up as far as callers wait for it, and then as a whole: the service could not be told.
    fn closing_ends_at(&self, state: &State) -> Option<Timestamp> {
        let patience = match self.is_over() {
            true => LAPSED_IS_ENDED_WITHIN,
            false => state.machine.anchor().timeout_least().unwrap_or(self.timeout_wanted),
        };
        state.closing_since.map(|since| since.after(patience))
    }

    /// Whether closing goes on for [`LAPSED_IS_ENDED_WITHIN`] once callers do not wait for it any more.
    fn goes_on_closing(&self) -> bool {
        !self.is_over() && self.bond.liveness() == Liveness::Lost(LossReason::Lapsed)
    }

    /// Takes the bytes to be written next.
    pub(crate) fn poll_transmit(&self) -> Bytes {
        let now = self.now();
        self.with(|state| state.machine.poll_transmit(now)).unwrap_or_default()
    }

    /// Takes the last bytes of a driver whose runtime ends: what was asked for, and the end of the session. Nothing if
    /// there is no connection on which they could go.
    pub(crate) fn farewell(&self) -> Bytes {
        let now = self.now();
        self.bond.lose(LossReason::Closed);
        self.state().machine.farewell(now).unwrap_or_default()
    }

    pub(crate) fn poll_timeout(&self) -> Option<BootInstant> {
        let state = self.state();
        [state.machine.poll_timeout(), self.closing_ends_at(&state)].into_iter().flatten().min().map(instant)
    }

    /// Whether the present connection is still of use.
    pub(crate) fn is_attached(&self) -> bool {
        let state = self.state();
        !state.is_done && matches!(state.machine.state(), SessionState::Handshake | SessionState::Online)
    }

    /// Whether the session is over for its callers.
    pub(crate) fn is_over(&self) -> bool {
        self.status_now().phase == Phase::Over
    }

    /// Whether the driver has nothing more to do.
    pub(crate) fn is_finished(&self) -> bool {
        let state = self.state();
        state.is_done || matches!(state.machine.state(), SessionState::Over(_))
    }

    pub(crate) fn take_chores(&self) -> Vec<BoxFuture<()>> {
        std::mem::take(&mut self.state().chores)
    }

    /// Notes that no task moves bytes any more: all callers that still wait are told.
    pub(crate) fn end(&self) {
        self.bond.lose(LossReason::Closed);
        let (waiters, chores) = self.with(|state| {
            state.is_done = true;
            state.machine.close();
            (state.take_waiters(), std::mem::take(&mut state.chores))
        });
        drop((waiters, chores));
        self.tell_over();
    }

    fn tell_over(&self) {
        self.status.send_if_modified(|status| std::mem::replace(&mut status.phase, Phase::Over) != Phase::Over);
    }

    /// Returns why the last connection failed, if it did.
    pub(crate) fn take_trouble(&self) -> Option<Failure> {
        self.state().trouble.take()
    }

    /// Notes why a server could not be used.
    pub(crate) fn note_failure(&self, server: &Server, failure: Failure) {
        tracing::debug!(target: "lockkeeper", %server, why = %failure, "a connection failed");
        self.with(|state| {
            self.status.send_if_modified(|status| {
                let was_renewing = status.phase == Phase::Renewing;
                if was_renewing {
                    status.phase = Phase::Offline;
                }
                was_renewing
            });
            state.last_failure = Some(format!("{server}: {failure}"));
            state.failures.insert(server.clone(), failure);
        });
    }

    /// Says why the last attempt at a connection failed, unless there is a connection.
    pub(crate) fn trouble(&self) -> Option<Error> {
        let state = self.state();
        let why = state.last_failure.clone().filter(|_| !state.machine.state().is_online())?;
        Some(Error::transient(ErrorKind::ConnectionLost, Operation::Connect, why))
    }

    /// Forgets why a server could not be used by other ways than these: names lead elsewhere as time goes by.
    pub(crate) fn forget_failures_but(&self, server: &Server, ways: &[Server]) {
        self.state().failures.retain(|failed, _| !server.is_reached_by(failed) || ways.contains(failed));
    }

    /// Whether there is no connection because a new one was asked for.
    pub(crate) fn is_renewing(&self) -> bool {
        self.status_now().phase == Phase::Renewing
    }

    /// Whether no server has made the session yet, and no caller has ended it.
    pub(crate) fn is_opening(&self) -> bool {
        let state = self.state();
        !state.is_done && state.machine.credentials().is_none()
    }

    /// Returns each way that could not be used, and why.
    pub(crate) fn failures(&self) -> BTreeMap<Server, Failure> {
        self.state().failures.clone()
    }

    /// Whether the service itself has ended the session, and all that was made under it.
    pub(crate) fn is_ended_by_service(&self) -> bool {
        let state = self.state().machine.state();
        matches!(state, SessionState::Over(reason) if reason != MachineLoss::OutOfReach)
    }

    /// Whether the service refused our credentials.
    pub(crate) fn is_refused(&self) -> bool {
        self.state().machine.state() == SessionState::Over(MachineLoss::AuthFailed)
    }
}

pub(super) fn instant(timestamp: Timestamp) -> BootInstant {
    BootInstant::from_nanos(timestamp.as_nanos())
}

impl fmt::Debug for Link {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Link").field("status", &self.status_now()).field("bond", &self.bond).finish()
    }
}

#[cfg(test)]
mod tests {
    use lockkeeper_core::clock::SystemClock;

    use super::*;

    #[test]
    fn a_failed_attempt_ends_a_renewal_and_changes_no_other_phase() {
        let config = Config::from_url(&"zk://h1".parse().unwrap()).unwrap();
        for (before, after) in [
            (Phase::Renewing, Phase::Offline),
            (Phase::Offline, Phase::Offline),
            (Phase::Online, Phase::Online),
            (Phase::Over, Phase::Over),
        ] {
            let link = Link::new(&config, Arc::new(SystemClock));
            link.status.send_replace(Status { phase: before, epoch: 1 });
            let status = link.status();
            link.note_failure(&config.servers()[0], Failure::broken(lockkeeper_session::Effect::None));
            assert_eq!(link.status_now(), Status { phase: after, epoch: 1 });
            assert_eq!(status.has_changed().unwrap(), before != after, "{before:?}");
        }
    }
}
