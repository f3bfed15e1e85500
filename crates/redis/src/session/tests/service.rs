//! The service for two sessions and one lock, as its scripts keep it: clock, guard, ends of sessions, and places.

use std::time::Duration;

use crate::session::belief::Timing;

/// The shortest timeout that a session may have: its guard is the least that there can be.
const SHORTEST: Timing = Timing { timeout: Duration::from_secs(2) };

/// What a service could do wrong.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum ServerBug {
    /// Its clock goes on with the server's, however far that jumps: `clock=trust`.
    TrustsClock,
    /// It goes on by as much as the session of the longest timeout allows.
    TakesGreatestGuard,
    /// Sessions are removed after half of their timeout.
    EndsEarly,
    /// The dead are never removed.
    KeepsTheDead,
    /// A clock that was lost begins where the first session ends.
    BeginsClockLate,
    /// Tokens are counted, and do not follow the time.
    CountsTokens,
    /// Where tokens were lost with the clock, they begin with the time, and not behind the places that stand.
    ForgetsTokens,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum Call {
    Open,
    Renew,
    Join,
    Look,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum Answer {
    Gone,
    /// The session stands; its place, and whether that is the first.
    Stands {
        place: Option<u64>,
        is_first: bool,
    },
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
struct Record {
    /// Which session of its client this is.
    number: u8,
    ends_ms: u64,
    /// The token of its place in the queue.
    place: Option<u64>,
}

/// When a call is executed: by the server's clock, and in microseconds for tokens.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServerTime {
    pub(super) ms: u64,
    pub(super) us: u64,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
struct KeptClock {
    vt_ms: u64,
    seen_ms: u64,
    guard_ms: u64,
    token: u64,
}

/// One server's data.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Data {
    timeouts_s: [u64; 2],
    bug: Option<ServerBug>,
    /// `None` if it is lost.
    clock: Option<KeptClock>,
    sessions: [Option<Record>; 2],
}

impl Data {
    pub(super) fn new(timeouts_s: [u64; 2], bug: Option<ServerBug>) -> Self {
        Self { timeouts_s, bug, clock: None, sessions: [None; 2] }
    }

    fn timing(&self, who: usize) -> Timing {
        Timing { timeout: Duration::from_secs(self.timeouts_s[who]) }
    }

    /// The clock as a call finds it that goes on by nothing.
    fn clock(&self, server_ms: u64) -> KeptClock {
        let guard_ms = milliseconds(SHORTEST.guard());
        let token = match self.bug {
            Some(ServerBug::ForgetsTokens) => 0,
            _ => self.sessions.iter().flatten().filter_map(|record| record.place).max().unwrap_or(0),
        };
        self.clock.unwrap_or_else(|| KeptClock { vt_ms: self.first_vt_ms(), seen_ms: server_ms, guard_ms, token })
    }

    /// Where a clock that was lost begins: before the renewal of the session that ends first.
    fn first_vt_ms(&self) -> u64 {
        let ends = (0..2).filter_map(|who| Some((self.sessions[who]?.ends_ms, who)));
        let Some((ends_ms, who)) = ends.min() else { return 0 };
        match self.bug {
            Some(ServerBug::BeginsClockLate) => ends_ms,
            _ => ends_ms.saturating_sub(milliseconds(self.timing(who).timeout)),
        }
    }

    /// By how much the clock goes on with a call now.
    fn step_ms(&self, clock: KeptClock, server_ms: u64) -> u64 {
        let passed_ms = server_ms.saturating_sub(clock.seen_ms);
        if self.bug == Some(ServerBug::TrustsClock) { passed_ms } else { passed_ms.min(clock.guard_ms) }
    }

    /// Executes a call of a client's session of this number.
    pub(super) fn execute(&mut self, (who, number): (usize, u8), call: Call, now: ServerTime) -> Answer {
        let mut clock = self.clock(now.ms);
        clock.vt_ms += self.step_ms(clock, now.ms);
        clock.seen_ms = now.ms;
        self.clock = Some(clock);
        self.remove_the_dead(clock.vt_ms);
        if call == Call::Open {
            self.sessions[who] = Some(Record { number, ends_ms: 0, place: None });
            self.keep_guard();
        }
        let timeout_ms = milliseconds(self.timing(who).timeout);
        let counts = self.bug == Some(ServerBug::CountsTokens);
        let Some(record) = self.sessions[who].as_mut().filter(|record| record.number == number) else {
            return Answer::Gone;
        };
        if call != Call::Look {
            record.ends_ms = clock.vt_ms + timeout_ms;
        }
        if call == Call::Join && record.place.is_none() {
            clock.token = (clock.token + 1).max(if counts { 0 } else { now.us });
            record.place = Some(clock.token);
            self.clock.as_mut().expect("it was kept").token = clock.token;
        }
        let place = record.place;
        let first = self.sessions.iter().flatten().filter_map(|record| record.place).min();
        Answer::Stands { place, is_first: place.is_some() && place == first }
    }

    fn remove_the_dead(&mut self, vt_ms: u64) {
        for who in 0..2 {
            let is_dead = self.sessions[who].is_some_and(|record| record.ends_ms <= vt_ms + self.early_ms(who));
            if is_dead && self.bug != Some(ServerBug::KeepsTheDead) {
                self.sessions[who] = None;
                self.keep_guard();
            }
        }
    }

    fn early_ms(&self, who: usize) -> u64 {
        match self.bug {
            Some(ServerBug::EndsEarly) => milliseconds(self.timing(who).timeout / 2),
            _ => 0,
        }
    }

    fn keep_guard(&mut self) {
        let guards = (0..2).filter(|&who| self.sessions[who].is_some()).map(|who| self.timing(who).guard());
        let guard = match self.bug {
            Some(ServerBug::TakesGreatestGuard) => guards.max(),
            _ => guards.min(),
        };
        if let Some(clock) = &mut self.clock {
            clock.guard_ms = milliseconds(guard.unwrap_or_else(|| SHORTEST.guard()));
        }
    }

    pub(super) fn lose_clock(&mut self) {
        self.clock = None;
    }

    pub(super) fn lose_all(&mut self) {
        (self.clock, self.sessions) = (None, [None; 2]);
    }

    /// Whether the place of a client's session is there.
    pub(super) fn has_place(&self, (who, number): (usize, u8)) -> bool {
        self.sessions[who].is_some_and(|record| record.number == number && record.place.is_some())
    }

    /// After how long the session can be removed, at the earliest: others call all the time, and the server's clock
    /// jumps if it may. Zero if it is not there.
    pub(super) fn lasts_ms(&self, (who, number): (usize, u8), server_ms: u64, may_jump: bool) -> u64 {
        let Some(record) = self.sessions[who].filter(|record| record.number == number) else { return 0 };
        let clock = self.clock(server_ms);
        let jump_ms = match (may_jump, self.bug) {
            (false, _) => 0,
            (true, Some(ServerBug::TrustsClock)) => u64::MAX / 2,
            (true, _) => clock.guard_ms,
        };
        let gone_ms = self.step_ms(clock, server_ms) + jump_ms + self.early_ms(who);
        record.ends_ms.saturating_sub(clock.vt_ms).saturating_sub(gone_ms)
    }
}

pub(super) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).expect("it is short")
}
