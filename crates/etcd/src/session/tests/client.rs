//! A client of one lease with its real belief, what is under way between it and etcd's members, and wrong rules.

use std::time::Duration;

use lockkeeper_core::clock::BootInstant;
use lockkeeper_session::SessionTiming as _;

use super::leaders::TIMEOUT_MS;
use crate::session::belief::{LeaseBelief, MemberTerm, Renewal, TermWitness, Timing};

const TIMEOUT: Duration = Duration::from_millis(TIMEOUT_MS);

/// The wrong rules that the search has to find.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum ClientBug {
    /// An answered keepalive counts without a witness.
    AnswersProve,
    /// A witness of a later term counts too.
    LaterTermsProve,
    /// A request counts that was sent before the renewal was answered.
    EarlierRequestsProve,
    /// A read counts that its member answers without a quorum.
    MembersProve,
    /// A renewal counts from its answer, and not from its sending.
    CountsFromAnswers,
    /// A renewal counts from the answer to its witness.
    CountsFromProofs,
    /// Belief lasts for the whole timeout.
    NoMargin,
    /// A keepalive that is answered with no time left counts as a renewal.
    RefusalsRenew,
    /// No witness counts, so that nothing is ever believed for long.
    NothingProves,
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(super) enum Keepalive {
    Sent {
        at: BootInstant,
    },
    /// Answered with the term that the member knew, and whether the lease is there.
    Answered {
        sent_at: BootInstant,
        head: usize,
        lives: bool,
    },
}

/// How far a request has come that goes through the quorum.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(super) enum Stage {
    Sent,
    /// It writes, and a leader of this term has taken it into its log.
    Appended(usize),
    /// It was executed, and its answer says this term or a later one.
    Executed(usize),
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(super) struct Asked {
    /// The member that is asked.
    member: u64,
    pub(super) stage: Stage,
    witness: TermWitness,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Client {
    belief: LeaseBelief,
    newest: Renewal,
    /// One at most over each connection: a later one takes the place of one that is given up.
    pub(super) keepalives: Vec<Option<Keepalive>>,
    pub(super) asked: Vec<Asked>,
    /// How many members the connections lead to in turn.
    members: usize,
    bug: Option<ClientBug>,
}

fn member_term(member: u64, term: usize) -> MemberTerm {
    MemberTerm { cluster: 7, member, term: term as u64 }
}

impl Client {
    /// Begins with a lease that was granted at this moment in the first term, over the first connection.
    pub(super) fn new(granted_at: BootInstant, (connections, members): (usize, usize), bug: Option<ClientBug>) -> Self {
        let newest = Renewal { sent_at: granted_at, by: member_term(0, 0) };
        let belief = LeaseBelief::new(newest, TIMEOUT);
        Self { belief, newest, keepalives: vec![None; connections], asked: Vec::new(), members, bug }
    }

    fn has(&self, bug: ClientBug) -> bool {
        self.bug == Some(bug)
    }

    /// Whether any member may answer what should go through the quorum.
    pub(super) fn asks_members_alone(&self) -> bool {
        self.has(ClientBug::MembersProve)
    }

    pub(super) fn send_keepalive(&mut self, connection: usize, now: BootInstant) {
        self.keepalives[connection] = Some(Keepalive::Sent { at: now });
    }

    /// Takes in the answer to the keepalive of a connection, if it is there.
    pub(super) fn hear(&mut self, connection: usize, now: BootInstant) {
        let Some(Keepalive::Answered { sent_at, head, lives }) = self.keepalives[connection].take() else { return };
        if !lives && !self.has(ClientBug::RefusalsRenew) {
            return;
        }
        let sent_at = if self.has(ClientBug::CountsFromAnswers) { now } else { sent_at };
        self.newest = Renewal { sent_at, by: member_term(self.member_of(connection), head) };
        self.belief.renewed(self.newest, TIMEOUT);
        if self.has(ClientBug::AnswersProve) {
            let witness = self.belief.witness();
            self.belief.prove(witness, self.newest.by);
        }
    }

    fn member_of(&self, connection: usize) -> u64 {
        (connection % self.members) as u64
    }

    /// This session asks, or another one does for it.
    pub(super) fn ask(&mut self, connection: usize) {
        let (member, witness) = (self.member_of(connection), self.belief.witness());
        self.asked.push(Asked { member, stage: Stage::Sent, witness });
        // What differs only in its order is the same.
        self.asked.sort_unstable();
    }

    pub(super) fn advance(&mut self, which: usize, stage: Stage) {
        self.asked[which].stage = stage;
        self.asked.sort_unstable();
    }

    /// Takes in the answer to a request, with the term that its member knew.
    pub(super) fn learn(&mut self, which: usize, head: usize, now: BootInstant) {
        let Asked { member, witness, .. } = self.asked.remove(which);
        let witness = if self.has(ClientBug::EarlierRequestsProve) { self.belief.witness() } else { witness };
        let is_later = head as u64 >= self.newest.by.term;
        let is_blind = self.has(ClientBug::LaterTermsProve) && is_later;
        let answer = if is_blind { self.newest.by } else { member_term(member, head) };
        if self.has(ClientBug::NothingProves) {
            return;
        }
        let proven = self.belief.prove(witness, answer);
        if proven.is_some() && self.has(ClientBug::CountsFromProofs) {
            self.belief.renewed(Renewal { sent_at: now, ..self.newest }, TIMEOUT);
            let witness = self.belief.witness();
            self.belief.prove(witness, self.newest.by);
        }
    }

    /// For how long a renewal is believed.
    pub(super) fn belief_span() -> Duration {
        TIMEOUT - Timing { timeout: TIMEOUT }.margin()
    }

    /// Until when the session is believed, by the client's clock. Before the first proof it is so for half the timeout.
    pub(super) fn believed_until(&self, granted_at: BootInstant) -> BootInstant {
        let until = self.belief.safe_until().unwrap_or_else(|| granted_at.saturating_add(TIMEOUT / 2));
        let margin = Timing { timeout: TIMEOUT }.margin();
        if self.has(ClientBug::NoMargin) { until.saturating_add(margin) } else { until }
    }
}
