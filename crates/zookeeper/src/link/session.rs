//! One session, shared by the task with the socket and its users.
//!
//! Requests are handed to the machine where they are made, so that they go out in the order of the calls; proofs and
//! deletions go before all unwritten ones. The driver is woken and moves bytes. Answers are routed under
//! the same lock, in the order of their arrival.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use lockkeeper_core::clock::{BootInstant, Clock};
use lockkeeper_core::{BoxFuture, LossReason, SafeUntil, SessionBond, SessionTimeout};
use lockkeeper_session::holding_interval;
use lockkeeper_zk_proto::client::{AnchorConfig, SessionConfig};
use lockkeeper_zk_proto::message::Auth;
use lockkeeper_zk_proto::path::Chroot;
use lockkeeper_zk_proto::time::Timestamp;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, watch};

use crate::config::Config;
use crate::link::state::{LinkPhase, LinkState, LinkStatus, instant};

/// The longest answer that is read, in bytes: a list of a million contenders. Servers bound what they take and not what
/// they send, so a queue that they hold can be longer than a request.
const ANSWER_BYTES_MAX: usize = 64 << 20;

pub(crate) struct SessionLink {
    state: Mutex<LinkState>,
    pub(crate) wake: Notify,
    pub(super) status: watch::Sender<LinkStatus>,
    pub(crate) bond: SessionBond,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) chroot: Chroot,
    pub(super) timeout_wanted: Duration,
    pub(crate) operation_time_max: Duration,
    anchor: AnchorConfig,
}

impl SessionLink {
    pub(crate) fn new(config: &Config, clock: Arc<dyn Clock>) -> Self {
        let anchor = AnchorConfig::new(config.tick);
        let machine_config =
            SessionConfig::new(config.session_timeout).with_anchor(anchor).with_frame_bytes_max(ANSWER_BYTES_MAX);
        let mut state = LinkState::new(machine_config);
        if let Some(digest) = &config.digest {
            let auth = Auth { scheme: "digest".to_owned(), credentials: Bytes::from(digest.clone()) };
            state.machine.add_auth(auth).expect("one credential of a URL's length fits");
        }
        Self {
            state: Mutex::new(state),
            wake: Notify::new(),
            status: watch::Sender::new(LinkStatus { phase: LinkPhase::Offline, epoch: 0 }),
            bond: SessionBond::new(clock.clone(), SafeUntil::ProcessEnd),
            clock,
            chroot: Chroot::new(config.chroot.clone()),
            timeout_wanted: config.session_timeout,
            operation_time_max: config.operation_timeout,
            anchor,
        }
    }

    pub(crate) fn status(&self) -> watch::Receiver<LinkStatus> {
        self.status.subscribe()
    }

    pub(crate) async fn until(&self, stands: impl Fn(LinkStatus) -> bool + Send + Sync) -> LinkStatus {
        let mut status = self.status.subscribe();
        let settled = status.wait_for(|status| status.phase == LinkPhase::Over || stands(*status)).await;
        // The sender is ours, so this never fails.
        settled.map_or(LinkStatus { phase: LinkPhase::Over, epoch: 0 }, |status| *status)
    }

    pub(crate) fn status_now(&self) -> LinkStatus {
        *self.status.borrow()
    }

    pub(crate) fn session_id(&self) -> Option<i64> {
        self.state().machine.credentials().map(|credentials| credentials.session_id)
    }

    /// Returns the least timeout ever granted, or the one asked for while none was.
    pub(crate) fn timeout(&self) -> Duration {
        self.state().machine.anchor().timeout_least().unwrap_or(self.timeout_wanted)
    }

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

    /// Ends a session that cannot be believed any more, and fails all its requests.
    pub(crate) fn abandon(&self) {
        self.close();
        let dropped = self.with(LinkState::take_waiters);
        drop(dropped);
    }

    pub(super) fn now(&self) -> Timestamp {
        Timestamp::from_nanos(self.clock.now().as_nanos())
    }

    /// No code panics while the state is locked, so a panic elsewhere leaves it whole.
    pub(super) fn state(&self) -> MutexGuard<'_, LinkState> {
        self.state.lock()
    }

    /// Changes the state, then tells the waiting callers about it.
    pub(super) fn with<T>(&self, act: impl FnOnce(&mut LinkState) -> T) -> T {
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

impl fmt::Debug for SessionLink {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("SessionLink").field("status", &self.status_now()).field("bond", &self.bond).finish()
    }
}

/// By how much a proof is worth less than the timeout, besides its own bounds: this part of the timeout, for the time
/// between two pings and as much again for the way.
const WORTH_DIVISOR: u32 = 5;

impl SessionLink {
    /// Returns for how long the session should be believed at least when a lock is granted: half of its timeout, or
    /// what a proof is worth if that is less.
    pub(crate) fn worth_granting(&self) -> Duration {
        self.worth_of_proof().min(self.timeout() / 2)
    }

    /// Returns for how long a proof lets the session be believed at least, from the moment at which it was sent.
    pub(crate) fn worth_of_proof(&self) -> Duration {
        self.worth_under(self.timeout())
    }

    fn worth_under(&self, timeout: Duration) -> Duration {
        let paid = self.anchor.span(timeout) + self.anchor.margin(timeout) + timeout / WORTH_DIVISOR;
        timeout.saturating_sub(paid)
    }

    /// Returns how long before its deadline a holder certainly learns that proofs fail. At worst, what a proof is worth
    /// is used up by the time until the next one.
    fn notice_under(&self, timeout: Duration) -> Duration {
        self.worth_under(timeout).saturating_sub(holding_interval(timeout))
    }
}

#[cfg(test)]
mod tests {
    use lockkeeper_core::clock::SystemClock;

    use super::*;

    #[test]
    fn a_holder_is_warned_earlier_the_longer_its_session_and_the_shorter_its_tick() {
        // Of the timeout: tick/2 + 100 ms, 100 ms + T/50, T/5, and the time to the next proof.
        for (settings, notice_ms) in [
            ("session_timeout=20s&tick=2s", 20_000 - 1_100 - 500 - 4_000 - 3_000),
            ("session_timeout=20s", 20_000 - 5_100 - 500 - 4_000 - 3_000),
            ("session_timeout=60s&tick=2s", 60_000 - 1_100 - 1_300 - 12_000 - 3_000),
            ("session_timeout=6s&tick=2s", 6_000 - 1_100 - 220 - 1_200 - 1_000),
            ("session_timeout=3s&tick=4s", 0),
        ] {
            let config = Config::from_url(&format!("zk://h?{settings}").parse().unwrap()).unwrap();
            let link = SessionLink::new(&config, Arc::new(SystemClock));
            assert_eq!(link.notice_under(link.timeout()), Duration::from_millis(notice_ms), "{settings}");
        }
    }
}
