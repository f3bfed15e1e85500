//! etcd's leaders, for one lease: releases without the lease fault.
//!
//! A leader keeps in memory when each lease ends, and its peers do not know. One that takes over (`Promote`, in etcd's
//! words) gives each lease its whole time anew and an election timeout more; so does one after a restart of all. It
//! does so behind the first entry of its term, and so behind all that it takes over from earlier terms. A leader that
//! was overtaken without its knowledge still answers keepalives, for nothing; it revokes nothing, since that needs its
//! successor.

pub(super) const TIMEOUT_MS: u64 = 4_000;
pub(super) const ELECTION_MS: u64 = 1_000;

/// What a service could do wrong.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum ServerBug {
    /// A leader that was overtaken revokes what has run out in its memory: the lease fault before 3.4.31 and 3.5.13.
    OldLeaderRevokes,
    /// A leader that takes over gives leases an election timeout alone.
    PromotesWithoutTime,
    /// A leader that was overtaken answers linearizable reads.
    OldLeaderConfirms,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Leader {
    /// When the lease ends by its memory; `None` before it has taken over.
    ends_ms: Option<u64>,
    is_up: bool,
}

/// That the lease was revoked, and from which term on leaders know it.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
struct Revoked {
    at_ms: u64,
    term: usize,
}

/// The leaders of one lease's life, by term; the last is the one that a quorum follows.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Leaders {
    by_term: Vec<Leader>,
    revoked: Option<Revoked>,
    bug: Option<ServerBug>,
}

impl Leaders {
    /// Begins with a lease that was granted at time 0.
    pub(super) fn new(bug: Option<ServerBug>) -> Self {
        Self { by_term: vec![Leader { ends_ms: Some(TIMEOUT_MS), is_up: true }], revoked: None, bug }
    }

    pub(super) fn term(&self) -> usize {
        self.by_term.len() - 1
    }

    fn present(&self) -> &Leader {
        self.by_term.last().expect("there is a first leader")
    }

    /// Whether a quorum follows a leader that runs.
    pub(super) fn are_led(&self) -> bool {
        self.present().is_up
    }

    /// Whether the present leader runs and has not yet taken over.
    pub(super) fn may_promote(&self) -> bool {
        self.are_led() && self.present().ends_ms.is_none()
    }

    /// The leaders that run and have taken over once, overtaken ones among them.
    pub(super) fn primaries(&self) -> impl Iterator<Item = usize> {
        self.running().filter(|&term| self.by_term[term].ends_ms.is_some())
    }

    /// The leaders that run, overtaken ones among them.
    pub(super) fn running(&self) -> impl Iterator<Item = usize> {
        (0..self.by_term.len()).filter(|&term| self.by_term[term].is_up)
    }

    /// Lets time pass: the lease is revoked as soon as that may be.
    pub(super) fn pass(&mut self, now_ms: u64) {
        if self.revoked.is_none() {
            let ended = self.memory_ends_ms().filter(|&ends_ms| ends_ms <= now_ms);
            self.revoked = ended.map(|at_ms| Revoked { at_ms, term: self.term() });
        }
    }

    /// When the lease ends by the memory of a leader that can revoke it.
    fn memory_ends_ms(&self) -> Option<u64> {
        let revokes = |&term: &usize| term == self.term() || self.bug == Some(ServerBug::OldLeaderRevokes);
        self.primaries().filter(revokes).filter_map(|term| self.by_term[term].ends_ms).min()
    }

    /// The present leader dies, and with it its memory.
    pub(super) fn crash(&mut self) {
        self.by_term.last_mut().expect("there is a first leader").is_up = false;
    }

    pub(super) fn elect(&mut self) {
        self.by_term.push(Leader { ends_ms: None, is_up: true });
    }

    pub(super) fn promote(&mut self, now_ms: u64) {
        let ends_ms = self.promised_ms(now_ms);
        self.by_term.last_mut().expect("there is a first leader").ends_ms = Some(ends_ms);
    }

    fn promised_ms(&self, now_ms: u64) -> u64 {
        match self.bug {
            Some(ServerBug::PromotesWithoutTime) => now_ms + ELECTION_MS,
            _ => now_ms + TIMEOUT_MS + ELECTION_MS,
        }
    }

    /// Renews at a leader that has taken over, and may have been overtaken; returns whether the lease is there.
    pub(super) fn renew(&mut self, term: usize, now_ms: u64) -> bool {
        if self.revoked.is_some_and(|revoked| revoked.term <= term) {
            return false;
        }
        self.by_term[term].ends_ms = Some(now_ms + TIMEOUT_MS);
        true
    }

    /// The terms in which a linearizable read may be answered now: it needs a quorum, and an entry of this term.
    pub(super) fn confirming(&self) -> Vec<usize> {
        let confirms = |&term: &usize| term == self.term() || self.bug == Some(ServerBug::OldLeaderConfirms);
        self.primaries().filter(confirms).collect()
    }

    /// Whether a write that a leader of this term has appended may be committed now: by itself, or by a successor that
    /// takes it over, just before that one is promoted. None between them has written anything, or its log were
    /// another.
    pub(super) fn may_commit(&self, appended: usize) -> bool {
        let is_own = appended == self.term() && self.present().ends_ms.is_some();
        let between = self.by_term.get(appended + 1..).unwrap_or_default();
        let is_taken_over = appended < self.term() && between.iter().all(|leader| leader.ends_ms.is_none());
        self.are_led() && (is_own || is_taken_over)
    }

    /// When the lease was revoked; or when it will be if nothing comes but time and, where none leads, a leader.
    pub(super) fn end_ms(&self, now_ms: u64) -> u64 {
        let is_led = self.are_led() && !self.may_promote();
        let next_ms = if is_led { u64::MAX } else { self.promised_ms(now_ms) };
        let unless_revoked = || self.memory_ends_ms().unwrap_or(u64::MAX).min(next_ms);
        self.revoked.map_or_else(unless_revoked, |revoked| revoked.at_ms)
    }

    pub(super) fn is_revoked(&self) -> bool {
        self.revoked.is_some()
    }
}
