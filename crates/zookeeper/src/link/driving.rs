//! The driver's side of a session: what happens to its connection, its timers, and why connections fail.

use std::collections::BTreeMap;

use bytes::Bytes;
use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{BoxFuture, Error, ErrorKind, Liveness, LossReason, Operation};
use lockkeeper_session::{Failure, LAPSED_IS_ENDED_WITHIN, Server};
use lockkeeper_zk_proto::client::{ClientSession, SessionLoss, SessionState};
use lockkeeper_zk_proto::time::Timestamp;

use crate::link::session::SessionLink;
use crate::link::state::{LinkPhase, LinkState, instant};

/// How many answers and events a single contender waits for at most: the answers of its join, or the events of the
/// watches on its own node and on the one ahead.
const EXPECTED_OF_ONE_MAX: usize = 2;

impl SessionLink {
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
    fn closing_ends_at(&self, state: &LinkState) -> Option<Timestamp> {
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

    /// Takes the last bytes of a driver whose runtime ends: the queued requests, and the end of the session. Nothing if
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

    pub(crate) fn is_over(&self) -> bool {
        self.status_now().phase == LinkPhase::Over
    }

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
        self.status.send_if_modified(|status| std::mem::replace(&mut status.phase, LinkPhase::Over) != LinkPhase::Over);
    }

    pub(crate) fn take_trouble(&self) -> Option<Failure> {
        self.state().trouble.take()
    }

    pub(crate) fn note_failure(&self, server: &Server, failure: Failure) {
        tracing::debug!(target: "lockkeeper", %server, why = %failure, "a connection failed");
        self.with(|state| {
            self.status.send_if_modified(|status| {
                let was_renewing = status.phase == LinkPhase::Renewing;
                if was_renewing {
                    status.phase = LinkPhase::Offline;
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
        self.status_now().phase == LinkPhase::Renewing
    }

    /// Whether no server has made the session yet, and no caller has ended it.
    pub(crate) fn is_opening(&self) -> bool {
        let state = self.state();
        !state.is_done && state.machine.credentials().is_none()
    }

    pub(crate) fn failures(&self) -> BTreeMap<Server, Failure> {
        self.state().failures.clone()
    }

    /// Whether the service itself has ended the session, and all its nodes.
    pub(crate) fn is_ended_by_service(&self) -> bool {
        let state = self.state().machine.state();
        matches!(state, SessionState::Over(reason) if reason != SessionLoss::OutOfReach)
    }

    pub(crate) fn is_refused(&self) -> bool {
        self.state().machine.state() == SessionState::Over(SessionLoss::AuthFailed)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use lockkeeper_core::clock::SystemClock;

    use super::*;
    use crate::config::Config;
    use crate::link::state::LinkStatus;

    #[test]
    fn a_failed_attempt_ends_a_renewal_and_changes_no_other_phase() {
        let config = Config::from_url(&"zk://h1".parse().unwrap()).unwrap();
        for (before, after) in [
            (LinkPhase::Renewing, LinkPhase::Offline),
            (LinkPhase::Offline, LinkPhase::Offline),
            (LinkPhase::Online, LinkPhase::Online),
            (LinkPhase::Over, LinkPhase::Over),
        ] {
            let link = SessionLink::new(&config, Arc::new(SystemClock));
            link.status.send_replace(LinkStatus { phase: before, epoch: 1 });
            let status = link.status();
            link.note_failure(&config.servers()[0], Failure::broken(lockkeeper_session::Effect::None));
            assert_eq!(link.status_now(), LinkStatus { phase: after, epoch: 1 });
            assert_eq!(status.has_changed().unwrap(), before != after, "{before:?}");
        }
    }
}
