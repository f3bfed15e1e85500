//! Until when a session may be believed to live: the anchor.
//!
//! A reply to a ping proves nothing about the ensemble: a follower that is cut off from its leader goes on answering
//! pings and reads for several ticks, while the leader, which alone ends sessions, gets no sign of life and ends ours.
//! An acknowledged write proves that the path from the follower to the quorum stood, but a forwarded write is not taken
//! by the leader for a sign of life. Signs of life travel in the follower's answers to the leader's pings, one each
//! half tick.
//!
//! So two things are put together. A request that was answered at `r` was known to the follower at `r`. Within half a
//! tick (and the lateness δ) after `r` the leader's ping came by and took that knowledge along, on the same ordered
//! channel on which a write sent later travels. When a write sent at `t ≥ r + tick/2 + δ` is acknowledged, the leader
//! has read everything before it on that channel: it knows that the session lived when the request was sent, and will
//! not end it earlier than a full timeout after that.
//!
//! Everything is counted from when a request was *sent*, and answers from when they were *read*: late stamps of either
//! kind only make the result earlier. This file knows of connections and requests only what its callers pass to it.

use std::collections::VecDeque;
use std::time::Duration;

use crate::time::Timestamp;

/// The lateness of a leader's ping that is allowed for.
const PING_LATENESS: Duration = Duration::from_millis(100);

/// The margin, to which a fiftieth of the timeout is added for clocks that run unequally fast.
const MARGIN: Duration = Duration::from_millis(100);

/// The part of the timeout that is added to the margin.
const MARGIN_TIMEOUT_DIVISOR: u32 = 50;

/// How many answers are remembered while they wait for a write to prove them.
///
/// An answer of each slot (see [`Anchor::slot`]) is enough; forgetting the oldest only makes the result earlier. At
/// this number the memory reaches back eight times as far as an answer must lie behind the write that proves it.
const SAMPLES_MAX: usize = 512;

/// How many slots the span between an answer and the write that proves it is cut into.
const SLOTS_PER_SPAN: u32 = 64;

/// Bounds under which [`Anchor`] is right; read them as promises about the ensemble.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct AnchorConfig {
    tick: Option<Duration>,
}

impl AnchorConfig {
    /// Takes the ensemble's tick if it is known.
    ///
    /// Else half of the session timeout stands for it, which is right while the ensemble's `minSessionTimeout` is at
    /// least two ticks, as it is by default.
    pub const fn new(tick: Option<Duration>) -> Self {
        Self { tick }
    }

    /// How long before a write is sent an answer must have come to be proved by the write.
    pub fn span(&self, timeout_least: Duration) -> Duration {
        self.tick.unwrap_or(timeout_least / 2) / 2 + PING_LATENESS
    }

    /// How much earlier than the service a session is given up.
    pub fn margin(&self, timeout_least: Duration) -> Duration {
        MARGIN + timeout_least / MARGIN_TIMEOUT_DIVISOR
    }
}

/// Says what an answered request proves.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "until when a session may be believed depends on each")]
pub enum ProofKind {
    /// That the server we are connected to knew the session to live: a read, a ping.
    SignOfLife,
    /// That too, and that the path to the quorum stood after the request was sent: an acknowledged write.
    Write,
}

/// A request and its answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Exchange {
    /// A time not after the request was handed to the network.
    pub sent_at: Timestamp,
    /// A time not before the answer came from the network.
    pub received_at: Timestamp,
    /// What it proves.
    pub proof: ProofKind,
}

/// Follows one session's requests and answers, and says until when the session may be believed to live.
///
/// Belongs to one session; the next session gets a new one. A proof outlives a connection, a write under way does
/// not, since another server's channel to the leader proves nothing about the first one's.
#[derive(Clone, Debug)]
pub struct Anchor {
    config: AnchorConfig,
    /// The least timeout ever negotiated: a restarted server goes back to it.
    timeout_least: Option<Duration>,
    /// The newest sending time that the leader certainly knows of.
    anchored_at: Option<Timestamp>,
    /// The handshake of this connection, until a write proves it.
    connect: Option<Sample>,
    /// Answers on this connection, oldest first, at most one a slot.
    samples: VecDeque<Sample>,
}

/// Stands for the answers of one slot: the newest request among them, and when the last of them came.
#[derive(Clone, Copy, Debug)]
struct Sample {
    sent_at: Timestamp,
    first_received_at: Timestamp,
    received_at: Timestamp,
}

impl Anchor {
    /// Starts with a session of which nothing is known.
    pub const fn new(config: AnchorConfig) -> Self {
        Self { config, timeout_least: None, anchored_at: None, connect: None, samples: VecDeque::new() }
    }

    /// The time until which the service has certainly not ended the session; `None` while nothing is proved.
    ///
    /// Right under the bounds of [`AnchorConfig`], while the clock of the caller that stamps does not stop. It moves
    /// back if a server grants a shorter timeout than all before it.
    pub fn safe_until(&self) -> Option<Timestamp> {
        let timeout = self.timeout_least?;
        Some(self.anchored_at?.after(timeout).before(self.config.margin(timeout)))
    }

    /// The newest sending time that the leader certainly knows of.
    pub const fn anchored_at(&self) -> Option<Timestamp> {
        self.anchored_at
    }

    /// The least timeout negotiated over the session's life.
    pub const fn timeout_least(&self) -> Option<Duration> {
        self.timeout_least
    }

    /// Notes a handshake that made the session or went on with it on a new connection.
    ///
    /// It went through the leader itself, so the write that proves it need not wait for the leader's ping.
    pub fn handle_connected(&mut self, sent_at: Timestamp, received_at: Timestamp, timeout: Duration) {
        self.timeout_least = Some(self.timeout_least.map_or(timeout, |least| least.min(timeout)));
        self.samples.clear();
        self.connect = Some(Sample { sent_at, first_received_at: received_at, received_at });
    }

    /// Notes that the connection is gone.
    pub fn handle_disconnected(&mut self) {
        self.samples.clear();
        self.connect = None;
    }

    /// Notes a request answered on the present connection.
    pub fn handle_exchange(&mut self, exchange: Exchange) {
        if exchange.proof == ProofKind::Write {
            self.prove(exchange.sent_at);
        }
        self.remember(exchange);
    }

    /// Moves the anchor to the newest request that a write sent at `write_sent_at` proves.
    fn prove(&mut self, write_sent_at: Timestamp) {
        let Some(timeout) = self.timeout_least else {
            return;
        };
        if let Some(connect) = self.connect.take_if(|connect| connect.received_at <= write_sent_at) {
            self.anchored_at = self.anchored_at.max(Some(connect.sent_at));
        }
        // Added to the one side and not taken from the other, so that saturation at the origin proves nothing.
        let span = self.config.span(timeout);
        while let Some(sample) = self.samples.front()
            && sample.received_at.after(span) <= write_sent_at
        {
            self.anchored_at = self.anchored_at.max(Some(sample.sent_at));
            self.samples.pop_front();
        }
    }

    fn remember(&mut self, exchange: Exchange) {
        let Exchange { sent_at, received_at, .. } = exchange;
        let slot = self.slot();
        if let Some(last) = self.samples.back_mut()
            && received_at.since(last.first_received_at) < slot
        {
            last.sent_at = last.sent_at.max(sent_at);
            last.received_at = last.received_at.max(received_at);
            return;
        }
        if self.samples.len() == SAMPLES_MAX {
            self.samples.pop_front();
        }
        self.samples.push_back(Sample { sent_at, first_received_at: received_at, received_at });
    }

    fn slot(&self) -> Duration {
        self.timeout_least.map_or(Duration::ZERO, |timeout| self.config.span(timeout) / SLOTS_PER_SPAN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(10);
    /// tick/2 + δ for a tick of 2 s.
    const SPAN_MS: u64 = 1_100;
    /// 100 ms and a fiftieth of 10 s.
    const MARGIN_MS: u64 = 300;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn exchange(sent: u64, received: u64, proof: ProofKind) -> Exchange {
        Exchange { sent_at: at(sent), received_at: at(received), proof }
    }

    /// A session whose handshake was sent at 1.00 s and answered at 1.01 s.
    fn connected() -> Anchor {
        let mut anchor = Anchor::new(AnchorConfig::new(Some(Duration::from_secs(2))));
        anchor.handle_connected(at(1_000), at(1_010), TIMEOUT);
        anchor
    }

    #[test]
    fn nothing_is_believed_before_a_write_is_acknowledged() {
        let mut anchor = connected();
        assert_eq!(anchor.safe_until(), None);
        for ping in 2..60 {
            anchor.handle_exchange(exchange(ping * 1_000, ping * 1_000 + 1, ProofKind::SignOfLife));
        }
        assert_eq!(anchor.safe_until(), None);
    }

    #[test]
    fn the_first_write_proves_the_handshake_without_waiting_for_the_leaders_ping() {
        let mut anchor = connected();
        anchor.handle_exchange(exchange(1_010, 1_020, ProofKind::Write));
        assert_eq!(anchor.safe_until(), Some(at(11_000 - MARGIN_MS)));
    }

    #[test]
    fn a_write_proves_requests_answered_at_least_the_span_before_it_was_sent() {
        let mut anchor = connected();
        anchor.handle_exchange(exchange(5_000, 5_010, ProofKind::SignOfLife));
        anchor.handle_exchange(exchange(5_500, 5_510, ProofKind::SignOfLife));
        anchor.handle_exchange(exchange(5_510 + SPAN_MS - 1, 6_700, ProofKind::Write));
        assert_eq!(anchor.anchored_at(), Some(at(5_000)), "the second was answered a millisecond too late");
        anchor.handle_exchange(exchange(6_705, 6_710, ProofKind::Write));
        assert_eq!(anchor.anchored_at(), Some(at(5_500)));
    }

    #[test]
    fn a_write_does_not_prove_itself_but_a_later_one_does() {
        let mut anchor = connected();
        anchor.handle_exchange(exchange(20_000, 20_010, ProofKind::Write));
        assert_eq!(anchor.anchored_at(), Some(at(1_000)));
        anchor.handle_exchange(exchange(22_000, 22_010, ProofKind::Write));
        assert_eq!(anchor.anchored_at(), Some(at(20_000)));
    }

    #[test]
    fn what_was_not_proved_on_a_connection_is_lost_with_it_and_what_was_stays() {
        let mut anchor = connected();
        anchor.handle_exchange(exchange(2_000, 2_010, ProofKind::Write));
        anchor.handle_exchange(exchange(5_000, 5_010, ProofKind::SignOfLife));
        anchor.handle_disconnected();
        assert_eq!(anchor.anchored_at(), Some(at(1_000)));
        anchor.handle_connected(at(6_000), at(6_010), TIMEOUT);
        anchor.handle_exchange(exchange(6_000, 6_020, ProofKind::Write));
        assert_eq!(anchor.anchored_at(), Some(at(1_000)), "sent before the new handshake was answered");
        anchor.handle_exchange(exchange(6_030, 6_040, ProofKind::Write));
        assert_eq!(anchor.anchored_at(), Some(at(6_000)));
    }

    #[test]
    fn the_least_timeout_ever_granted_counts() {
        let mut anchor = connected();
        anchor.handle_exchange(exchange(2_000, 2_010, ProofKind::Write));
        anchor.handle_connected(at(3_000), at(3_010), Duration::from_secs(4));
        assert_eq!(anchor.safe_until(), Some(at(5_000 - 180)));
        anchor.handle_connected(at(4_000), at(4_010), Duration::from_secs(30));
        assert_eq!((anchor.timeout_least(), anchor.safe_until()), (Some(Duration::from_secs(4)), Some(at(4_820))));
    }

    #[test]
    fn the_bounds_grow_with_the_timeout() {
        let config = AnchorConfig::default();
        assert_eq!(config.span(TIMEOUT), Duration::from_millis(2_600), "half the timeout stands for the tick");
        assert_eq!(config.margin(TIMEOUT), Duration::from_millis(MARGIN_MS));
    }

    #[test]
    fn memory_is_bounded_and_forgetting_only_makes_the_result_earlier() {
        let mut anchor = connected();
        for millis in 0..200_000 {
            anchor.handle_exchange(exchange(2_000 + millis, 2_000 + millis, ProofKind::SignOfLife));
        }
        assert!(anchor.samples.len() <= SAMPLES_MAX);
        anchor.handle_exchange(exchange(202_000, 202_001, ProofKind::Write));
        let anchored = anchor.anchored_at().unwrap();
        assert!(anchored <= at(202_000 - SPAN_MS));
        assert!(anchored >= at(202_000 - SPAN_MS - 20), "at most one slot is given away: {anchored:?}");
    }
}
