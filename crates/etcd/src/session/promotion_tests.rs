//! A model of etcd's leaders, against which the rule of belief is tested: releases without the lease fault.
//!
//! A leader keeps in memory when each lease ends, and its peers do not know. One that takes over (`Promote`, in etcd's
//! words) gives each lease its whole time anew and an election timeout more. A leader that was overtaken without its
//! knowledge still answers keepalives, for nothing; it revokes nothing, since that needs its successor.

use std::time::Duration;

use lockkeeper_core::clock::BootInstant;
use proptest::prelude::*;

use super::belief::{LeaseBelief, Renewal, TermWitness};

const TIMEOUT: Duration = Duration::from_secs(8);
const TIMEOUT_MS: u64 = 8_000;
const ELECTION_MS: u64 = 1_000;

const STEP_MS_MAX: u64 = 1_500;

const CONNECTION: u64 = 1;

/// The leaders of one lease's life, by term; the last is the one that a quorum follows.
struct Leaders {
    /// When the lease ends, by each leader's memory.
    ends_ms: Vec<u64>,
    revoked_ms: Option<u64>,
}

impl Leaders {
    fn new() -> Self {
        Self { ends_ms: vec![TIMEOUT_MS], revoked_ms: None }
    }

    fn term(&self) -> usize {
        self.ends_ms.len() - 1
    }

    /// Lets time pass: the true leader revokes the lease as soon as it may.
    fn pass(&mut self, now_ms: u64) {
        let ends_ms = self.ends_ms[self.term()];
        if self.revoked_ms.is_none() && ends_ms <= now_ms {
            self.revoked_ms = Some(ends_ms);
        }
    }

    fn elect(&mut self, now_ms: u64) {
        self.ends_ms.push(now_ms + TIMEOUT_MS + ELECTION_MS);
    }

    /// Renews at the leader of a term, which may have been overtaken; returns whether it answers with the full time.
    fn renew(&mut self, term: usize, now_ms: u64) -> bool {
        if term == self.term() && self.revoked_ms.is_some() {
            return false;
        }
        self.ends_ms[term] = now_ms + TIMEOUT_MS;
        true
    }

    fn end_ms(&self) -> u64 {
        self.revoked_ms.unwrap_or_else(|| self.ends_ms[self.term()])
    }
}

/// A client at one member, and what is under way between them.
struct Client {
    belief: LeaseBelief,
    /// What the simple rule believes: a timeout from the sending of a keepalive that was answered.
    simple_ms: u64,
    /// Keepalives on their way: when they were sent, and the term that the member knew when they came.
    keepalives: Vec<(u64, usize)>,
    answers: Vec<Renewal>,
    reads: Vec<TermWitness>,
    read_answers: Vec<(TermWitness, u64)>,
}

fn at(ms: u64) -> BootInstant {
    BootInstant::from_nanos(ms * 1_000_000)
}

fn ms(instant: BootInstant) -> u64 {
    instant.as_nanos() / 1_000_000
}

impl Client {
    fn new() -> Self {
        let granted = Renewal { sent_at: at(0), connection: CONNECTION, term: 0 };
        Self {
            belief: LeaseBelief::new(granted, TIMEOUT),
            simple_ms: TIMEOUT_MS,
            keepalives: Vec::new(),
            answers: Vec::new(),
            reads: Vec::new(),
            read_answers: Vec::new(),
        }
    }

    /// One event; `which` and `term` choose among what can happen.
    fn step(&mut self, leaders: &mut Leaders, kind: u8, which: usize, term: usize, now_ms: u64) {
        match kind {
            0 => self.keepalives.push((now_ms, term % (leaders.term() + 1))),
            1 => {
                let Some((sent_ms, known)) = taken(&mut self.keepalives, which) else { return };
                // The member asks the leader that it knows by then, which may be a later one than in the answer's head.
                let asked = known + term % (leaders.term() - known + 1);
                if leaders.renew(asked, now_ms) {
                    self.answers.push(Renewal { sent_at: at(sent_ms), connection: CONNECTION, term: known as u64 });
                }
            }
            2 => {
                let Some(renewal) = taken(&mut self.answers, which) else { return };
                self.simple_ms = self.simple_ms.max(ms(renewal.sent_at) + TIMEOUT_MS);
                self.belief.renewed(renewal, TIMEOUT);
            }
            3 => self.reads.push(self.belief.witness(CONNECTION)),
            4 => {
                let Some(witness) = taken(&mut self.reads, which) else { return };
                self.read_answers.push((witness, leaders.term() as u64));
            }
            5 => {
                let Some((witness, term)) = taken(&mut self.read_answers, which) else { return };
                self.belief.prove(witness, term);
            }
            _ => leaders.elect(now_ms),
        }
    }
}

fn taken<T>(waiting: &mut Vec<T>, which: usize) -> Option<T> {
    if waiting.is_empty() { None } else { Some(waiting.remove(which % waiting.len())) }
}

/// An event, what it chooses, and how much later than the one before it comes.
type Step = (u8, usize, usize, u64);

fn play(steps: &[Step]) -> (Leaders, Client) {
    let (mut leaders, mut client, mut now_ms) = (Leaders::new(), Client::new(), 0);
    for &(kind, which, term, later_ms) in steps {
        now_ms += later_ms;
        leaders.pass(now_ms);
        client.step(&mut leaders, kind, which, term, now_ms);
    }
    (leaders, client)
}

#[test]
fn a_keepalive_answered_by_a_leader_that_was_overtaken_fools_the_simple_rule_and_not_ours() {
    let steps = [
        (3, 0, 0, 0),
        (4, 0, 0, 0),
        (5, 0, 0, 0),
        // A standstill: another leader is elected, and the first one then answers a keepalive and a read.
        (6, 0, 0, 1_500),
        (0, 0, 0, 4_500),
        (1, 0, 0, 100),
        (2, 0, 0, 0),
        (3, 0, 0, 0),
        (4, 0, 0, 0),
        (5, 0, 0, 0),
    ];
    let (leaders, client) = play(&steps);
    assert_eq!(leaders.end_ms(), 1_500 + TIMEOUT_MS + ELECTION_MS);
    assert!(client.simple_ms > leaders.end_ms(), "{} ms", client.simple_ms);
    assert!(ms(client.belief.safe_until().expect("the grant was proven")) < TIMEOUT_MS);
}

proptest! {
    /// In every order of renewals, answers, delays and elections, the belief has ended when the lease is revoked.
    #[test]
    fn no_lease_is_revoked_while_it_is_believed(
        steps in proptest::collection::vec((0..7_u8, 0..8_usize, 0..8_usize, 0..STEP_MS_MAX), 0..80),
    ) {
        let (leaders, client) = play(&steps);
        if let Some(safe_until) = client.belief.safe_until() {
            prop_assert!(ms(safe_until) < leaders.end_ms(), "{} and {}", ms(safe_until), leaders.end_ms());
        }
    }
}
