//! A small model of how an ensemble learns that a session lives: what follower and leader know, and when.
//!
//! A request touches the session at the follower as it arrives there. The leader pings each follower every half tick,
//! up to δ late; the follower's answer carries the touches since the last one. A forwarded write travels on the same
//! ordered channel and is no touch. The leader ends the session a timeout after the last touch it knows of, rounded up
//! to the tick. A handshake goes to the leader and is a touch there. One follower, the last one in use, is cut off
//! from the leader at some time; it goes on answering reads and pings. Times are milliseconds.

use std::collections::{BTreeMap, VecDeque};

/// What a client sends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Kind {
    Connect,
    Ping,
    Write,
}

/// How the ensemble is set up and what happens to it.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) tick: u64,
    pub(crate) timeout: u64,
    /// One way between client and follower.
    pub(crate) client_latency: u64,
    /// One way between follower and leader.
    pub(crate) quorum_latency: u64,
    /// When the leader's first ping leaves.
    pub(crate) ping_phase: u64,
    /// How late each ping is, in turn.
    pub(crate) ping_lateness: Vec<u64>,
    /// When the last follower in use is cut off.
    pub(crate) cut_at: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    pub(crate) kind: Kind,
    pub(crate) sent_at: u64,
    pub(crate) received_at: u64,
}

#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) answers: Vec<Answer>,
    /// When the leader last had a sign of life of the session.
    pub(crate) touched_at: u64,
    pub(crate) expired_at: u64,
}

/// How long after the cut the follower goes on serving: its sync limit, about three ticks of 2 s in practice.
const SERVES_AFTER_CUT: u64 = 6_000;

#[derive(Debug)]
enum Happening {
    AtFollower { follower: usize, request: usize },
    PingAtFollower { follower: usize },
    TouchAtLeader,
    WriteAtLeader { follower: usize, request: usize },
    ConnectAtLeader { follower: usize, request: usize },
    CommitAtFollower { request: usize },
}

/// Where a request's answer stands: replies of one connection leave in order.
struct Pending {
    follower: usize,
    request: usize,
    ready: bool,
}

struct Model<'a> {
    setup: &'a Setup,
    requests: &'a [(u64, Kind)],
    last_follower: usize,
    queue: BTreeMap<(u64, usize), Happening>,
    order: usize,
    touched: Vec<bool>,
    pending: VecDeque<Pending>,
    touched_at: u64,
    expiry: Option<u64>,
    expired_at: Option<u64>,
    answers: Vec<Answer>,
}

/// Runs the client's requests, given as sending time and kind in order of time, against the ensemble.
pub(crate) fn run(setup: &Setup, requests: &[(u64, Kind)]) -> Outcome {
    let connects = requests.iter().filter(|(_, kind)| *kind == Kind::Connect).count();
    let mut model = Model {
        setup,
        requests,
        last_follower: connects,
        queue: BTreeMap::new(),
        order: 0,
        touched: vec![false; connects + 1],
        pending: VecDeque::new(),
        touched_at: 0,
        expiry: None,
        expired_at: None,
        answers: Vec::new(),
    };
    let mut follower = 0;
    for (index, (sent_at, kind)) in requests.iter().enumerate() {
        follower += usize::from(*kind == Kind::Connect);
        model.schedule(sent_at + setup.client_latency, Happening::AtFollower { follower, request: index });
    }
    let end = requests.last().map_or(0, |(sent_at, _)| *sent_at) + 2 * setup.timeout;
    for follower in 1..=connects {
        let mut leaves_at = setup.ping_phase;
        for lateness in setup.ping_lateness.iter().cycle().skip(follower) {
            if leaves_at > end {
                break;
            }
            model.send_quorum(leaves_at, follower, Happening::PingAtFollower { follower });
            leaves_at += setup.tick / 2 + lateness;
        }
    }
    while let Some(((now, _), happening)) = model.queue.pop_first() {
        model.expire(now);
        model.handle(now, happening);
    }
    let expired_at = model.expired_at.or(model.expiry).expect("the script connects");
    Outcome { answers: model.answers, touched_at: model.touched_at, expired_at }
}

impl Model<'_> {
    fn schedule(&mut self, at: u64, happening: Happening) {
        self.order += 1;
        self.queue.insert((at, self.order), happening);
    }

    /// Sends something between follower and leader; it is lost if it would arrive after the cut.
    fn send_quorum(&mut self, now: u64, follower: usize, happening: Happening) {
        let arrives_at = now + self.setup.quorum_latency;
        if follower != self.last_follower || arrives_at < self.setup.cut_at {
            self.schedule(arrives_at, happening);
        }
    }

    fn expire(&mut self, now: u64) {
        if self.expired_at.is_none() {
            self.expired_at = self.expiry.filter(|expiry| *expiry <= now);
        }
    }

    fn touch_leader(&mut self, now: u64) {
        if self.expired_at.is_none() {
            self.touched_at = now;
            let expiry = ((now + self.setup.timeout) / self.setup.tick + 1) * self.setup.tick;
            self.expiry = self.expiry.max(Some(expiry));
        }
    }

    fn handle(&mut self, now: u64, happening: Happening) {
        match happening {
            Happening::AtFollower { follower, request } => self.request_at_follower(now, follower, request),
            Happening::PingAtFollower { follower } => {
                if std::mem::take(&mut self.touched[follower]) {
                    self.send_quorum(now, follower, Happening::TouchAtLeader);
                }
            }
            Happening::TouchAtLeader => self.touch_leader(now),
            Happening::WriteAtLeader { follower, request } => {
                if self.expired_at.is_none() {
                    self.send_quorum(now, follower, Happening::CommitAtFollower { request });
                }
            }
            Happening::ConnectAtLeader { follower, request } => {
                self.touch_leader(now);
                if self.expired_at.is_none() {
                    self.send_quorum(now, follower, Happening::CommitAtFollower { request });
                }
            }
            Happening::CommitAtFollower { request } => {
                if let Some(pending) = self.pending.iter_mut().find(|pending| pending.request == request) {
                    pending.ready = true;
                }
                self.answer(now);
            }
        }
    }

    fn request_at_follower(&mut self, now: u64, follower: usize, request: usize) {
        let cut_for = if follower == self.last_follower { now.saturating_sub(self.setup.cut_at) } else { 0 };
        if cut_for > SERVES_AFTER_CUT {
            return;
        }
        let kind = self.requests[request].1;
        match kind {
            Kind::Connect => {
                // The client gave up its old connection: its requests have no more answers.
                self.pending.clear();
                self.send_quorum(now, follower, Happening::ConnectAtLeader { follower, request });
            }
            Kind::Ping => self.touched[follower] = true,
            Kind::Write => {
                self.touched[follower] = true;
                self.send_quorum(now, follower, Happening::WriteAtLeader { follower, request });
            }
        }
        self.pending.push_back(Pending { follower, request, ready: kind == Kind::Ping });
        self.answer(now);
    }

    fn answer(&mut self, now: u64) {
        while self.pending.front().is_some_and(|pending| pending.ready) {
            let Some(Pending { follower, request, .. }) = self.pending.pop_front() else {
                break;
            };
            let received_at = now + self.setup.client_latency;
            let (sent_at, kind) = self.requests[request];
            let given_up = self.requests.iter().filter(|(at, kind)| *kind == Kind::Connect && *at <= received_at);
            if given_up.count() == follower {
                self.answers.push(Answer { kind, sent_at, received_at });
            }
        }
    }
}
