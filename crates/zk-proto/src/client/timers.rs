//! Timers: what happens because time passes.

use crate::client::config::SessionConfig;
use crate::client::event::{DisconnectReason, Event, LossReason, RequestError, RequestId, WhyUnanswered, WhyUnsent};
use crate::client::outbox::Aside;
use crate::client::session::{ClientSession, Control, Online, Phase};
use crate::time::Timestamp;

impl ClientSession {
    /// Takes the next event; `None` until there is one.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// When to call [`handle_timeout`](Self::handle_timeout); `None` if there is no timer now.
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        let deadline = self.deadlines.first().map(|(deadline, _)| *deadline);
        let connection = match &self.phase {
            Phase::Offline | Phase::Over(_) => None,
            Phase::Handshake(handshake) => Some(handshake.deadline),
            Phase::Online(online) => [self.ping_due(online), self.silence_deadline(online)].into_iter().flatten().min(),
        };
        [deadline, connection, self.reach_deadline()].into_iter().flatten().min()
    }

    /// Handles the passing of time: gives up requests at their deadlines, connections that have gone silent and a
    /// session that no server went on with, and has a ping sent when one is due.
    ///
    /// Calling it early or often does no harm.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        while let Some((_, id)) = self.deadlines.first().copied().filter(|(deadline, _)| *deadline <= now) {
            self.deadlines.pop_first();
            self.give_up(id);
        }
        if self.reach_deadline().is_some_and(|deadline| deadline <= now) {
            self.lose(LossReason::OutOfReach);
        }
        match &self.phase {
            Phase::Handshake(handshake) if handshake.deadline <= now => {
                self.fail_connection(now, DisconnectReason::HandshakeTimeout);
            }
            Phase::Online(online) if self.silence_deadline(online).is_some_and(|deadline| deadline <= now) => {
                self.fail_connection(now, DisconnectReason::Silent);
            }
            Phase::Online(online) if self.ping_due(online).is_some_and(|due| due <= now) => self.push_ping(now),
            _ => (),
        }
    }

    /// When the next ping is due; `None` while one waits to be handed out.
    fn ping_due(&self, online: &Online) -> Option<Timestamp> {
        let due = online.last_sent_at.after(SessionConfig::ping_after(online.timeout, self.engagement));
        (online.ping_waits_since.is_none() && !online.is_leaving).then_some(due)
    }

    fn push_ping(&mut self, now: Timestamp) {
        if let Phase::Online(online) = &mut self.phase {
            online.control.push_back(Control::Ping);
            online.ping_waits_since = Some(now);
        }
    }

    /// Gives up a request at its deadline.
    fn give_up(&mut self, id: RequestId) {
        if let Some(unsent) = self.outbox.remove(id) {
            if matches!(unsent.open.aside, Aside::Watch) {
                self.watches.forget(id.watch());
            }
            self.tell_failure(id, RequestError::NotSent(WhyUnsent::Deadline));
        } else if let Some(open) = self.in_flight.open.remove(&id) {
            self.fail_sent(id, &open, WhyUnanswered::Deadline);
        }
    }
}
