//! The records of the history, as small as they can be, and what names a contender in them.

use std::time::Duration;

use lockkeeper::{ContenderInfo, FencingToken, Mode};

use super::hold::PastEnd;
use super::names::NameNumber;

/// A duration that is not known, in milliseconds.
const UNKNOWN_MS: u32 = u32::MAX;

/// No token, where none can be so great.
const NO_TOKEN: u64 = u64::MAX;

/// A contender that has gone, as its history is kept.
#[derive(Clone, Debug)]
pub(super) struct PlaceRecord {
    token: u64,
    pub(super) from_ms: u64,
    pub(super) until_ms: u64,
    turn: u32,
    pub(super) who: WhoRecord,
    from_slack_ms: u32,
    pub(super) until_slack_ms: u32,
    waited_ms: u32,
    pub(super) mode: Mode,
    pub(super) end: PastEnd,
}

/// Who it was, by the numbers of names.
#[derive(Clone, Copy, Debug)]
pub(super) struct WhoRecord {
    pub(super) host: NameNumber,
    pub(super) program: NameNumber,
    /// 0 if it is not known.
    pub(super) pid: u32,
}

/// How many waited for a lock from a second on: at most within it, and at its end.
#[derive(Clone, Debug)]
pub(super) struct QueueRecord {
    pub(super) second: u32,
    pub(super) longest: u32,
    pub(super) last: u32,
}

/// How many contenders came and went unseen within a second.
#[derive(Clone, Debug)]
pub(super) struct UnseenRecord {
    pub(super) second: u32,
    pub(super) count: u32,
}

/// What has happened besides holds: a request to give up, a freeze, an alert.
#[derive(Clone, Debug)]
pub(super) struct MarkRecord {
    pub(super) at_ms: u64,
    pub(super) who: WhoRecord,
    pub(super) what: NameNumber,
}

impl QueueRecord {
    pub(super) fn new(at_ms: u64, longest: u32, last: u32) -> Self {
        Self { second: second(at_ms), longest: longest.max(last), last }
    }

    pub(super) const fn at_ms(&self) -> u64 {
        self.second as u64 * 1_000
    }

    /// Adds a later step.
    pub(super) fn join(&mut self, later: &Self) {
        (self.longest, self.last) = (self.longest.max(later.longest), later.last);
    }
}

impl PlaceRecord {
    pub(super) fn token(&self) -> Option<FencingToken> {
        FencingToken::new(self.token, self.turn)
    }

    pub(super) fn waited(&self) -> Option<Duration> {
        known_ms(self.waited_ms)
    }

    /// How long before it was seen to hold it may have held, if that is known.
    pub(super) fn slack_before(&self) -> Option<Duration> {
        known_ms(self.from_slack_ms)
    }

    /// A contender that has gone, of which no more is known.
    pub(super) fn new(
        token: Option<FencingToken>,
        [from_ms, until_ms]: [u64; 2],
        who: WhoRecord,
        mode: Mode,
        end: PastEnd,
    ) -> Self {
        let (turn, token) = (token.map_or(0, FencingToken::turn), token.map_or(NO_TOKEN, FencingToken::as_u64));
        let (from_slack_ms, until_slack_ms, waited_ms) = (UNKNOWN_MS, 0, UNKNOWN_MS);
        Self { token, from_ms, until_ms, turn, who, from_slack_ms, until_slack_ms, waited_ms, mode, end }
    }

    /// Adds for how long it has waited, and how much longer it may have held, before and after.
    pub(super) fn with_times(self, waited: Option<Duration>, from: Option<Duration>, until: Duration) -> Self {
        let brief = |span: Option<Duration>| span.map_or(UNKNOWN_MS, brief_ms);
        Self { waited_ms: brief(waited), from_slack_ms: brief(from), until_slack_ms: brief_ms(until), ..self }
    }
}

/// What names a contender: its host, or what its client wrote, or what the service shows; its program; its process.
pub(super) fn named(info: &ContenderInfo) -> (&str, &str, u32) {
    let session = info.session.as_deref();
    match (&info.owner, &info.label) {
        (Some(owner), _) => (&owner.host, &owner.command, owner.pid),
        (None, Some(label)) => (label, session.unwrap_or_default(), 0),
        // Each contender has another identity, and each session many contenders.
        (None, None) => (session.unwrap_or_else(|| info.id.as_str()), "", 0),
    }
}

pub(super) fn second(at_ms: u64) -> u32 {
    u32::try_from(at_ms / 1_000).unwrap_or(u32::MAX)
}

pub(super) fn whole_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Longer than 49 days is as long.
fn brief_ms(duration: Duration) -> u32 {
    u32::try_from(duration.as_millis()).unwrap_or(UNKNOWN_MS).min(UNKNOWN_MS - 1)
}

fn known_ms(ms: u32) -> Option<Duration> {
    (ms != UNKNOWN_MS).then(|| Duration::from_millis(u64::from(ms)))
}
