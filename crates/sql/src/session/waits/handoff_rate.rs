//! The rate of hand-offs in a queue: how soon a wait comes near its turn that stands far off, by how soon the one
//! before it did. Pure.

use std::time::Duration;

use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{FencingToken, QueueName};

/// The queue of a contender that waits, and its token there.
pub(crate) type WaitLine = (QueueName, FencingToken);

/// A session need not be told while at least this many stand ahead of its first wait: each notification wakes all
/// sessions of the database that listen, and 30 of them double the time of a hand-off.
pub(crate) const FAR: usize = 14;

/// It listens again when about this many are left ahead.
const NEAR: usize = 6;

/// Where a turn takes longer than this, those who listen are woken too seldom to matter.
const QUICK: Duration = Duration::from_millis(30);

/// For how long a measure holds: the crowd may be gone.
const MEASURE_HOLDS: Duration = Duration::from_secs(10);

/// The shortest rest that is worth three statements …
const REST_MIN: Duration = Duration::from_millis(60);

/// … and the longest one: a queue may come to be quicker meanwhile.
const REST_MAX: Duration = Duration::from_secs(1);

/// The part of the time until it is near that a session rests, of 8: the queue may come to be quicker.
const RESTED_OF_8: u32 = 7;

/// Those ahead of a wait are counted up to this many: more would not let it rest for longer.
pub(crate) const COUNTED_MAX: usize = 250;

/// How long turns take in a queue.
#[derive(Debug, Default)]
pub(crate) struct HandoffRate {
    /// The wait for which was counted last.
    counted: Option<CountedWait>,
    /// How long each turn took when that was measured last, and before; and when that was.
    turns: [Option<(Duration, BootInstant)>; 2],
}

#[derive(Debug)]
struct CountedWait {
    line: WaitLine,
    /// How many stood ahead, and when that was asked; `None` until it is answered.
    ahead: Option<(usize, BootInstant)>,
    /// When it was over last.
    ended_at: Option<BootInstant>,
}

/// How long a session rests.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct ListenPause {
    pub(crate) until: BootInstant,
    /// Whether the wait is near its turn then.
    pub(crate) is_near_then: bool,
}

impl HandoffRate {
    /// Whether those ahead of this wait were counted last.
    pub(crate) fn has_counted(&self, line: &WaitLine) -> bool {
        self.counted.as_ref().is_some_and(|counted| counted.line == *line)
    }

    /// Begins to count those ahead of a wait.
    pub(crate) fn count(&mut self, line: &WaitLine) {
        if self.has_counted(line) {
            return;
        }
        let counted = CountedWait { line: line.clone(), ahead: None, ended_at: None };
        let Some(last) = self.counted.replace(counted) else { return };
        if last.line.0 != line.0 {
            self.turns = [None; 2];
        } else if let (Some((ahead, at)), Some(ended_at)) = (last.ahead, last.ended_at) {
            self.measured(at, ended_at, ahead + 1);
        }
    }

    fn measured(&mut self, since: BootInstant, until: BootInstant, turns: usize) {
        let turn = until.saturating_duration_since(since) / u32::try_from(turns).unwrap_or(u32::MAX);
        self.turns = [Some((turn, until)), self.turns[0]];
    }

    /// The shorter one of the last two: a rest that is too short costs less than one that is too long.
    fn turn(&self, now: BootInstant) -> Option<Duration> {
        let holds = |at: BootInstant| now.saturating_duration_since(at) <= MEASURE_HOLDS;
        self.turns.iter().flatten().filter(|(_, at)| holds(*at)).map(|(turn, _)| *turn).min()
    }

    /// Returns how many are to stand ahead of a wait for a rest; `None` if there is to be none.
    pub(crate) fn far(&self, now: BootInstant) -> Option<usize> {
        let turn = self.turn(now).filter(|turn| *turn <= QUICK)?.max(Duration::from_micros(1));
        let turns = (REST_MIN * 8 / RESTED_OF_8).as_micros().div_ceil(turn.as_micros());
        Some(FAR.max(NEAR.saturating_add(usize::try_from(turns).unwrap_or(usize::MAX))))
    }

    /// Notes how many stood ahead of the wait when that was asked; returns how long the session may rest.
    pub(crate) fn counted(&mut self, ahead: usize, at: BootInstant) -> ListenPause {
        let seen = (ahead < COUNTED_MAX).then_some((ahead, at));
        let last = self.counted.as_mut().and_then(|counted| std::mem::replace(&mut counted.ahead, seen));
        if let Some((before, since)) = last
            && before > ahead
        {
            self.measured(since, at, before - ahead);
        }
        let turns = u32::try_from(ahead.saturating_sub(NEAR)).unwrap_or(u32::MAX);
        let rest = (self.turn(at).unwrap_or_default().saturating_mul(turns) / 8).saturating_mul(RESTED_OF_8);
        ListenPause { until: at.saturating_add(rest.min(REST_MAX)), is_near_then: rest <= REST_MAX }
    }

    /// Notes that a wait is over.
    pub(crate) fn ended(&mut self, line: &WaitLine, now: BootInstant) {
        if let Some(counted) = self.counted.as_mut().filter(|counted| counted.line == *line) {
            counted.ended_at = Some(now);
        }
    }
}

#[cfg(test)]
mod tests;
