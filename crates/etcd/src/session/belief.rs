//! Belief in a session, and its end: a rule of events and times, without a clock or a connection.
//!
//! The answer to a keepalive proves nothing by itself: a leader that stood still while another was elected answers with
//! the full time, though its successor has not heard of the renewal. So a renewal counts once a linearizable request
//! that was sent after its answer was answered by the same member within the same term of raft; which session has sent
//! it does not matter. That answer shows that a quorum followed this term's leader after the renewal. A leader that
//! comes later gives every lease its whole time anew when it takes over, and so keeps this one for longer than we
//! believe in it.

use std::time::Duration;

use lockkeeper_core::clock::BootInstant;
use lockkeeper_session::SessionTiming;

/// A renewal that is not answered within this part of the timeout goes to another member too.
const DOUBT_DIVISOR: u32 = 10;

/// A session that waits, and holds nothing, is renewed once in this part of the timeout: its renewals are most of what
/// thousands of waiters ask of a service …
const WAITING_DIVISOR: u32 = 2;

/// … but so long before its lease would end at least, for a renewal that fails, unless the timeout is shorter.
const WAITING_LEAVES: Duration = Duration::from_secs(10);

/// The proof of a renewal waits for this part of the timeout for those of other sessions.
const PROOF_WAITS_DIVISOR: u32 = 60;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Timing {
    pub(crate) timeout: Duration,
}

impl Timing {
    /// How long a renewal may take before it goes to another member too.
    pub(crate) fn doubt(self) -> Duration {
        self.part_for(DOUBT_DIVISOR)
    }

    /// How long after a renewal the next one is sent, while the session only waits.
    pub(crate) fn waiting_interval(self) -> Duration {
        let left = self.timeout.saturating_sub(WAITING_LEAVES);
        (self.timeout / WAITING_DIVISOR).min(left).max(self.idle_interval())
    }

    /// How long the proof of a renewal waits for those of other sessions, where it may.
    pub(crate) fn proof_waits(self) -> Duration {
        self.timeout / PROOF_WAITS_DIVISOR
    }

    /// How old the last proven renewal is at most when a lock is granted, and while it is held.
    fn proof_age_max(self) -> Duration {
        self.idle_interval().max(2 * self.holding_interval())
    }
}

impl SessionTiming for Timing {
    const PATIENCE_DIVISOR: u32 = 5;

    fn timeout(self) -> Duration {
        self.timeout
    }

    /// A waiter whose turn comes long after its last renewal is renewed first.
    fn worth_granting(self) -> Duration {
        self.timeout.saturating_sub(self.margin() + self.proof_age_max())
    }

    /// At worst, the last renewal was answered as late as may be, and the next one was due an interval later; or the
    /// lock was granted just before a renewal that was due at the pace of a session without contenders.
    fn notice(self) -> Duration {
        self.worth_granting().saturating_sub(self.patience())
    }
}

#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct Renewal {
    /// When it was sent, or earlier.
    pub(crate) sent_at: BootInstant,
    pub(crate) by: MemberTerm,
}

/// What an answer says of itself: the member that gives it, and the term of raft that this member knew.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct MemberTerm {
    pub(crate) cluster: u64,
    pub(crate) member: u64,
    pub(crate) term: u64,
}

/// The newest renewal that the answer to a linearizable request can prove, noted when the request is sent.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct TermWitness(Renewal);

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct LeaseBelief {
    /// The least time to live that was answered.
    timeout: Duration,
    newest: Renewal,
    /// The start of the time for which the session is believed.
    anchor: Option<BootInstant>,
}

impl LeaseBelief {
    /// Begins with the grant of the lease, which counts as a renewal that is not proven.
    pub(crate) fn new(granted: Renewal, timeout: Duration) -> Self {
        Self { timeout, newest: granted, anchor: None }
    }

    /// Notes an answered renewal, and for how long the service has renewed.
    pub(crate) fn renewed(&mut self, renewal: Renewal, timeout: Duration) {
        self.timeout = self.timeout.min(timeout);
        self.newest = renewal;
    }

    /// Notes that a linearizable request is about to be sent.
    pub(crate) fn witness(&self) -> TermWitness {
        TermWitness(self.newest)
    }

    /// Notes that such a request was answered. Returns until when the session may be believed, if that is longer than
    /// before.
    pub(crate) fn prove(&mut self, witness: TermWitness, by: MemberTerm) -> Option<BootInstant> {
        if witness.0.by != by || self.has_proven(witness) {
            return None;
        }
        self.anchor = Some(witness.0.sent_at);
        self.safe_until()
    }

    /// Whether the renewal that this is a witness of is proven, or a later one.
    pub(crate) fn has_proven(&self, witness: TermWitness) -> bool {
        self.anchor.is_some_and(|anchor| anchor >= witness.0.sent_at)
    }

    /// When the newest proven renewal was sent.
    pub(crate) fn proven_at(&self) -> Option<BootInstant> {
        self.anchor
    }

    /// Until when the session may be believed; `None` before the first proof.
    pub(crate) fn safe_until(&self) -> Option<BootInstant> {
        let timing = Timing { timeout: self.timeout };
        Some(self.anchor?.saturating_add(self.timeout.saturating_sub(timing.margin())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(20);

    fn at(milliseconds: u64) -> BootInstant {
        BootInstant::from_nanos(milliseconds * 1_000_000)
    }

    /// An answer of a member of a cluster.
    const MEMBER: MemberTerm = MemberTerm { cluster: 7, member: 1, term: 2 };

    fn renewal(sent_ms: u64) -> Renewal {
        Renewal { sent_at: at(sent_ms), by: MEMBER }
    }

    fn believed() -> LeaseBelief {
        let mut belief = LeaseBelief::new(renewal(1_000), TIMEOUT);
        let witness = belief.witness();
        assert_eq!(belief.prove(witness, MEMBER), Some(at(1_000 + 20_000 - 500)));
        belief
    }

    #[test]
    fn a_session_is_believed_from_the_sending_of_a_proven_renewal_for_its_timeout_less_a_margin() {
        let mut belief = LeaseBelief::new(renewal(1_000), TIMEOUT);
        assert_eq!(belief.safe_until(), None, "a grant alone proves nothing");
        let witness = belief.witness();
        belief.prove(witness, MEMBER);
        belief.renewed(renewal(4_000), TIMEOUT);
        assert_eq!(belief.safe_until(), Some(at(20_500)), "an answer alone proves nothing");
        let witness = belief.witness();
        assert_eq!(belief.prove(witness, MEMBER), Some(at(23_500)));
    }

    #[test]
    fn a_renewal_of_another_term_or_another_member_is_not_believed() {
        let mut belief = believed();
        belief.renewed(renewal(4_000), TIMEOUT);
        let witness = belief.witness();
        let overtaken = MemberTerm { term: 3, ..MEMBER };
        assert_eq!(belief.prove(witness, overtaken), None, "the leader that has answered was overtaken");
        assert_eq!(belief.prove(witness, MemberTerm { member: 2, ..MEMBER }), None);
        assert_eq!(belief.prove(witness, MemberTerm { cluster: 8, ..MEMBER }), None, "its terms are others");
        assert_eq!(belief.safe_until(), Some(at(20_500)));
    }

    #[test]
    fn a_request_that_was_sent_before_the_answer_proves_nothing_of_it() {
        let mut belief = believed();
        let early = belief.witness();
        belief.renewed(renewal(4_000), TIMEOUT);
        assert_eq!(belief.prove(early, MEMBER), None);
    }

    #[test]
    fn the_least_timeout_that_was_granted_counts() {
        let mut belief = believed();
        belief.renewed(renewal(4_000), Duration::from_secs(10));
        let witness = belief.witness();
        assert_eq!(belief.prove(witness, MEMBER), Some(at(4_000 + 10_000 - 300)));
        belief.renewed(renewal(5_000), TIMEOUT);
        let witness = belief.witness();
        assert_eq!(belief.prove(witness, MEMBER), Some(at(5_000 + 10_000 - 300)));
    }

    #[test]
    fn a_waiter_renews_at_half_of_its_timeout_where_that_leaves_ten_seconds_and_never_more_often_than_one_that_rests() {
        for (seconds, waiting_ms) in [(4, 1_000), (12, 3_000), (15, 5_000), (20, 10_000), (60, 30_000)] {
            let timing = Timing { timeout: Duration::from_secs(seconds) };
            assert_eq!(timing.waiting_interval().as_millis(), waiting_ms, "{seconds} s");
        }
    }

    #[test]
    fn a_session_is_renewed_before_a_grant_if_it_has_waited_for_long_and_not_if_it_rested() {
        for seconds in [20, 30, 60] {
            let timing = Timing { timeout: Duration::from_secs(seconds) };
            let left_after = |age| timing.timeout - timing.margin() - age;
            assert!(left_after(timing.waiting_interval()) < timing.worth_granting(), "{seconds} s");
            assert!(left_after(timing.idle_interval()) >= timing.worth_granting(), "{seconds} s");
        }
    }

    #[test]
    fn a_holder_is_warned_earlier_the_longer_its_session() {
        for (seconds, notice_ms) in [(2, 693), (4, 1_686), (20, 20_000 - 500 - 6_000 - 4_000)] {
            let notice = Timing { timeout: Duration::from_secs(seconds) }.notice();
            assert_eq!(notice.as_millis(), notice_ms, "{seconds} s");
        }
    }
}
